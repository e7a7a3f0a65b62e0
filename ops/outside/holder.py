"""The loop of an outside holder: one socket, one lease, and the process group that uses the device.

Nothing here waits longer than the next deadline of the lease. Whatever ends the lease, the group is told
to end, killed after its grace, and the device given back only when none of it is left.
"""

import os
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from types import FrameType

import zmq

from ops.commands.common import complain
from ops.commands.exits import Exit
from ops.outside.command import Command, Group
from scheduler.bus import processes
from scheduler.bus.holding import Holding, Stage, Turn
from scheduler.bus.sockets import Line
from scheduler.errors import BrokerUnreachable, FairlaneError, ProtocolError, Refused
from scheduler.wire.codec import decode, encode

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PASSED_ON = (*ENDING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT)
RELEASED = "released_by_another"  # `fairlane gpu release`: how a hold for a script ends well
_POLL_S = 0.05  # how often a group that must end is looked at
_TELL_S = 5.0  # between two lines about the place in the queue, where nobody looks at a terminal
_GOODBYE_S = 0.5  # for the broker's answer to the release
_WATCH_S = 1.0  # how often the process is looked at on whose behalf a device is held


class Lost(FairlaneError):
    """The device was granted and taken back, because this process did not answer in time."""


class Holder:
    """Asks, holds and gives back; runs a command meanwhile, or only holds."""

    def __init__(self, endpoint: str, holding: Holding, group: Group) -> None:
        """Connect.

        Args:
            endpoint: The broker's client endpoint.
            holding: The lease.
            group: What uses the device.
        """
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._line = Line(self._context, endpoint)
        self._holding = holding
        self._group = group
        self._command: Command | None = None
        self._signals: deque[int] = deque()
        self._kill_at: float | None = None  # when the group that was told to end is killed
        self._told_at = 0.0
        self._poller = zmq.Poller()
        self._poller.register(self._line.socket, zmq.POLLIN)
        self._wake_read, wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(wake_write, False)
        self._poller.register(self._wake_read, zmq.POLLIN)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (*PASSED_ON, signal.SIGCHLD):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def acquire(self) -> int | None:
        """Wait for the device. Return None when it is ours, or the exit status if a signal ended the wait.

        Raises:
            Refused: The broker declined.
            BrokerUnreachable: It does not answer any more.
            Lost: It took back what it had granted.
        """
        while True:
            turn = self._turn()
            self._say_place()
            if turn is Turn.BEGIN:
                return None
            if turn is Turn.REFUSED and self._holding.refused is not None:
                refused = self._holding.refused
                raise Refused(
                    refused.status,
                    refused.code,
                    refused.message,
                    facts=refused.facts,
                    retry_after_s=refused.retry_after_s,
                )
            if turn is Turn.UNREACHABLE:
                raise BrokerUnreachable
            if turn is Turn.LOST:
                raise Lost
            ending = [number for number in self._taken() if number in ENDING]
            if ending:
                self._goodbye()
                return 128 + ending[0]

    def run(self, command: Command) -> int:
        """Run the command on the device and return its exit status once nothing of its group is left."""
        self._command = command
        command.go()
        while True:
            turn = self._turn()
            self._heed(turn)
            self._pass_on(command)
            if command.look() and command.has_terminal:
                left_s = self._holding.own_end_at - time.monotonic()
                complain(f"suspended; the device is given up in {left_s:.0f} s")
                command.stop_with()
                complain("continued")
            self._press()
            if command.status is not None and not self._left():
                self._goodbye()
                return command.status

    def keep(self, for_s: float | None, caller: processes.Process | None) -> int:
        """Hold until a signal, the end of the time, or of the process on whose behalf it is held."""
        ends_at = time.monotonic() + for_s if for_s is not None else None
        watch_at = 0.0
        while True:
            turn = self._turn(ends_at)
            now = time.monotonic()
            if turn is Turn.WARN and for_s is None:
                complain(f"this hold ends in {self._holding.left_s:.0f} s")
            if turn is Turn.LOST:
                if self._holding.reason != RELEASED:
                    complain(f"the lease is over: {self._holding.reason}")
                if self._group.pgid:
                    self._heed(turn)
                    while self._left():
                        self._turn()
                        self._press()
                    self._goodbye()
                return Exit.OK if self._holding.reason == RELEASED else Exit.FAILED
            is_left = False
            if caller is not None and now >= watch_at:
                watch_at = now + _WATCH_S
                seen = processes.seen(caller.pid)
                is_left = seen is None or seen.started != caller.started
            ending = [number for number in self._taken() if number in ENDING]
            if ending or is_left or (ends_at is not None and now >= ends_at):
                self._goodbye()
                return Exit.OK

    def close(self) -> None:
        """Leave the bus."""
        signal.set_wakeup_fd(-1)
        self._line.close()
        self._context.term()

    # --- the lease ----------------------------------------------------------------------------------

    def _turn(self, ends_at: float | None = None) -> Turn | None:
        """Send what is due, wait for the next thing to happen, and return what it means for the hold."""
        holding = self._holding
        now = time.monotonic()
        for message in holding.due(now):
            self._line.send(encode(message), b"")
        deadline = min(holding.next_deadline(), ends_at if ends_at is not None else now + 1.0)
        wait_s = max(0.0, deadline - now)
        if self._kill_at is not None or (self._command is not None and not self._command.runs):
            wait_s = min(wait_s, _POLL_S)
        if not self._signals:
            self._poller.poll(int(wait_s * 1000) + 1)
        self._swallow()
        found: Turn | None = None
        while found is None and (received := self._line.receive()) is not None:
            try:
                message = decode(received[0])
            except ProtocolError:
                continue  # a broker of another version; what it means is lost, the clock stays
            found = holding.take(message, time.monotonic())
        return found or holding.watch(time.monotonic())

    def _swallow(self) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            return

    def _taken(self) -> list[int]:
        taken = list(self._signals)
        self._signals.clear()
        return taken

    def _goodbye(self) -> None:
        """Give the device back and wait shortly for the broker to have heard it."""
        ends_at = time.monotonic() + _GOODBYE_S
        self._holding.release()
        for message in self._holding.due(time.monotonic()):
            self._line.send(encode(message), b"")
        while time.monotonic() < ends_at:
            if self._line.socket.poll(20) and (received := self._line.receive()) is not None:
                try:
                    message = decode(received[0])
                except ProtocolError:
                    continue
                if self._holding.is_farewell(message):
                    return

    # --- the group ----------------------------------------------------------------------------------

    def _heed(self, turn: Turn | None) -> None:
        if turn is Turn.WARN:
            complain(f"the longest time to hold ends in {self._holding.left_s:.0f} s")
            self._group.warn()
        elif turn is Turn.LOST:
            complain(f"the lease is over: {self._holding.reason}")
            self._end_group()

    def _end_group(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._holding.grace_s
            self._group.end_gently()

    def _press(self) -> None:
        """Kill what had its grace."""
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._group.end_now()

    def _left(self) -> bool:
        """Return whether anything of the group is left, and have it end: nobody waits for it any more."""
        if not self._group.alive():
            return False
        self._end_group()
        return True

    def _pass_on(self, command: Command) -> None:
        for number in self._taken():
            if number != signal.SIGCHLD and command.runs:
                self._group.signal(number)

    # --- for people ---------------------------------------------------------------------------------

    def _say_place(self) -> None:
        place, now = self._holding.place, time.monotonic()
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        if place is None or self._holding.stage is not Stage.ASKING:
            if is_terminal and self._told_at and self._holding.stage is not Stage.ASKING:
                self._told_at = 0.0
                _draw("")
            return
        if now - self._told_at < (_POLL_S if is_terminal else _TELL_S):
            return
        self._told_at = now
        eta = f", about {place.eta_s:.0f} s" if place.eta_s else ""
        text = f"waiting: position {place.position}{eta}"
        if is_terminal:
            _draw(f"fairlane: {text}")
        else:
            complain(text)


def _draw(line: str) -> None:
    """Show a line in place of the last one; a terminal that is gone must not end what runs here."""
    with suppress(OSError, ValueError):
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
