"""Attaching a decision to a stream: the first event that can carry it gets it.

Lemonade's rule: the first event whose first data line is a JSON object. That line is written anew,
compact and with sorted keys; every other byte of the stream passes as it came.
"""

import json
import re

from policies.shape import decode, is_object

FIELD = "x_lemonade_route"

# The blank line that ends an event; each of the three line ends may stand alone or be mixed.
_EVENT_END = re.compile(rb"(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r|\n)")
_LINE_END = re.compile(rb"(\r\n|\r|\n)")


def dump(value: object) -> bytes:
    """Return JSON as Lemonade writes it: compact, keys sorted, letters as they are."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode("utf-8", "surrogatepass")


class Attacher:
    """Adds one decision to one stream.

    Attributes:
        decision: The object to attach; the server adds to its `outputs` before.
        attached: Whether it has been attached, after which bytes pass unexamined.
    """

    def __init__(self, decision: dict[str, object]) -> None:
        self.decision = decision
        self.attached = False
        self._pending = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what may be passed on now; an event is held until it is complete."""
        if self.attached:
            return chunk
        self._pending += chunk
        ready = b""
        while (end := self._event_end()) is not None:
            event, self._pending = self._pending[:end], self._pending[end:]
            carrier = self._with_decision(event)
            if carrier is not None:
                self.attached = True
                return ready + carrier + self.flush()
            ready += event
        return ready

    def flush(self) -> bytes:
        """Return what is held, at the end of the stream."""
        rest, self._pending = self._pending, b""
        return rest

    def _event_end(self) -> int | None:
        found = _EVENT_END.search(self._pending)
        if found is None:
            return None
        # A carriage return at the very end may be half of a line end.
        split = self._pending.endswith(b"\r") and found.end() == len(self._pending)
        return None if split else found.end()

    def _with_decision(self, event: bytes) -> bytes | None:
        """Return the event with the decision in it, `None` if it cannot carry one."""
        lines = _LINE_END.split(event)
        for index, line in enumerate(lines):
            if line.startswith(b"data:"):
                value = _object(line.removeprefix(b"data:"))
                if value is None:
                    return None
                lines[index] = b"data: " + dump({**value, FIELD: self.decision})
                return b"".join(lines)
        return None


def _object(data: bytes) -> dict[str, object] | None:
    try:
        value = decode(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None
