"""The catalogue as the workers get it: the table in force, and the policies users registered.

It is the body of WELCOME and CATALOGUE. The broker composes and sends it; it reads neither part.
"""

import msgspec
from msgspec import Raw, Struct

from scheduler.errors import ProtocolError


class CatalogueBody(Struct, frozen=True):
    """One version of the catalogue."""

    table: str  # text of the laya-first table
    policies: dict[str, Raw] = {}  # name -> collection.router policy, as it was registered


def read(body: bytes) -> CatalogueBody:
    """Return a catalogue.

    Raises:
        ProtocolError: The bytes are none.
    """
    try:
        return msgspec.json.decode(body, type=CatalogueBody)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"catalogue: {error}") from error
