"""The scenarios by name: what is run, for how long, and what it is meant to show."""

import random
from collections.abc import Callable

from msgspec import Struct, structs

from ops.sim.box import BoxSpec, ScorerSpec
from ops.sim.device import DeviceSpec
from ops.sim.job import DECODE_PER_S, PREFILL_PER_S
from ops.sim.lanes import (
    Agents,
    Between,
    Bursts,
    Every,
    Heavy,
    Lane,
    Lasts,
    OnOff,
    Poisson,
    Saturating,
)
from ops.sim.world import Plan
from scheduler.core import Limits


class Ask(Struct, frozen=True, kw_only=True):
    """What the command line asks of a scenario; None: the scenario's own."""

    seed: int
    hours: float | None = None
    lanes: int | None = None
    boxes: int | None = None
    tickets: int | None = None


class Scenario(Struct, frozen=True):
    """One row of the table.

    Attributes:
        text: What it is, in a line.
        hours: Virtual hours where none are asked for.
        lanes: Lanes where none are asked for.
        parts: Returns the plans of its parts, each by its name.
        many: Its parts are independent boxes: only their worst figures and sums are told.
    """

    text: str
    hours: float
    lanes: int
    parts: Callable[[Ask, float, int], dict[str, Plan]]
    many: bool = False


_LARGE = DeviceSpec(kind="hrx", load_s={"large": 8.0}, loaded="large")
_LIGHT = Lane(arrivals=Agents(count=1, think_s=60.0), size=Lasts(1.0), light=True)


def _plan(
    lanes: dict[str, Lane],
    horizon_s: float,
    *devices: DeviceSpec,
    scorer: ScorerSpec | None = None,
    limits: Limits | None = None,
    tickets: int | None = None,
) -> Plan:
    all_devices = devices or (_LARGE,)
    rows = {row: device.kind for device in all_devices for row in device.load_s}
    box = BoxSpec(
        devices=all_devices,
        rows=rows,
        default=next(iter(rows)),
        weights={name: lane.weight for name, lane in lanes.items()},
        limits=limits or Limits(),
        scorer=scorer,
    )
    return Plan(box=box, lanes=lanes, horizon_s=horizon_s, tickets=tickets)


def _saturating(seconds: float, weight: float = 1.0) -> Lane:
    return Lane(arrivals=Saturating(), size=Lasts(seconds), weight=weight)


def _fairness(ask: Ask, horizon_s: float, count: int) -> dict[str, Plan]:
    sizes = [4.0 ** (number % 4) for number in range(count)]
    skewed = {f"lasts-{size:g}s-{n}": _saturating(size) for n, size in enumerate(sizes)}
    weighted = {"one": _saturating(16, 1), "two": _saturating(4, 2), "four": _saturating(8, 4)}
    light = {"light": _LIGHT} | {f"lasts-{size:g}s": _saturating(size) for size in (4, 16, 64)}
    return {
        name: _plan(lanes, horizon_s)
        for name, lanes in {"skewed": skewed, "weighted": weighted, "light": light}.items()
    }


def _bursts(ask: Ask, horizon_s: float, count: int) -> dict[str, Plan]:
    kinds = [
        Lane(arrivals=Poisson(0.02), size=Heavy(1, 120), patience_s=300.0),
        Lane(arrivals=Bursts(20, 900.0), size=Between(2, 10), weight=2.0),
        Lane(arrivals=OnOff(0.2, 300.0, 900.0), size=Heavy(0.5, 60)),
        Lane(arrivals=Saturating(2), size=Lasts(8)),
    ]
    names = ("poisson", "bursts", "on-off", "steady")
    lanes = {f"{names[n % 4]}-{n // 4}": kinds[n % 4] for n in range(count)}
    return {"bursts": _plan({"light": _LIGHT} | lanes, horizon_s)}


def _throttle(ask: Ask, horizon_s: float, count: int) -> dict[str, Plan]:
    hot = structs.replace(_LARGE, rates=((horizon_s / 3, 0.5), (horizon_s * 2 / 3, 1.0)))
    lanes = {f"lasts-{4.0 ** (n % 4):g}s-{n}": _saturating(4.0 ** (n % 4)) for n in range(count)}
    return {"throttle": _plan(lanes, horizon_s, hot)}


