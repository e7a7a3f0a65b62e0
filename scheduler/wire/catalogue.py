"""The catalogue on the wire: the table in force, and the policies users registered.

SHELF brings the policies from the store to the broker; WELCOME and CATALOGUE carry table and policies to the
workers. They are bodies, not headers, because their size is the users'. The broker reads which names there
are and passes the policies on unread.
"""

import msgspec
from msgspec import Raw, Struct

from policies.overlay import overlay
from policies.table import Table, parse_table
from scheduler.errors import ProtocolError


class CatalogueBody(Struct, frozen=True):
    """One version of the catalogue."""

    table: str  # text of the laya-first table
    policies: dict[str, Raw] = {}  # name -> collection.router policy, as it was registered
    overlay: str = ""  # text of the site's overlay over the table, empty if there is none

    def parsed(self) -> Table:
        """Return the table with the overlay over it.

        Raises:
            policies.table.TableError: A broker of another version took what this one refuses.
        """
        table = parse_table(self.table)
        return overlay(table, self.overlay) if self.overlay else table


class ShelfBody(Struct, frozen=True):
    """What the store keeps."""

    collections: dict[str, str]  # name -> its default model
    slow: list[str]  # those whose decisions call models
    policies: dict[str, Raw]  # name -> collection.router policy


def read_shelf(body: bytes) -> ShelfBody:
    """Return a shelf.

    Raises:
        ProtocolError: The bytes are none.
    """
    try:
        return msgspec.json.decode(body, type=ShelfBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"shelf: {error}") from error


def read(body: bytes) -> CatalogueBody:
    """Return a catalogue.

    Raises:
        ProtocolError: The bytes are none.
    """
    try:
        return msgspec.json.decode(body, type=CatalogueBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"catalogue: {error}") from error
