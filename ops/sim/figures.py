"""The figures of a run, all from the devices' own logs and the clients' own instants.

Nothing here has seen the queue's books. Formulas and their sources: SIM.md.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations

from msgspec import Struct

from ops.sim.intervals import Intervals, backlogs, common, length, union
from ops.sim.job import Service
from ops.sim.lanes import Agents
from ops.sim.world import Outcome, Plan

_CONTENDS = 0.99  # share of the run a lane must be backlogged to be compared over all of it
_PAIRED = 8  # lanes compared in pairs; more would cost their square


class LaneFigures(Struct, frozen=True, kw_only=True):
    """One lane. Seconds are virtual; null where nothing was served."""

    weight: float
    served_s: float  # device-seconds
    share: float  # of all device-seconds served
    tickets: int  # served to their end
    refused: dict[str, int]  # why -> how many never got to a device
    backlogged_s: float
    largest_s: float  # largest ticket, device-seconds
    wait_p50_s: float | None
    wait_p99_s: float | None
    wait_max_s: float | None  # those still waiting at the end included


class Figures(Struct, frozen=True, kw_only=True):
    """One run. Null: the run has nothing of the kind."""

    jain: float | None
    gap_s: float | None  # the gap of the pair that is worst by its bound, weighted device-seconds
    gap_bound_s: float | None
    gap_over_bound: float | None
    weight_error: float | None
    light_lane_max_wait_s: float | None
    light_lane_median_wait_s: float | None
    light_lane_bound_s: float | None
    light_lane_hold_s: float | None
    fallbacks: int
    loads: int
    goodput: float | None
    busy: float  # share of the devices' time
    idle_while_waiting_s: float  # seconds that nothing ran though somebody waited
    tickets: int
    refused: int
    seats: int
    virtual_s: float
    wall_s: float
    cpu_s: float
    lanes: dict[str, LaneFigures]


def figures(plan: Plan, outcome: Outcome) -> Figures:
    """Return the figures of one run of a plan."""
    by_lane: dict[str, list[Service]] = defaultdict(list)
    for entry in outcome.log:
        by_lane[entry.lane].append(entry)
    spans = backlogs(outcome)
    served = {lane: sum(e.device_s for e in by_lane[lane]) for lane in plan.lanes}
    contenders = [
        lane
        for lane in plan.lanes
        if length(spans.get(lane, [])) >= _CONTENDS * outcome.virtual_s > 0
    ]
    idle_s = _idle_s(plan, outcome, spans)
    gap = _worst_gap(plan, by_lane, spans, idle_s)
    light = _light(plan, by_lane, outcome)
    useful = sum(entry.useful_s for entry in outcome.log)
    device_time = outcome.virtual_s * len(plan.box.devices)
    return Figures(
        jain=_jain(served[lane] / plan.lanes[lane].weight for lane in contenders),
        gap_s=gap[0],
        gap_bound_s=gap[1],
        gap_over_bound=gap[0] / gap[1] if gap[0] is not None and gap[1] else None,
        weight_error=_weight_error(plan, contenders, served),
        light_lane_max_wait_s=light[0],
        light_lane_median_wait_s=light[1],
        light_lane_bound_s=light[2],
        light_lane_hold_s=light[3],
        fallbacks=sum(entry.row != entry.wanted for entry in outcome.log),
        loads=len(outcome.loads),
        goodput=useful / outcome.busy_s if outcome.busy_s else None,
        busy=outcome.busy_s / device_time if device_time else 0.0,
        idle_while_waiting_s=idle_s,
        tickets=sum(entry.whole for entry in outcome.log),
        refused=sum(one.why != "cancelled" for one in outcome.left),
        seats=_seats(plan),
        virtual_s=outcome.virtual_s,
        wall_s=outcome.wall_s,
        cpu_s=outcome.cpu_s,
        lanes={
            name: _lane(plan.lanes[name].weight, name, by_lane[name], spans, outcome)
            for name in plan.lanes
        },
    )


def _lane(
    weight: float,
    name: str,
    log: list[Service],
    spans: dict[str, Intervals],
    outcome: Outcome,
) -> LaneFigures:
    waits = sorted(entry.start - entry.asked_at for entry in log)
    unserved = [one.at - one.asked_at for one in outcome.waiting if one.lane == name]
    refused: dict[str, int] = defaultdict(int)
    for one in outcome.left:
        if one.lane == name:
            refused[one.why] += 1
    served_s = sum(entry.device_s for entry in log)
    return LaneFigures(
        weight=weight,
        served_s=served_s,
        share=served_s / outcome.busy_s if outcome.busy_s else 0.0,
        tickets=sum(entry.whole for entry in log),
        refused=dict(sorted(refused.items())),
        backlogged_s=length(spans.get(name, [])),
        largest_s=_largest(log),
        wait_p50_s=percentile(waits, 0.5),
        wait_p99_s=percentile(waits, 0.99),
        wait_max_s=max([*waits[-1:], *unserved], default=None),
    )


def percentile(ascending: list[float], share: float) -> float | None:
    """Return the smallest value that so large a share does not exceed (nearest rank), or None."""
    if not ascending:
        return None
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


def _jain(values: Iterable[float]) -> float | None:
    """Return Jain's index (sum x)^2 / (n sum x^2); Jain, Chiu, Hawe, 1984, equation 1."""
    all_values = list(values)
    squares = sum(value * value for value in all_values)
    if len(all_values) < 2 or squares == 0.0:
        return None
    return float(sum(all_values) ** 2 / (len(all_values) * squares))


