"""The site overlay: a box's own numbers over a table that came from elsewhere.

It tunes what a site knows better (memory, load, whose work matters) and cannot change which file
is served or what that file must be: models, sources and digests stay with the table.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from policies.problems import Problem, convert_struct, load_unique, want_object
from policies.row import Count, Row, Seconds
from policies.shape import is_object
from policies.table import Table, TableError


class RowOverlay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a site may say about one row; what it leaves out stays as it is.

    Attributes:
        ctx: Context window of one slot, in tokens.
        slots: Requests that one load serves at once.
        ttl_s: Idle time after which it may be unloaded, in seconds.
        pinned: Never evicted.
    """

    ctx: Count | None = None
    slots: Count | None = None
    ttl_s: Seconds | None = None
    pinned: bool | None = None


class Overlay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A site's document.

    Attributes:
        rows: Model name -> what is different here.
        weights: Lane name -> share of the devices; 1 where absent.
    """

    rows: dict[str, object] = {}
    weights: dict[str, Annotated[float, Meta(gt=0)]] = {}


def overlay(table: Table, text: str) -> Table:
    """Return the table as it is at a site.

    Args:
        table: A good table.
        text: The overlay as JSON.

    Raises:
        TableError: With every fault of the overlay.
    """
    problems: list[Problem] = []
    document = load_unique(text, problems)
    raw = want_object(document, "$", problems) if document is not None or not problems else None
    values = convert_struct(raw, Overlay, "$", problems) if raw is not None else None
    rows = dict(table.rows)
    for name, entry in values.rows.items() if values is not None else ():
        row = _row(rows.get(name), entry, f"$.rows.{name}", problems)
        if row is not None:
            rows[name] = row
    if problems or values is None:
        raise TableError(problems)
    return msgspec.structs.replace(table, rows=rows, weights=values.weights)


def _row(row: Row | None, entry: object, path: str, problems: list[Problem]) -> Row | None:
    if row is None:
        problems.append(Problem(path, "no row of this table"))
    if not is_object(entry):
        problems.append(Problem(path, "must be an object"))
        return None
    for key in entry.keys() & {"template_sha256", "template_sha256_prefix"}:
        message = "a site cannot change what a file must be; that is the table's to say"
        problems.append(Problem(f"{path}.{key}", message))
    own = {key: value for key, value in entry.items() if not key.startswith("template_sha256")}
    tuned = convert_struct(own, RowOverlay, path, problems)
    if tuned is None or row is None:
        return None
    changes = msgspec.structs.asdict(tuned).items()
    return msgspec.structs.replace(row, **{name: new for name, new in changes if new is not None})
