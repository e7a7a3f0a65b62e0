"""The models directory as an operator sees it: what there is, removed, verified: `fairlane models`.

It works on the directory alone, beside a running store or without one: locks and records are the kernel's and
the disk's, and a store looks at its rows every few seconds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from policies.table import Row, Table
from scheduler.wire.words import StockState
from workers.store.disk import Kept, in_use, kept, remove
from workers.store.layout import file_in, listing_of, repo_folder
from workers.store.places import is_elsewhere, names_of
from workers.store.records import Record, Unreadable, read, recall, sha256_of
from workers.store.stock import Stock

Source = Literal["hub", "package", "path", "elsewhere"]


class Busy(Exception):
    """A model is not removed, because it is loaded or being pulled; the text names the process."""


class Unknown(Exception):
    """There is no such model; the text names those there are."""


class Item(Struct, frozen=True):
    """One model: a row of the table, or files that no row names.

    Attributes:
        model: Row, or the row for which the files were pulled, or `repository/file`.
        source: Where its files come from; only the hub's are the store's.
        state: As the store tells the broker; of what no row names, `ready` or `missing` (begun).
        reason: Why it is not ready.
        files: Name and bytes of each file in the models directory, partial ones included.
        bytes: Of all its files, wherever they are.
        sha256: Name -> SHA-256 of each file that came whole, as recorded; of what is not the store's none.
        templates: Chat template name -> SHA-256 of the file that is served; empty: none, or unknown.
        is_named: Whether the table names it; what is not named goes first when room is short.
        used_at: Last use of its files, in seconds since 1970; 0: unknown.
    """

    model: str
    source: Source
    state: StockState
    reason: str
    repo: str
    files: dict[str, int]
    bytes: int
    sha256: dict[str, str]
    templates: dict[str, str]
    is_named: bool
    used_at: float


class Checked(Struct, frozen=True):
    """One file after `verify`.

    Attributes:
        is_whole: Length and SHA-256 are those recorded when it was pulled and compared with the hub's.
        message: What was found.
    """

    file: str
    is_whole: bool
    message: str


class Library:
    """One models directory under one table."""

    def __init__(self, models: Path, table: Table) -> None:
        """Look at nothing yet.

        Args:
            models: The models directory; it need not be there.
            table: The table in force.
        """
        self._models = models
        self._table = table
        self._stock = Stock(models)

    def items(self) -> list[Item]:
        """Return the rows of the table in its order, then what no row names, by name.

        Raises:
            OSError: A file is there and cannot be read.
        """
        there = {(one.repo, one.file): one for one in kept(self._models)}
        rows = [self._item(row, there) for row in self._table.rows.values()]
        named = {(one.repo, file) for one in rows for file in one.files}
        left: dict[tuple[str, str], list[Kept]] = {}
        for name, one in there.items():
            if name not in named:
                left.setdefault((_owner(one), one.repo), []).append(one)
        return rows + [
            _unnamed(model, repo, files) for (model, repo), files in sorted(left.items())
        ]

    def remove(self, model: str, *, force: bool = False) -> int:
        """Remove a model's files from the models directory; return the bytes that went.

        A file that another row of the table names, too, stays; so do packages and files at paths.

        Args:
            model: As `items` names it.
            force: Also what is loaded or being pulled: a process keeps what it loaded until it lets it go,
                and a pull of it fails.

        Raises:
            Unknown: There is no such model.
            Busy: One of its files is loaded or being pulled; nothing is removed.
            OSError: The disk refuses.
        """
        items = self.items()
        item = self._find(model, items)
        if item.source != "hub":
            text = "it is no file of the hub's, and only those are the store's to remove"
            raise Unknown(f"'{model}' is not removed: {text}")
        others = {(o.repo, file) for o in items if o.is_named and o is not item for file in o.files}
        going = [
            one
            for one in kept(self._models)
            if one.repo == item.repo
            and one.file in item.files
            and (one.repo, one.file) not in others
        ]
        users = in_use(self._models)
        for one in going:
            if one.path in users and not force:
                text = (
                    f"process {users[one.path]} has {one.file} open; stop it or let it unload first"
                )
                raise Busy(f"'{model}' is not removed: {text}")
        row = self._table.rows.get(model)
        if row is not None and row.file is None:
            listing_of(repo_folder(self._models, item.repo)).unlink(missing_ok=True)
        for one in going:
            remove(one)
        return sum(one.bytes for one in going)

    def verify(self, model: str, tick: Callable[[], None] = lambda: None) -> list[Checked]:
        """Read a model's files again and compare them with what was recorded when they came.

        Nothing is changed, but that a file without a record gets one.

        Args:
            model: As `items` names it.
            tick: Called after each mebibyte that is read.

        Raises:
            Unknown: There is no such model.
            OSError: A file cannot be read.
        """
        item = self._find(model, self.items())
        row = self._table.rows.get(model)
        if item.source != "hub":
            return self._checked_elsewhere(row, item)
        checked = [
            _checked(
                file_in(self._models, item.repo, name), item.repo, name, model, tick,
                is_named=item.is_named,
            )
            for name in item.files
        ]  # fmt: skip
        if row is not None and all(one.is_whole for one in checked):
            state = self._stock.of(row)
            if state.state == "mismatch":
                checked.append(Checked(row.file or item.repo, False, self._stock.mismatch(row)))
            elif state.state != "ready":
                checked.append(Checked(row.file or item.repo, False, state.reason))
        return checked

    def _find(self, model: str, items: list[Item]) -> Item:
        for item in items:
            if item.model == model:
                return item
        names = ", ".join(item.model for item in items) or "none"
        raise Unknown(f"no model is called '{model}'; there are: {names}")

    def _item(self, row: Row, there: dict[tuple[str, str], Kept]) -> Item:
        state = self._stock.of(row)
        files = [there[key] for key in self._keys(row) if key in there]
        return Item(
            row.model,
            _source(row),
            state.state,
            state.reason,
            row.hf_repo or "",
            {one.file: one.bytes for one in files},
            max(state.bytes, sum(one.bytes for one in files)),
            _recorded(files),
            self._stock.templates(row),
            is_named=True,
            used_at=max((one.used_at for one in files), default=0.0),
        )

    def _keys(self, row: Row) -> list[tuple[str, str]]:
        if row.hf_repo is None:
            return []
        if row.file is not None:
            return [(row.hf_repo, name) for name in names_of(row)]
        return [(one.repo, one.file) for one in kept(self._models) if one.repo == row.hf_repo]

    def _checked_elsewhere(self, row: Row | None, item: Item) -> list[Checked]:
        if row is None or is_elsewhere(row):
            return [Checked(item.model, True, "another program's files; nothing here to check")]
        is_ready = item.state == "ready"
        if item.state == "mismatch":
            return [Checked(item.model, False, self._stock.mismatch(row))]
        text = (
            "its files are there and its templates are the pinned ones" if is_ready else item.reason
        )
        return [Checked(item.model, is_ready, text)]


def _recorded(files: list[Kept]) -> dict[str, str]:
    digests: dict[str, str] = {}
    for one in files:
        try:
            known = read(one.path)
        except Unreadable:
            continue
        if known is not None and one.path.is_file():
            digests[one.file] = known.sha256
    return digests


def _checked(
    path: Path, repo: str, name: str, model: str, tick: Callable[[], None], *, is_named: bool
) -> Checked:
    try:
        known = read(path)
    except Unreadable:
        known = None  # `recall` tells, and makes it anew
    if not path.is_file():
        verb = "pull" if is_named else "models rm"
        what = "goes on with it" if is_named else "removes it: no row of the table names it"
        return Checked(name, False, f"it is not whole; `fairlane {verb} {model}` {what}")
    if known is None:
        found = recall(path, repo, name, model, tick)
        said = f"there was no record of it; it has sha256 {found.sha256}" if found else "it is gone"
        return Checked(name, found is not None, said)
    return _compared(path, name, known, tick)


def _compared(path: Path, name: str, known: Record, tick: Callable[[], None]) -> Checked:
    size = path.stat().st_size
    advice = "remove the model with `fairlane models rm` and pull it again"
    if size != known.bytes:
        return Checked(name, False, f"it has {size} bytes and should have {known.bytes}; {advice}")
    digest = sha256_of(path, tick)
    if digest != known.sha256:
        text = f"it has sha256 {digest} and should have {known.sha256}"
        return Checked(name, False, f"{text}: it was changed since it came; {advice}")
    return Checked(name, True, f"sha256 {digest}, from {known.origin}")


def _source(row: Row) -> Source:
    if row.hf_repo is not None:
        return "hub"
    if row.package is not None:
        return "package"
    return "path" if row.path is not None else "elsewhere"


def _owner(one: Kept) -> str:
    """Return under which name files that no row names are listed."""
    try:
        known = read(one.path)
    except Unreadable:
        known = None
    return known.model if known and known.model else f"{one.repo}/{one.file}"


def _unnamed(model: str, repo: str, files: list[Kept]) -> Item:
    is_whole = all(one.path.is_file() for one in files)
    return Item(
        model,
        "hub",
        "ready" if is_whole else "missing",
        "" if is_whole else "begun and not complete",
        repo,
        {one.file: one.bytes for one in files},
        sum(one.bytes for one in files),
        _recorded(files),
        {},
        is_named=False,
        used_at=max(one.used_at for one in files),
    )