def _weight_error(plan: Plan, contenders: list[str], served: dict[str, float]) -> float | None:
    """Return how far a share is from its weight at most, relative; None where all weigh the same."""
    weights = {lane: plan.lanes[lane].weight for lane in contenders}
    total, total_weight = sum(served[lane] for lane in contenders), sum(weights.values())
    if len(set(weights.values())) < 2 or total == 0.0:
        return None
    return max(abs(served[k] / total / (w / total_weight) - 1.0) for k, w in weights.items())


def _largest(log: list[Service]) -> float:
    return max((entry.device_s for entry in log), default=0.0)


def _talks(plan: Plan, lane: str) -> bool:
    arrivals = plan.lanes[lane].arrivals
    return isinstance(arrivals, Agents) and arrivals.turns > 1


def _cap_s(plan: Plan) -> float:
    """Return how long the fair head may be passed over: to save a load, or for a talk's next turn.

    With one row and requests that stand alone there is neither.
    """
    rows = {row for lane in plan.lanes.values() for row in lane.rows}
    talks = any(_talks(plan, lane) for lane in plan.lanes)
    return plan.box.limits.collate_s if len(rows) > 1 or talks else 0.0


def _idle_s(plan: Plan, outcome: Outcome, spans: dict[str, Intervals]) -> float:
    """Return the seconds in which no device worked though somebody waited."""
    works = union([[(entry.start, entry.end) for entry in outcome.log]])
    wanted = union(list(spans.values()))
    return length(wanted) - length(common(works, wanted))


def _seats(plan: Plan) -> int:
    return max(device.seats for device in plan.box.devices)


def _times(seats: int) -> int:
    """Return how many largest tickets of each of two lanes their gap may reach.

    One with one seat: theorem 1 of SFQ. With D seats, D + 1: Jin, Chase, Kaur 2004, whose costs are
    known at the grant; ours are estimates, so there the bound holds only as far as these are true.
    """
    return 1 if seats == 1 else seats + 1


def _worst_gap(
    plan: Plan, by_lane: dict[str, list[Service]], spans: dict[str, Intervals], idle_s: float
) -> tuple[float | None, float | None]:
    """Return gap and bound of the pair of lanes whose gap is largest by its bound.

    A lane whose talks have their slots kept pays for these pauses, which are no service: it may fall
    behind by them.
    """
    worst: tuple[float | None, float | None] = (None, None)
    ratio = -1.0
    times, cap_s = _times(_seats(plan)), _cap_s(plan)
    for one, other in combinations(list(plan.lanes)[:_PAIRED], 2):
        weights = plan.lanes[one].weight, plan.lanes[other].weight
        together = common(spans.get(one, []), spans.get(other, []))
        bound = sum(
            (times * _largest(by_lane[k]) + cap_s + (idle_s if _talks(plan, k) else 0.0))
            / plan.lanes[k].weight
            for k in (one, other)
        )
        if together and bound:
            gap = _gap(by_lane[one], by_lane[other], weights, together)
            if gap / bound > ratio:
                worst, ratio = (gap, bound), gap / bound
    return worst


def _gap(
    one: list[Service], other: list[Service], weights: tuple[float, float], together: Intervals
) -> float:
    """Return the largest difference of weighted service over any interval in which both are backlogged.

    Over one stretch it is the range of the running difference. As in theorem 1 of Goyal, Vin, Cheng
    1997 a ticket counts for an interval where it began and ended in it.
    """
    steps = [(e.end, e.start, e.device_s / weights[0]) for e in one if e.whole]
    steps += [(e.end, e.start, -e.device_s / weights[1]) for e in other if e.whole]
    steps.sort()
    worst, number = 0.0, 0
    for begin, finish in together:
        difference = low = high = 0.0
        while number < len(steps) and steps[number][0] <= finish:
            _, start, by = steps[number]
            number += 1
            if start >= begin:
                difference += by
                low, high = min(low, difference), max(high, difference)
        worst = max(worst, high - low)
    return worst


def _light(
    plan: Plan, by_lane: dict[str, list[Service]], outcome: Outcome
) -> tuple[float | None, float | None, float | None, float | None]:
    """Return the light lane's longest and median wait, their bound, and the largest hold of another.

    Bound: when it comes back its tag is the virtual time, so of each other backlogged lane at most one
    ticket is at work or stands before it.
    """
    name = next((name for name, lane in plan.lanes.items() if lane.light), None)
    if name is None:
        return None, None, None, None
    waits = sorted(entry.start - entry.asked_at for entry in by_lane[name])
    unserved = [one.at - one.asked_at for one in outcome.waiting if one.lane == name]
    holds = [
        max((e.end - e.start for e in by_lane[lane]), default=0.0)
        for lane in plan.lanes
        if lane != name
    ]
    longest = max([*waits[-1:], *unserved], default=None)
    bound = sum(holds) + _cap_s(plan)
    return longest, percentile(waits, 0.5), bound, max(holds, default=0.0)
