"""What the shapes of the fake's answers have in common. Pure.

A door gives the whole reply as an object, or a stream as blocks of server-sent events in groups: what comes
before the first token, one group a token, what comes after the last.
"""

import json
from typing import Any, Protocol

from workers.fake_server.words import Counted, Said

Object = dict[str, Any]


class Door(Protocol):
    """One way to be asked."""

    def whole(self, said: Said, counted: Counted) -> Object:
        """Return the reply that is not streamed."""
        ...

    def opening(self, counted: Counted) -> list[bytes]:
        """Return the events before the first token."""
        ...

    def pieces(self, said: Said) -> list[list[bytes]]:
        """Return the events of each token."""
        ...

    def closing(self, said: Said, counted: Counted) -> list[bytes]:
        """Return the events after the last token."""
        ...


def data(payload: Object, name: str = "") -> bytes:
    """Return an event."""
    text = json.dumps(payload, ensure_ascii=False)  # with spaces, so that re-encoding would show
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def parts_of(text: str) -> list[str]:
    """Return a text in pieces of four characters."""
    return [text[n : n + 4] for n in range(0, len(text), 4)]
