"""P10: no ping-pong between devices, whatever happens to a box whose conversations may start on its NPU.

Within a conversation the device never changes, save once from a lost NPU to the GPU; no request is told of a
second device but that one; and neither hot nor cool is left before its shortest stay, restarts of the broker
included. Where a canary is asked for it is sent as it must be, and nothing moves before one passed. What the
machine does is drawn: conversations start, go on and start anew, other lanes come and go, readings rise and
fall, the NPU dies, leaves, stops and comes back, the broker is restarted.
"""

from collections import Counter
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from policies.heat import Heat
from policies.row import OnBusy
from policies.why import Why
from scheduler.core import Appliance, Catalogue, Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.core.binding import Binding
from scheduler.core.checkpoint import Checkpoint
from scheduler.core.limits import Npu
from scheduler.core.placing import Placer
from support.stand import Peer, Stand, catalogue

TALKS = st.sampled_from(["t1", "t2", "t3", "t4"])
TURNS = (
    "start busy",
    "go on",
    "go on busy",
    "leaves",
    "come back",
    "start",
)  # a crash bars for long
MIN_STAY_S = 30.0
_TINY = 1e-6
Patch = Callable[[pytest.MonkeyPatch], None]


class Told(NamedTuple):
    """Where a conversation is, as its clients were told."""

    device: str
    losses: int  # of the NPU, by the time this was told


