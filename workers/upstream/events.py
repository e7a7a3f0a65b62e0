"""Server-sent events out of a stream of bytes, within a bound. Pure.

As https://html.spec.whatwg.org/multipage/server-sent-events.html has it, but that a lone carriage return
ends no line, which no engine uses.
"""

from typing import NamedTuple

from workers.lines import Lines

LONGEST = (
    16 * 1024 * 1024
)  # bytes of one event; an honest one has some hundred, an image some million
_TOO_LONG = b"\0"


class TooLong(Exception):
    """An event is longer than the bound."""


class Event(NamedTuple):
    """One event that has data."""

    name: str
    data: bytes  # on one line: JSON has no line ends but between its tokens


class Events:
    """Splits what a connection gives into events."""

    def __init__(self, longest: int = LONGEST) -> None:
        """Start with nothing.

        Args:
            longest: Bytes of an event's data at most.
        """
        self._longest = longest
        self._lines = Lines(longest, mark=_TOO_LONG)
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def finish(self) -> list[Event]:
        """Return the event that the end of the stream ends, if its last lines have no ends."""
        begun = self._lines.rest.removesuffix(b"\r")
        return self.feed(b"\n\n" if begun else b"\n")

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that end in `data`, in order.

        Raises:
            TooLong: One does not fit; nothing may be fed any more.
        """
        events: list[Event] = []
        for line in self._lines.feed(data):
            if line is _TOO_LONG:
                raise TooLong
            text = line.removesuffix(b"\r")
            if text:
                self._take(text)
                continue
            told = b" ".join(self._data)
            if told:
                events.append(Event(self._name, told))
            self._name, self._size = "", 0
            self._data.clear()
        return events

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._size += len(value)
            if self._size > self._longest:
                raise TooLong
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