def _agents(ask: Ask, horizon_s: float, count: int) -> dict[str, Plan]:
    hrx = DeviceSpec(
        kind="hrx",
        load_s={"large": 8.0, "coder": 6.0},
        loaded="large",
        seats=2,
        slots=4,
        batching=0.6,
    )
    kinds = [
        Lane(
            arrivals=Agents(count=3, think_s=20.0, turns=8, system_tokens=1500),
            size=Between(1, 12),
            rows=("coder",),
            routed=True,
            patience_s=600.0,
        ),
        Lane(
            arrivals=Agents(count=2, think_s=40.0, turns=5, system_tokens=500),
            size=Heavy(1, 60),
            routed=True,
        ),
    ]
    lanes = {f"{('coder', 'chat')[n % 2]}-{n // 2}": kinds[n % 2] for n in range(count)}
    outage = ScorerSpec(outages=((horizon_s * 0.5, horizon_s * 0.6),))
    return {"agents": _plan(lanes, horizon_s, hrx, scorer=outage)}


def _thrash(ask: Ask, horizon_s: float, count: int) -> dict[str, Plan]:
    device = DeviceSpec(kind="hrx", load_s={"a": 2.0, "b": 2.0})
    lanes = {
        f"asks-{'ab'[n % 2]}-{n}": Lane(
            arrivals=Every(0.05 * count, 0.05 * n), size=Lasts(0.25), rows=("ab"[n % 2],)
        )
        for n in range(count)
    }
    return {"thrash": _plan(lanes, horizon_s, device)}


def _fleet(ask: Ask, horizon_s: float, count: int) -> dict[str, Plan]:
    return {f"box-{n}": _some_box(f"{ask.seed}/{n}", horizon_s) for n in range(ask.boxes or 100)}


def _some_box(seed: str, horizon_s: float) -> Plan:
    """Return a box that is like no other: its rate, its seats, and what its lanes do."""
    draw = random.Random(seed)  # noqa: S311  # a model, no secret
    rate, seats = draw.uniform(0.6, 1.4), draw.choice([1, 1, 2, 4])
    device = structs.replace(_LARGE, seats=seats, batching=0.5, rates=((0.0, rate),))
    kinds: list[Callable[[], Lane]] = [
        lambda: _saturating(draw.uniform(1, 30), draw.choice([1.0, 1.0, 2.0, 4.0])),
        lambda: Lane(arrivals=Poisson(draw.uniform(0.01, 0.05)), size=Heavy(1, 60)),
        lambda: Lane(arrivals=Bursts(10, 600.0), size=Between(1, 8)),
        lambda: Lane(arrivals=Agents(3, 20.0, 6, 800), size=Between(1, 10)),
    ]
    lanes = {f"lane-{n}": draw.choice(kinds)() for n in range(draw.randint(1, 4))}
    firm = {f"firm-{n}": kinds[0]() for n in range(2)}
    return _plan({"light": _LIGHT} | firm | lanes, horizon_s, device)


def _load(ask: Ask, horizon_s: float, count: int) -> dict[str, Plan]:
    boxes = ask.boxes or 2  # as many as the machine has cores, on the one that is asked for
    tickets = max(1, (ask.tickets or 1_000_000) // boxes)
    # A hundred times as fast as the modelled iGPU: short tickets are what costs a scheduler most.
    device = structs.replace(
        _LARGE, seats=8, prefill_per_s=100 * PREFILL_PER_S, decode_per_s=100 * DECODE_PER_S
    )
    lanes = {
        f"lane-{n:02}": Lane(
            arrivals=Saturating(4), size=Between(0.25, 0.5), weight=1.0 + n % 3, stream=False
        )
        for n in range(count)
    }
    plan = _plan(lanes, horizon_s, device, tickets=tickets)
    # A tenth shows what the others cost a ticket, which is all that is asked of them here.
    plan = structs.replace(plan, beside=max(1, tickets // 10))
    return {f"box-{number}": plan for number in range(boxes)}


SCENARIOS: dict[str, Scenario] = {
    "fairness": Scenario(
        "Saturating lanes of unlike sizes; weights; a light lane.", 4, 4, _fairness
    ),
    "bursts": Scenario("Poisson, bursts, on and off, heavy tails, impatience.", 4, 4, _bursts),
    "throttle": Scenario("The device runs at half rate for a third of the time.", 4, 4, _throttle),
    "agents": Scenario("Conversations, think time, two rows, a scorer outage.", 4, 4, _agents),
    "thrash": Scenario("Two rows asked in turn every 50 ms, 2 s to load.", 0.5, 2, _thrash),
    "fleet": Scenario("Many unlike boxes, each on its own.", 0.25, 0, _fleet, many=True),
    "load": Scenario("A million short tickets, in two boxes, as fast as it goes.", 100, 16, _load),
}