class Placements(RuleBasedStateMachine):
    """One box."""

    seen: ClassVar[Counter[str]] = Counter()  # what happened, over all examples

    stand: Stand

    @initialize(
        wait_s=st.sampled_from([0.0, 0.0, 4.0]), canary=st.booleans(), seats=st.sampled_from([1, 3])
    )
    def start(self, wait_s: float, seats: int, *, canary: bool) -> None:
        """Begin with a box that serves."""
        self.rule = OnBusy(
            "npu", "P", tctl_c=95.0, tctl_clear_c=85.0, min_stay_s=MIN_STAY_S, wait_s=wait_s,
            allow_interactive=True,
        )  # fmt: skip
        self.stand, self.seats, self.pid, self.boot = Stand(Limits()), seats, 100, 1
        self.npu = Npu(canary="on_demand" if canary else "off")
        self.stand.core = Appliance(
            self.known, self.stand.limits, boot=1, at=self.stand.now, npu=self.npu
        )
        self.talks: dict[str, Told] = {}
        self.names: dict[
            str, tuple[str, bool]
        ] = {}  # request -> its conversation, and it starts it
        self.last: dict[str, str] = {}  # request -> the device it was told last
        self.asked = self.losses = 0
        self.runs: list[fx.Dispatch] = []
        self.flips: list[float] = []
        self.hot = False
        self.tctl: float | None = 70.0
        self.register()

    @property
    def known(self) -> Catalogue:
        """What names mean."""
        return msgspec.structs.replace(catalogue(), on_busy={"code": self.rule})

    def register(self) -> None:
        """Let all workers join."""
        stand = self.stand
        for event in (
            self.ready(b"hrx", "hrx", "hrx0"),
            self.ready(b"scorer", "scorer", ""),
            self.ready(b"sensors", "sensors", ""),
        ):
            self.hear(stand.send(event))
        self.come_back()
        self.sense()

    def ready(self, route: bytes, kind: str, device: str) -> ev.WorkerReady:
        """Return the offer of a new process."""
        self.pid += 1
        nonce, name = str(self.pid), f"{kind}-{self.pid}"
        return ev.WorkerReady(
            self.stand.now, route, name, kind, device, self.pid, 1.0, nonce, self.seats, "test"
        )

    # --- what is heard ------------------------------------------------------------------------------

    def hear(self, effects: list[fx.Effect]) -> None:
        """Take in what the core said, and look for what may not be."""
        for effect in effects:
            if isinstance(effect, fx.Place) and not effect.is_open:
                self.place(effect)
            elif isinstance(effect, fx.Dispatch):
                self.runs.append(effect)
                if effect.conversation == "canary":
                    self.canary()
            elif isinstance(effect, fx.AskHelper) and effect.op == "decide":
                self.hear(self.stand.decided(effect))
        heat = self.stand.core._box.climate.heats["code"]
        if heat.hot != self.hot:
            self.hot = heat.hot
            self.flips.append(self.stand.now)
            self.seen["flips"] += 1

    def canary(self) -> None:
        """One is sent where it is asked for, beside a held GPU, on an NPU that does nothing else."""
        devices = self.stand.core._box.devices
        assert self.npu.canary == "on_demand", "canary: nobody asked for it"
        assert devices["hrx"].active, "canary: on an idle GPU it proves nothing"
        assert len(devices["npu"].active) == 1, "canary: beside work of the NPU"
        self.seen["canaries"] += 1

    def place(self, told: fx.Place) -> None:
        """A request's device is final; it may be told again: from a lost NPU to the GPU."""
        talk, starts = self.names[told.rid]
        before = self.last.get(told.rid)
        if before is None and starts:
            self.talks[talk] = Told(told.device, self.losses)
        else:
            self.moves(talk, self.talks[talk], told)
        if told.device == "npu" and self.npu.canary == "on_demand":
            passed = self.stand.core._box.counts.get("canaries_passed", 0)
            assert passed, f"canary: {talk} moved before one had passed"
        self.last[told.rid] = told.device
        self.seen[f"on {told.device} {told.why}"] += 1

    def moves(self, talk: str, was: Told, told: fx.Place) -> None:
        """Within a conversation: the same device, or the one move there is."""
        if told.device == was.device:
            return
        once = (was.device, told.device, told.why) == ("npu", "hrx", Why.NPU_QUARANTINED)
        assert once, f"P10: {talk} went from {was.device} to {told.device}, {told.why!r}"
        assert self.losses > was.losses, f"P10: {talk} left an NPU that was not lost"
        self.talks[talk] = Told(told.device, self.losses)

    # --- conversations ------------------------------------------------------------------------------

    @rule(
        talk=TALKS,
        turns=st.lists(st.sampled_from(TURNS), min_size=2, max_size=5),
        answered=st.booleans(),
    )
    def converse(self, talk: str, turns: list[str], *, answered: bool) -> None:
        """Start a conversation, also one that is there, and go on; the last turn may stay unanswered."""
        for turn in turns:
            self.take_turn(talk, turn)
            self.answer(talk)
        if not answered:
            self.take_turn(talk, turns[-1])

    def take_turn(self, talk: str, how: str) -> None:
        """Ask, or have something happen between two turns."""
        if how in {"leaves", "dies"}:
            self.lose_npu(how)
        elif how == "come back":
            self.come_back()
        else:
            if how.endswith("busy"):
                self.ask_by_name("other", "M")
            self.ask_auto(talk, starts=how.startswith("start") or talk not in self.talks)

    def answer(self, talk: str) -> None:
        """Let what a conversation asked be answered, as far as it has been granted."""
        for run in [one for one in self.runs if one.conversation == f"key {talk}"]:
            self.runs.remove(run)
            self.finish(run, "answer")

    def ask_auto(self, talk: str, *, starts: bool) -> None:
        """Ask for `auto` in a conversation."""
        box = self.stand.core._box
        forgotten = box.bindings.find("asker", f"key {talk}", self.stand.now) is None
        self.asked += 1
        rid = f"r{self.asked}"
        self.names[rid] = talk, starts or forgotten
        self.hear(
            self.stand.ask(rid, "auto", lane="asker", conversation=f"key {talk}", starts=starts)
        )

    @rule(lane=st.sampled_from(["other", "asker"]), row=st.sampled_from(["M", "N", "P"]))
    def ask_by_name(self, lane: str, row: str) -> None:
        """Ask for a row by its name, on either device."""
        self.asked += 1
        self.hear(self.stand.ask(f"x{self.asked}", row, lane=lane))

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), how=st.sampled_from(["answer", "answer", "fail", "stop"]))
    def end(self, data: st.DataObject, how: str) -> None:
        """Let work end: well, in an error, or handed back by a worker that stops."""
        run = data.draw(st.sampled_from(self.runs))
        self.runs.remove(run)
        self.finish(run, how)

    def finish(self, run: fx.Dispatch, how: str) -> None:
        """End a piece of work, if it is still in hand."""
        stand = self.stand
        ticket = stand.core._box.tickets.get(run.ticket)
        if ticket is None or ticket.lease != run.lease:
            return
        self.losses += run.worker == b"npu" and how != "answer"
        if how == "answer":
            self.hear(stand.finish(run))
        elif how == "fail":
            self.hear(stand.fail(run, status=500, code="engine_failed"))
        else:
            self.hear(stand.finish(run, cancelled=True))

    # --- the NPU, the broker ------------------------------------------------------------------------

    @rule(how=st.sampled_from(["leaves", "leaves", "dies"]))
    def lose_npu(self, how: str) -> None:
        """Let the NPU's worker die, or leave in order."""
        worker = self.stand.core._box.devices["npu"].worker
        if worker is not None:
            self.losses += 1
            self.seen["losses"] += 1
            self.hear(self.stand.ended(worker.pid) if how == "dies" else self.stand.lose(b"npu"))

    @rule()
    def come_back(self) -> None:
        """Let a worker of the NPU offer itself."""
        stand = self.stand
        if stand.core._box.devices["npu"].worker is None:
            self.hear(stand.send(self.ready(b"npu", "npu", "npu0")))
        if b"npu" in stand.epochs:
            self.hear(stand.beat(Peer(b"npu", stand.epochs[b"npu"]), P=0))

    @rule()
    def restart(self) -> None:
        """Kill the broker; the next goes on from its journal."""
        stand = self.stand
        packed = msgspec.msgpack.encode(stand.core.freeze())
        stand.core = Appliance.restored(msgspec.msgpack.decode(packed, type=Checkpoint))
        self.boot += 1
        self.runs.clear()
        self.losses += 1  # until its worker is back the NPU is lost to whoever asks
        self.last.clear()
        self.hear(
            stand.send(
                ev.Restarted(
                    stand.now, self.boot, True, 0.0, self.known, stand.limits, {}, npu=self.npu,
                )
            )
        )  # fmt: skip
        self.register()

    # --- time ---------------------------------------------------------------------------------------

    @rule(
        tctl=st.sampled_from([96.0, 70.0, 99.0, 84.0, 90.0, None]),
        seconds=st.sampled_from([3, 1, 12, 35]),
        talk=TALKS,
    )
    def heat(self, tctl: float | None, seconds: int, talk: str) -> None:
        """Let so many seconds pass at a temperature, all be answered meanwhile, and somebody start in it."""
        self.tctl = tctl
        while self.runs:  # an end lets the next one in
            self.finish(self.runs.pop(), "answer")
        self.wait(float(seconds))
        self.ask_auto(talk, starts=True)

    @rule(seconds=st.sampled_from([0.5, 3.0, 15.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass, with a reading a second and all workers alive."""
        stand = self.stand
        until = stand.now + seconds
        while stand.now < until:
            step = min(1.0, until - stand.now)
            routes = [r for r in (b"hrx", b"npu", b"scorer", b"sensors") if self.lives(r)]
            self.hear(stand.wait(step, *(Peer(r, stand.epochs[r]) for r in routes)))
            self.sense()

    def lives(self, route: bytes) -> bool:
        """Return whether a worker is registered."""
        return route in self.stand.core._box.roster.by_route

    def sense(self) -> None:
        """Say a second's readings."""
        readings = [
            ev.Reading("uptime", 5000.0, "s", "test", "", 0.0, True, ""),
            ev.Reading("tctl", self.tctl, "C", "test", "", 0.0, self.tctl is not None, ""),
        ]
        epoch = self.stand.epochs[b"sensors"]
        self.hear(self.stand.send(ev.Sensed(self.stand.now, b"sensors", epoch, readings)))

    # --- what must hold -----------------------------------------------------------------------------

    @invariant()
    def p10_no_flip_before_the_shortest_stay(self) -> None:
        """The first state has no shortest stay: nobody entered it."""
        gaps = [b - a for a, b in zip(self.flips, self.flips[1:], strict=False)]
        assert not gaps or min(gaps) >= MIN_STAY_S - _TINY, f"P10: flips at {self.flips}"

    @invariant()
    def nobody_pays_for_a_canary(self) -> None:
        """It stands in no lane's account."""
        assert "(canary)" not in self.stand.core._box.devices["npu"].queue.served_s()

    def teardown(self) -> None:
        """Remember what there was."""
        self.seen["conversations"] += len(self.talks)


TestPlacements = Placements.TestCase
TestPlacements.settings = settings(
    max_examples=max(100, settings().max_examples), stateful_step_count=25, deadline=None
)


@pytest.mark.parametrize(
    "what",
    [
        "on npu gpu_busy",
        "on npu gpu_hot",
        "on hrx ",
        "on hrx npu_quarantined",
        "losses",
        "flips",
        "canaries",
    ],
)
def test_there_were_cases_of_each(what: str) -> None:
    if not Placements.seen:
        pytest.skip("the machine did not run before this")
    assert Placements.seen[what] >= 1


# --- the machine can fail -----------------------------------------------------------------------------


def judges_each_turn(patch: pytest.MonkeyPatch) -> None:
    """A turn that continues is placed as one that starts."""
    again = Placer.place

    def place(self: Placer, ticket: object, *what: object) -> object:
        ticket.asked = msgspec.structs.replace(ticket.asked, starts=True)  # type: ignore[attr-defined]
        return again(self, ticket, *what)  # type: ignore[arg-type]

    patch.setattr(Placer, "place", place)


def forgets_the_loss(patch: pytest.MonkeyPatch) -> None:
    """A conversation whose NPU was lost goes back to it."""
    patch.setattr(Binding, "moved", property(lambda b: bool(b.why), lambda _b, _value: None))


def flips_at_once(patch: pytest.MonkeyPatch) -> None:
    """A state is left as soon as a reading says so."""
    feed = Heat.feed

    def impatient(self: Heat, read_at: float, tctl_c: float | None, *, counts: bool = True) -> None:
        self.since = None
        feed(self, read_at, tctl_c, counts=counts)

    patch.setattr(Heat, "feed", impatient)


def fixed(machine: Placements) -> None:
    """Lead a machine through a run that has a case of each."""
    machine.start(0.0, 1, canary=False)
    for how in ("start", "go on busy"):
        machine.take_turn("t1", how)
        machine.answer("t1")
    for how in ("start busy", "dies", "go on", "come back", "go on"):
        machine.take_turn("t2", how)
        machine.answer("t2")
    for tctl in (96.0, 70.0, 96.0):
        machine.heat(tctl, 3, "t3")
    machine.wait(620.0)  # the quarantine is over
    machine.take_turn("t2", "go on")
    machine.p10_no_flip_before_the_shortest_stay()


def test_the_fixed_run_has_no_fault_of_its_own() -> None:
    fixed(Placements())


@pytest.mark.parametrize("fault", [judges_each_turn, forgets_the_loss, flips_at_once])
def test_a_fault_is_found_by_its_name(fault: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError, match="P10: "):
        fixed(Placements())
