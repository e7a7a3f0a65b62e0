"""Which table is in force: the one the settings name, the user's own, or the embedded one."""

from pathlib import Path

from policies import shipped
from policies.table import Table, TableError, parse_table
from scheduler.errors import SettingsError
from scheduler.settings import Settings

EMBEDDED = "embedded.json"


def load_table(conf: Settings) -> tuple[Table, str]:
    """Return the table in force and its text.

    Raises:
        SettingsError: It cannot be read or is refused; the message holds every fault.
    """
    source, text = _text(conf)
    try:
        return parse_table(text), text
    except TableError as error:
        raise SettingsError(f"the table {source} is refused: {error}") from error


def _text(conf: Settings) -> tuple[str, str]:
    if not conf.table:
        return EMBEDDED, shipped.read(EMBEDDED)
    path = Path(conf.table).expanduser()
    try:
        return str(path), path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the table {path}: {error}") from error
