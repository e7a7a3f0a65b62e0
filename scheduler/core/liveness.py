"""Which workers there are: registration, heartbeats, and what becomes of the work of a lost one.

The supervisor reports the end of a process at once; missed heartbeats are the second line, for a
process that lives and answers nothing. Such a process is ended, and its device is nobody's until it has.
"""

from math import inf

from scheduler.core.box import Box
from scheduler.core.device import Device
from scheduler.core.dispatch import NPU, Dispatcher
from scheduler.core.effects import Admit, Fact, Record
from scheduler.core.events import ProcessEnded, WorkerBeat, WorkerKept, WorkerLost, WorkerReady
from scheduler.core.helpers import HELPERS, Helpers
from scheduler.core.outside import Outside
from scheduler.core.puller import Puller
from scheduler.core.worker import Worker, kept

LEFT = "it left"  # a worker's farewell, as translate.py tells it


class Liveness:
    """Takes workers in and lets them go."""

    def __init__(
        self, box: Box, helpers: Helpers, dispatcher: Dispatcher, outside: Outside, puller: Puller
    ) -> None:
        self._box = box
        self._helpers = helpers
        self._dispatcher = dispatcher
        self._outside = outside
        self._puller = puller

    def on_worker_ready(self, event: WorkerReady) -> None:
        """A worker offers itself; one process a device."""
        box = self._box
        known = box.roster.by_route.get(event.route)
        if known is not None and known.nonce == event.nonce:
            box.out.append(Admit(event.route, known.epoch))  # its welcome was lost
            return
        if known is not None:
            self.lose(known, event.at, "another process took its place")
        device = box.device_named(event.device)
        if event.device == "" and event.kind in HELPERS:
            device = None
            twin = next(iter(box.roster.of_kind("sensors")), None)
            if event.kind == "sensors" and twin is not None:  # a fact has one owner
                box.expel(event.route, f"the sensors are read by {twin.name}, pid {twin.pid}")
                return
        elif device is None or device.kind != event.kind:
            names = ", ".join(d.name for d in box.devices.values())
            box.expel(event.route, f"no device {event.device!r} for a {event.kind} worker: {names}")
            return
        if device is not None and self._is_back(device, event):
            device.ending = None
        holder = device.worker or device.ending if device is not None else None
        if device is not None and holder is not None:
            state = "served by" if device.worker is not None else "not free before the end of"
            box.expel(event.route, f"{device.name} is {state} {holder.name}, pid {holder.pid}")
            return
        worker = box.roster.admit(event, box.epoch())
        box.meter.starts.add(worker.kind)
        box.out.append(Admit(event.route, worker.epoch))
        facts: dict[str, Fact] = {
            "worker": worker.name,
            "pid": worker.pid,
            "backend": worker.backend,
        }
        box.out.append(Record("worker_up", facts))
        if device is None:
            self._helpers.ask_waiting()
            if worker.kind == "store":
                self._puller.store_up(event.at)
        else:
            device.take_worker(worker)
            self._dispatcher.pump(device, event.at)

    @staticmethod
    def _is_back(device: Device, event: WorkerReady) -> bool:
        """Return whether this is the worker that an earlier start of the broker knew: its work has ended."""
        old = device.ending
        return (
            old is not None
            and not old.route
            and (old.pid, old.pid_started)
            == (
                event.pid,
                event.pid_started,
            )
        )

    def on_worker_kept(self, event: WorkerKept) -> None:
        """A worker of the time before the restart may still compute: its device waits for it."""
        device = self._box.device_named(event.device)
        if device is not None and device.worker is None and not device.active:
            device.ending = kept(event, device.kind)

    def on_worker_beat(self, event: WorkerBeat) -> None:
        """A worker lives; all its leases are renewed with it."""
        worker = self._box.worker(event.route, event.epoch)
        if worker is not None:
            worker.beat_at = event.at
            worker.resident = event.resident
            worker.backend = event.backend or worker.backend
            worker.on_trial = worker.on_trial or worker.suspect
            worker.suspect = False
            if worker.device:
                self._take_stock(worker, event)

    def _take_stock(self, worker: Worker, event: WorkerBeat) -> None:
        """Take in which rows a device worker has loaded; who waits for memory may go on."""
        box = self._box
        if box.residency.confirm(worker.device, event.resident, event.sizes, event.at, box.terms):
            for device in box.devices.values():
                if device.is_short:
                    self._dispatcher.pump(device, event.at)

    def on_worker_lost(self, event: WorkerLost) -> None:
        """A worker left, or cannot be reached."""
        worker = self._box.roster.by_route.get(event.route)
        if worker is not None:
            self.lose(worker, event.at, event.reason)

    def on_process_ended(self, event: ProcessEnded) -> None:
        """The supervisor saw a process end: a worker's, or an outside holder's with all its group."""
        if event.lease:
            self._outside.group_ended(event)
            return
        for device in self._box.devices.values():
            if device.ending is not None and device.ending.pid == event.pid:
                device.ending = None
                self._dispatcher.pump(device, event.at)
        for worker in self._box.roster.with_pid(event.pid):
            self.lose(worker, event.at, "its process ended")

    def lose_silent(self, at: float) -> None:
        """Let go of workers that missed too many heartbeats."""
        limits = self._box.limits
        longest_s = limits.missed_beats * limits.beat_s
        for worker in self._box.roster.by_route.values():
            if worker.leaving_at and at - worker.leaving_at > longest_s:
                worker.leaving_at = 0.0  # it did not leave after all
        for awaiting in self._box.devices.values():
            old = awaiting.ending
            if old is not None and not old.route and at - old.beat_at > longest_s:
                old.beat_at = inf  # told once
                self._box.kill_worker(old)
        for worker in self._box.roster.silent(at, longest_s):
            device = self._box.device_named(worker.device)
            if device is not None:  # it may still compute: nobody else may until it has ended
                device.ending = worker
            self._box.kill_worker(worker)  # while it lives no other is started in its place
            self.lose(worker, at, f"silent for {at - worker.beat_at:.1f} s")
            self._box.expel(worker.route, "too long silent")

    def lose(self, worker: Worker, at: float, reason: str) -> None:
        """Let go of a worker and hand its work on."""
        box = self._box
        del box.roster.by_route[worker.route]
        box.count("workers_lost")
        box.meter.losses.add(worker.kind)
        facts: dict[str, Fact] = {"worker": worker.name, "pid": worker.pid, "reason": reason}
        box.out.append(Record("worker_down", facts))
        if worker.kind in HELPERS:
            self._helpers.lost(worker)
            if worker.kind == "store":
                self._puller.store_lost(worker, at)
            return
        device = box.device_named(worker.device)
        if worker.kind == NPU and reason != LEFT:
            box.quarantine.crashed(at)
        if device is not None:
            device.stop_thinking(at)
            device.worker = None
            box.residency.forget(device.name)
            device.absent_since = at
            for number in sorted(worker.held, reverse=True):
                ticket = box.tickets[number]
                if ticket.is_canary:
                    passed = None if reason == LEFT else False
                    self._dispatcher.end_canary(ticket, at, passed, reason)
                else:
                    self._dispatcher.take_back(ticket, device, at, f"{worker.name} was lost")
            if worker.kind == NPU:
                self._dispatcher.clear_out(device, at)
            self._dispatcher.pump(device, at)  # an outside lane needs no worker
