"""Which table is in force: a file that is named, the user's own, or one that ships.

The order is the command line, the settings, `~/.local/share/fairlane/laya-first.json`, the embedded one. The
site's overlay lies over whichever it is.
"""

from pathlib import Path

from msgspec import Struct

from policies import shipped
from policies.overlay import overlay
from policies.table import Table, TableError, parse_table
from scheduler.errors import SettingsError
from scheduler.settings import Settings

# What `table` may name instead of a file.
SHIPPED = {"embedded": "embedded.json", "laya-first": "laya-first.json"}


class Source(Struct, frozen=True):
    """The table in force.

    Attributes:
        name: A path, `embedded` or `laya-first`; what status shows.
        text: The table as it was written.
        overlay: The site's overlay as it was written, empty if there is none.
        table: Both together.
    """

    name: str
    text: str
    overlay: str
    table: Table


def load_table(conf: Settings, home: Path | None = None) -> Source:
    """Return the table in force.

    Args:
        conf: The settings.
        home: The user's home directory, whose own table counts.

    Raises:
        SettingsError: It or the overlay cannot be read or is refused; the message holds every fault.
    """
    own = (home or Path.home()) / ".local/share/fairlane/laya-first.json"
    name = conf.table or (str(own) if own.is_file() else "embedded")
    text = shipped.read(SHIPPED[name]) if name in SHIPPED else _read(name, "table")
    site = _read(conf.table_overlay, "overlay") if conf.table_overlay else ""
    try:
        table = parse_table(text)
    except TableError as error:
        raise SettingsError(f"the table {name} is refused: {error}") from error
    try:
        table = overlay(table, site) if site else table
    except TableError as error:
        raise SettingsError(f"the overlay {conf.table_overlay} is refused: {error}") from error
    return Source(name, text, site, table)


def _read(name: str, what: str) -> str:
    path = Path(name).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the {what} {path}: {error}") from error
