"""What the live feed says, in words for a terminal. Pure: a snapshot in, strings out."""

from typing import Any

from ops.sentences import duration

_BLOCKS = "▁▂▃▄▅▆▇█"


def headline(view: dict[str, Any]) -> str:
    """Return who holds the iGPU, who waits for how long, how hot it is; and first whether it drains."""
    name, device = first_device(view)
    return f"{_drains(view)}{_holds(name, device)} {_waits(view, name, device)} {_heat(view)}"


def first_device(view: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the device that most is about: the iGPU, else the first."""
    devices: dict[str, dict[str, Any]] = view["devices"]
    return next(
        (one for one in devices.items() if one[1]["kind"] == "hrx"), next(iter(devices.items()))
    )


def landing(one: dict[str, Any]) -> str:
    """Return by what a ticket came where it is, and why."""
    if one.get("outside") or one.get("op") == "hold":
        return "a program of its own"
    parts = [one["rule"] or "by name"]
    if one["why"]:
        parts.append(one["why"])
    if one["stays"]:
        parts.append(f"stays ({one['stays']})")
    if one.get("degraded"):
        parts.append(f"a stand-in ({one['degraded']})")
    return ", ".join(parts)


def reading(view: dict[str, Any], name: str, digits: int = 0) -> str:
    """Return a reading with its unit, or why there is none."""
    said = view["readings"][name]
    if said["value"] is None:
        return f"unknown ({said['reason']})"
    unit = "°C" if said["unit"] == "C" else said["unit"]
    return f"{said['value']:.{digits}f} {unit}"


def sparkline(values: list[float | None], low: float, high: float, wide: int) -> str:
    """Return the last values as a line of blocks; one that is not known is a space, never the lowest.

    Args:
        values: Oldest first.
        low: Where the scale begins, unless a value is below it.
        high: Where it ends, unless a value is above it.
        wide: Characters at most.
    """
    shown = values[-wide:]
    known = [value for value in shown if value is not None]
    bottom, top = min([low, *known]), max([high, *known])
    steps = (len(_BLOCKS) - 1) / (top - bottom)
    return "".join(" " if v is None else _BLOCKS[round((v - bottom) * steps)] for v in shown)


def _drains(view: dict[str, Any]) -> str:
    return f"This box drains: no new work, {view['open']} still open. " if view["draining"] else ""


def _holds(name: str, device: dict[str, Any]) -> str:
    held = device["holders"]
    if not held:
        return f"Nobody holds {name}{'' if device['worker'] else ', which has no worker'}."
    lanes = list(dict.fromkeys(one["lane"] for one in held))
    others = f" and {len(lanes) - 1} more lanes have" if len(lanes) > 1 else " has"
    return f"{lanes[0]}{others} held {name} for {duration(max(one['held_s'] for one in held))}."


def _waits(view: dict[str, Any], name: str, device: dict[str, Any]) -> str:
    waiting = view["totals"]["waiting"]
    if not waiting:
        return "Nobody waits."
    verb = "waits" if waiting == 1 else "wait"
    if device["state"] == "hot":
        return f"{waiting} {verb} until {name} has cooled."
    etas = [one["eta_s"] for each in view["devices"].values() for one in each["waiting"]]
    if not etas or None in etas:
        return f"{waiting} {verb}."
    return f"{waiting} {verb}, the last to start in {duration(max(etas))}."


def _heat(view: dict[str, Any]) -> str:
    if view["readings"]["tctl"]["value"] is None:
        return f"Tctl is {reading(view, 'tctl')}."
    hot = any(line["is_hot"] for line in view["heat"])
    return f"{reading(view, 'tctl')}{', hot' if hot else ''}."
