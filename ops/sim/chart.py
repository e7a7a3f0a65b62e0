"""A picture of a run: cumulative weighted service of each lane over time, one panel a scheduler.

Fair lanes run together; the eye sees at once where one runs away. SVG by hand: no dependency, and it
follows the reader's light or dark scheme.
"""

from xml.sax.saxutils import escape

from ops.sim.study import Study
from ops.sim.world import Outcome, Plan

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a00", "#999999")
_WIDTH, _HEIGHT = 340, 260  # of a panel's field
_LEFT, _TOP, _GAP, _BOTTOM = 72, 76, 34, 74
_POINTS = 240  # of a line
_TICKS = 4
_STYLE = """
  svg { background: #ffffff; font: 12px system-ui, sans-serif; }
  text { fill: #222222; } .dim { fill: #666666; } .title { font-weight: 600; font-size: 14px; }
  .grid { stroke: #dddddd; } .axis { stroke: #888888; } .line { fill: none; stroke-width: 1.8; }
  @media (prefers-color-scheme: dark) {
    svg { background: #14171a; } text { fill: #e8e8e8; } .dim { fill: #a0a0a0; }
    .grid { stroke: #30363c; } .axis { stroke: #77808a; }
  }
"""


def chart(made: Study) -> str:
    """Return the picture of a study's first part."""
    part, plan = next(iter(made.plans.items()))
    lines = {name: _lines(plan, outcome) for name, outcome in made.outcomes.items()}
    top = max((points[-1][1] for one in lines.values() for points in one.values()), default=0.0)
    until = max((outcome.virtual_s for outcome in made.outcomes.values()), default=0.0)
    top, until = top or 1.0, until or 1.0
    width = _LEFT + len(lines) * (_WIDTH + _GAP)
    box, what = f"0 0 {width} {_TOP + _HEIGHT + _BOTTOM}", f"{made.scenario}, {part}"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="{_LEFT}" y="20">simulated: {escape(what)}</text>',
        f'<text class="dim" x="{_LEFT}" y="36">device-seconds over weight, by lane</text>',
    ]
    for number, (name, lanes) in enumerate(lines.items()):
        left = _LEFT + number * (_WIDTH + _GAP)
        out += _panel(name, lanes, left, until, top, labelled=number == 0)
    return "\n".join([*out, *_legend(list(plan.lanes)), "</svg>"]) + "\n"


def _lines(plan: Plan, outcome: Outcome) -> dict[str, list[tuple[float, float]]]:
    """Return lane -> (instant, weighted device-seconds served so far)."""
    step, lines = outcome.virtual_s / _POINTS, {lane: [(0.0, 0.0)] for lane in plan.lanes}
    sums = dict.fromkeys(plan.lanes, 0.0)
    for entry in outcome.log:
        before = sums[entry.lane]
        sums[entry.lane] = before + entry.device_s / plan.lanes[entry.lane].weight
        points = lines[entry.lane]
        if entry.end - points[-1][0] >= step:
            if entry.start > points[-1][0]:
                points.append((entry.start, before))
            points.append((entry.end, sums[entry.lane]))
    for lane, points in lines.items():
        points.append((outcome.virtual_s, sums[lane]))
    return lines


def _panel(
    name: str,
    lanes: dict[str, list[tuple[float, float]]],
    left: int,
    until: float,
    top: float,
    *,
    labelled: bool,
) -> list[str]:
    base = _TOP + _HEIGHT
    out = [
        f'<text class="title" x="{left}" y="{_TOP - 14}">{escape(name.replace("_", " "))}</text>'
    ]
    for tick in range(_TICKS + 1):
        y = base - _HEIGHT * tick / _TICKS
        out.append(
            f'<line class="grid" x1="{left}" x2="{left + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        x = left + _WIDTH * tick / _TICKS
        out.append(
            f'<text class="dim" x="{x:.1f}" y="{base + 18}" text-anchor="middle">'
            f"{until * tick / _TICKS / 3600:.2g} h</text>"
        )
        if labelled:
            out.append(
                f'<text class="dim" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">'
                f"{top * tick / _TICKS:,.0f} s</text>"
            )
    out.append(f'<path class="axis line" d="M{left} {_TOP}V{base}H{left + _WIDTH}"/>')
    for number, points in enumerate(lanes.values()):
        path = "L".join(
            f"{left + _WIDTH * at / until:.1f} {base - _HEIGHT * done / top:.1f}"
            for at, done in points
        )
        out.append(f'<path class="line" stroke="{_colour(number)}" d="M{path}"/>')
    return out


def _legend(lanes: list[str]) -> list[str]:
    out: list[str] = []
    x, y = _LEFT, _TOP + _HEIGHT + 48
    for number, lane in enumerate(lanes[: len(_COLOURS) * 2]):
        out.append(f'<rect x="{x}" y="{y - 9}" width="14" height="4" fill="{_colour(number)}"/>')
        out.append(f'<text x="{x + 20}" y="{y}">{escape(lane)}</text>')
        x += 44 + 7 * len(lane)
    return out


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]
