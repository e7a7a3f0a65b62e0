"""Each property of test_properties_machine.py finds the fault it is there for.

A check that cannot fail proves nothing, so the core is broken on purpose here, one way a property, and the
same machine is led through one fixed run. The unbroken core must come through that run without a fault.
"""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from property.test_properties_machine import KINDS, PROPERTIES, Properties
from scheduler.core import events as ev
from scheduler.core.box import Box
from scheduler.core.cost import Costs
from scheduler.core.device import Device
from scheduler.core.dispatch import Dispatcher
from scheduler.core.fairqueue import FairQueue, Lane
from scheduler.core.sfq import Flow, StartTags
from scheduler.core.ticket import Ticket
from support.world import Source

Patch = Callable[[pytest.MonkeyPatch], None]


def idles_beside_work(patch: pytest.MonkeyPatch) -> None:
    """P1: one second in five, nothing is granted."""
    was = Device.next
    patch.setattr(Device, "next", lambda self, at: None if int(at) % 5 == 0 else was(self, at))


def counts_turns(patch: pytest.MonkeyPatch) -> None:
    """P2: round robin, whatever a turn lasts."""
    charge = StartTags.charge
    patch.setattr(StartTags, "charge", lambda self, flow, _cost_s: charge(self, flow, 1.0))
    patch.setattr(FairQueue, "settle", _settle_books_only)


def banks_credit(patch: pytest.MonkeyPatch) -> None:
    """P3: who comes back goes on from where it left off."""

    def come(self: StartTags[Flow], flow: Flow) -> None:
        flow.floor = 0.0
        self.enter(flow)

    patch.setattr(StartTags, "come", come)


def forgets_weights(patch: pytest.MonkeyPatch) -> None:
    """P4: all lanes weigh the same."""
    patch.setattr(FairQueue, "_lane", _weightless(FairQueue._lane))


def prefers_a_lane(patch: pytest.MonkeyPatch) -> None:
    """P5: one lane goes first as long as it has anything."""
    favoured = property(lambda f: -1e9 if getattr(f, "name", "") == "a" else max(f.floor, f.finish))
    patch.setattr(Flow, "start", favoured)


def charges_a_cancel(patch: pytest.MonkeyPatch) -> None:
    """P6: a withdrawn request is paid for."""
    cancel = FairQueue.cancel

    def charged(self: FairQueue, ticket: Ticket) -> None:
        cancel(self, ticket)
        self.charge(ticket.lane, ticket.cost_s)

    patch.setattr(FairQueue, "cancel", charged)


def forgives_overruns(patch: pytest.MonkeyPatch) -> None:
    """P7: what took longer than expected costs what was expected."""
    settle = FairQueue.settle
    patch.setattr(
        FairQueue, "settle",
        lambda self, ticket, actual_s: settle(self, ticket, min(actual_s, ticket.cost_s)),
    )  # fmt: skip


def seats_too_many(patch: pytest.MonkeyPatch) -> None:
    """P8: one more than there are."""
    patch.setattr(Device, "_has_seat", lambda self: len(self.active) <= self.seats())


def believes_the_late(patch: pytest.MonkeyPatch) -> None:
    """P9: a lease that is over still counts."""

    def held(self: Dispatcher, route: bytes, _epoch: int, number: int, _lease: int) -> object:
        return _box(self).tickets.get(number) if route else None

    patch.setattr(Dispatcher, "_held", held)


def throws_dice(patch: pytest.MonkeyPatch) -> None:
    """P11: what is decided depends on something that is in no event."""
    guess_s, numbers = Costs.guess_s, count()
    patch.setattr(
        Costs, "guess_s",
        lambda self, *what: guess_s(self, *what) * (1.0 + next(numbers) % 7),
    )  # fmt: skip


def forgives_a_slow_device(patch: pytest.MonkeyPatch) -> None:
    """P12: one lane pays for work, not for time, once the device slows down."""
    settle = FairQueue.settle

    def by_work(self: FairQueue, ticket: Ticket, actual_s: float) -> None:
        slow = ticket.lane == "b" and _SLOW[0]
        settle(self, ticket, actual_s / 2 if slow else actual_s)

    patch.setattr(FairQueue, "settle", by_work)


