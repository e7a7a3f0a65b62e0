"""When a lane was backlogged: the instants at which it had at least one request waiting or at work."""

from collections import defaultdict

from ops.sim.job import Left
from ops.sim.world import Outcome

Intervals = list[tuple[float, float]]  # ascending, apart from each other


def backlogs(outcome: Outcome) -> dict[str, Intervals]:
    """Return each lane's backlogged intervals; two that only touch stay two.

    A lane whose last request ends at the very instant its next one comes was idle in between: the
    scheduler may pick another lane's there.
    """
    spans: dict[str, Intervals] = defaultdict(list)
    for entry in outcome.log:
        spans[entry.lane].append((entry.asked_at, entry.end))
    unserved: list[Left] = [*outcome.left, *outcome.waiting]
    for one in unserved:
        if one.at > one.asked_at:
            spans[one.lane].append((one.asked_at, one.at))
    return {lane: _merged(sorted(all_spans)) for lane, all_spans in spans.items()}


def length(intervals: Intervals) -> float:
    """Return the seconds they cover."""
    return sum(end - start for start, end in intervals)


def union(many: list[Intervals]) -> Intervals:
    """Return the intervals that lie in at least one; here those that touch are one."""
    out: Intervals = []
    for start, end in sorted(span for intervals in many for span in intervals):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return out


def common(one: Intervals, other: Intervals) -> Intervals:
    """Return the intervals that lie in both."""
    out: Intervals = []
    i = j = 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < end:
            out.append((start, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return out


def _merged(spans: Intervals) -> Intervals:
    out: Intervals = []
    for start, end in spans:
        if out and start < out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return out
