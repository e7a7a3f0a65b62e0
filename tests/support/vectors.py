"""The golden wire messages of tests/vectors/wire.jsonl."""

from pathlib import Path

import msgspec
from msgspec import Struct

from scheduler.wire.messages import Message
from scheduler.wire.verbs import VERBS

_FILE = Path(__file__).parents[1] / "vectors" / "wire.jsonl"
_KIND = {kind.__name__: kind for kind in VERBS.values()}


class Vector(Struct, frozen=True, forbid_unknown_fields=True):
    """One message and the bytes of its header."""

    name: str
    hex: str
    verb: str
    fields: dict[str, object]

    @property
    def message(self) -> Message:
        """The message as a value."""
        return msgspec.convert(self.fields, _KIND[self.verb])

    @property
    def header(self) -> bytes:
        """The message as bytes."""
        return bytes.fromhex(self.hex)


def load() -> list[Vector]:
    """Return all vectors."""
    return [msgspec.json.decode(line, type=Vector) for line in _FILE.read_bytes().splitlines()]