FAULTS: dict[str, Patch] = {
    "P1": idles_beside_work,
    "P2": counts_turns,
    "P3": banks_credit,
    "P4": forgets_weights,
    "P5": prefers_a_lane,
    "P6": charges_a_cancel,
    "P7": forgives_overruns,
    "P8": seats_too_many,
    "P9": believes_the_late,
    "P11": throws_dice,
    "P12": forgives_a_slow_device,
}
_SLOW = [False]  # whether the device of the run in hand is slow just now


def _box(dispatcher: Dispatcher) -> Box:
    return dispatcher._box


def _settle_books_only(self: FairQueue, ticket: Ticket, actual_s: float) -> None:
    lane = self._lanes[ticket.lane]
    lane.served_s += actual_s - ticket.cost_s


def _weightless(make: Callable[[FairQueue, str], Lane]) -> Callable[[FairQueue, str], Lane]:
    def lane(self: FairQueue, name: str) -> Lane:
        made = make(self, name)
        made.weight = 1.0
        return made

    return lane


def steps(machine: Properties) -> Iterator[None]:
    """Lead a machine through a run in which every property has its case."""
    world = machine.world
    world.sources = {
        lane: Source(lane, ("M",), 3, sizes, 2)
        for lane, sizes in {"a": (0.1, 0.2), "b": (3.0, 6.0), "c": (1.0,)}.items()
    }
    world.fill()
    world.advance(60.0)
    yield
    rid = next(r for r in sorted(world.asked) if r in world.books["hrx0"].waiting["b"])
    world.cancel(rid)
    yield
    machine.idle_and_return("b", 60.0, (1.0,), "wait")
    yield
    route, epoch, run = world.runs[-1]
    late = ev.Produced(world.now, route, epoch, run.ticket, run.lease - 1, 1, None, b"LATE")
    world.noise(late)
    yield
    machine.wait_long("hrx")
    yield
    del world.sources[
        "b"
    ]  # which has nothing waiting for a moment, but was not idle: an unmarked window
    while world.books["hrx0"].waiting["b"]:
        world.advance(0.1)
    world.sources = {
        lane: Source(lane, ("M",), 3, sizes, 0)
        for lane, sizes in {"b": (1.0,), "c": (0.2, 1.0)}.items()
    }
    world.fill()
    world.advance(900.0)
    yield
    world.sources = {lane: Source(lane, ("M",), 2, (2.0,), 2) for lane in "bc"}
    world.fill()
    _SLOW[0] = False
    machine.throttle_to("hrx", 1.0)
    world.advance(20.0)
    yield
    _SLOW[0] = True
    machine.throttle_to("hrx", 0.5)
    world.advance(120.0)
    yield


def broken(kind: int) -> set[str]:
    """Return the names of the properties that do not hold in the fixed run."""
    _SLOW[0] = False
    machine = Properties()
    machine.start(seed=3, kind=KINDS[kind])
    names: set[str] = set()
    checks = [getattr(machine, name) for name in dir(machine) if name[:1] == "p" and "_" in name]
    try:
        for _ in steps(machine):
            names |= {fault.property for fault in machine.world.faults}
            for check in checks:
                names |= _failing(check)
            names |= {fault.property for fault in machine.world.faults}
        machine.world.replay()
    except Exception as error:  # noqa: BLE001  # a broken core may raise: what was found until then counts
        names.add(str(error).split(":", 1)[0])
    return names | {fault.property for fault in machine.world.faults}


def _failing(check: Callable[[], None]) -> set[str]:
    try:
        check()
    except AssertionError as error:
        return {str(error).split(":", 1)[0]}
    return set()


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_the_run_has_no_fault_of_its_own(kind: int) -> None:
    assert broken(kind) == set()


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_finds_its_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[name](monkeypatch)
    assert name in broken(0)
