"""What became of a request, in sentences. Pure: the facts of `explain` in, lines out."""

from collections.abc import Callable, Iterator
from typing import Any

_WELL = {
    "answered": "answered",
    "decided": "decided",
    "served": "served",
    "pulled": "its row is on disk",
    "cancelled": "its client left",
}


def sentences(told: dict[str, Any]) -> list[str]:
    """Return why a request waited and where it landed, one sentence or two a line.

    Args:
        told: What `fairlane explain --json` prints of a known request.
    """
    lines = [f"{told['request']} is of lane '{told['lane']}' and asked for '{told['name']}'."]
    for passage in told["passages"]:
        lines += _PASSAGES.get(passage["what"], _other)(passage)
    took = duration(told["took_s"])
    if told["outcome"] is None:
        lines.append(f"It has not ended yet, {took} after it was asked.")
    elif told["outcome"] != "refused":
        lines.append(f"It ended after {took}: {_how(told)}.")
    return lines


def _how(told: dict[str, Any]) -> str:
    outcome = str(told["outcome"])
    if any(_is_alone(passage) for passage in told["passages"] if "model" in passage):
        return outcome.replace(
            "_", " "
        )  # a hold is not answered: it was released, or its lease ended
    return _WELL.get(outcome, f"without its answer, {outcome}")


def unknown(told: dict[str, Any]) -> str:
    """Return the sentence that says that a request is not known, and what would be."""
    return (
        f"no request '{told['request']}' is known (any more): "
        f"the last {told['kept']} that ended and as many that were refused at once are kept, "
        f"now back to {duration(told['reaches_back_s'])} ago"
    )


def duration(seconds: float | None) -> str:
    """Return seconds as people say them; `?` for unknown."""
    if seconds is None:
        return "?"
    if seconds < 0.1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _placed(passage: dict[str, Any]) -> Iterator[str]:
    yield f"The policy placed it after {duration(passage['after_s'])}: {passage['detail']}."


def _stand_in(passage: dict[str, Any]) -> Iterator[str]:
    yield f"Its row could not be used ({passage['detail']}), so another one stands in."


def _pulled(passage: dict[str, Any]) -> Iterator[str]:
    still = "has waited" if passage["lasts"] else "waited"
    yield f"It {still} {duration(passage['for_s'])} for the files of {passage['model']} to be pulled."
    if "done_bytes" in passage:
        total = passage["total_bytes"]
        of_all = f" of {total / 1e6:.1f}" if total is not None else ""
        yield f"So far {passage['done_bytes'] / 1e6:.1f}{of_all} MB are here."


def _requeued(passage: dict[str, Any]) -> Iterator[str]:
    yield f"It went back to the head of its lane: {passage['detail']}."


def _refused(passage: dict[str, Any]) -> Iterator[str]:
    yield f"It was refused at once: {passage['detail']}"


def _draining(_passage: dict[str, Any]) -> Iterator[str]:
    yield "Its client left while it ran; the seat stayed held until the worker let go."


def _waited(passage: dict[str, Any]) -> Iterator[str]:
    device = passage["device"]
    if not passage["for_s"] and "position" not in passage:
        yield f"A seat of {device} was free at once."
        return
    wanted = "" if _is_alone(passage) else f" to take up {passage['model']}"
    yield f"It waited {duration(passage['for_s'])} for {device}{wanted}."
    if passage.get("has_worker") is False:
        yield f"No worker serves {device} now."
    if passage["holders"]:
        yield _holders(passage)
    elif passage["complete"]:
        yield f"Nobody held {device} when it came."
    yield from _in_its_way(passage)
    if "position" in passage:
        yield _place(passage)


def _in_its_way(passage: dict[str, Any]) -> Iterator[str]:
    """Yield what came first while it waited: others, a conversation's next turn, the heat."""
    device, before = passage["device"], passage["ran_before"]
    if before:
        yield f"In the fair order {_by_lane(before)} started before it."
    if passage["passed_over_by"]:
        yield f"{_by_lane(passage['passed_over_by'])} for the loaded row went past it, to save a reload."
    if passage["kept_waiting_for"]:
        lanes = ", ".join(f"'{lane}'" for lane in passage["kept_waiting_for"])
        yield f"{device} was kept from it for a conversation of lane {lanes} whose prompt it still held."
    if passage["hot_s"] or passage.get("is_hot"):
        yield _heat(passage)
    if not passage["complete"]:
        yield "Of that time not every holder is kept any more."


def _place(passage: dict[str, Any]) -> str:
    ahead = f", behind {_by_lane(passage['ahead'])}" if passage["ahead"] else ""
    when = f"expected to start in {duration(passage['eta_s'])}"
    if passage["is_hot"]:
        when = f"how soon {passage['device']} cools nobody knows"
    elif passage["is_short"]:
        when = "the first of them waits until enough memory is free"
    return f"It stands at position {passage['position']} now{ahead}; {when}."


def _heat(passage: dict[str, Any]) -> str:
    """Return for how long the heat hold stood in the way; its lines are unknown where it was switched off."""
    lines = ""
    if "stop_c" in passage:
        lines = f", from {passage['stop_c']:g} °C on until below {passage['resume_c']:g} °C,"
    still = " so far" if passage.get("is_hot") else ""
    kept = f"kept {passage['device']} from starting anything for {duration(passage['hot_s'])} of it"
    return f"The heat hold{lines} {kept}{still}."


def _holders(passage: dict[str, Any]) -> str:
    parts: list[str] = []
    for held in passage["held_by"]:
        load = f", loading for {duration(held['load_s'])} of it" if held["load_s"] else ""
        parts.append(
            f"lane '{held['lane']}' ({held['request']}, {held['model']}) for {duration(held['held_s'])} "
            f"already and {duration(held['still_s'])} more{load}"
        )
    hidden = passage["holders"] - len(parts)
    more = f" and {hidden} others" if hidden else ""
    return f"When it came, {passage['device']} was held by {'; by '.join(parts)}{more}."


def _ran(passage: dict[str, Any]) -> Iterator[str]:
    device, model, for_s = passage["device"], passage["model"], duration(passage["for_s"])
    if _is_alone(passage):
        line = f"It had {device} to itself for {for_s}"
    else:
        line = f"It ran on {device} as {model} for {for_s}"
    if passage.get("load_s"):
        line += f", of which loading took {duration(passage['load_s'])}"
    if "first_token_after_s" in passage:
        line += f"; the first token came after {duration(passage['first_token_after_s'])}"
    yield f"{line}."


def _is_alone(passage: dict[str, Any]) -> bool:
    """Return whether it is a hold of an outside lane, which wants a device and no row."""
    return bool(passage["model"] == passage.get("device"))


def _other(passage: dict[str, Any]) -> Iterator[str]:
    after, detail = duration(passage["after_s"]), passage.get("detail", "")
    yield f"{passage['what'].capitalize()}, after {after}: {detail}."


def _by_lane(counts: dict[str, int]) -> str:
    total = sum(counts.values())
    tickets = "1 ticket" if total == 1 else f"{total} tickets"
    if len(counts) == 1:
        return f"{tickets} of lane '{next(iter(counts))}'"
    lanes = ", ".join(f"{n} of lane '{lane}'" for lane, n in counts.items())
    return f"{tickets} ({lanes})"


_PASSAGES: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "placed": _placed,
    "stand-in": _stand_in,
    "pulled": _pulled,
    "requeued": _requeued,
    "refused": _refused,
    "draining": _draining,
    "waited": _waited,
    "ran": _ran,
}
