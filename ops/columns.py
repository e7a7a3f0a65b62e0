"""Tables for a terminal, a line a row: what is too long for its column is cut with an ellipsis. Pure."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

WIDE, MIDDLE = 100, 60  # columns of a terminal from which on there is room for all, and for most


def table(titles: Sequence[str], *, fixed: Sequence[int]) -> Table:
    """Return a table without lines.

    Args:
        titles: Of its columns; none where all are empty.
        fixed: Places of the columns that are not made narrower.
    """
    made = Table(*titles, box=None, padding=(0, 2, 0, 0), show_header=any(titles))
    for place in fixed:
        made.columns[place].no_wrap = True
    return made


def row(of: Table, *cells: str | Text) -> None:
    """Add a row of one line; as Text: a lane is named by its user, and "[red]" is a name like any other."""
    made = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
    for cell in made:
        cell.no_wrap, cell.overflow = True, "ellipsis"
    of.add_row(*made)


def rest(of: Table, many: int, do: str, *, at: int = 1) -> None:
    """Add a row that says how many more there are, if there are."""
    if many > 0:
        of.add_row(*[""] * at, f"and {many} more {do}".rstrip())


def line(text: str) -> Text:
    """Return a text of one line."""
    return Text(text, no_wrap=True, overflow="ellipsis")
