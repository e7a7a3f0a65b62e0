"""Which files a row is made of, and where they are: in the models directory, in a package, or at a path."""

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from msgspec import Struct

from policies.filenames import file_fault
from policies.table import Row, Table
from workers.store.layout import BadName, file_in, repo_folder
from workers.store.records import read_listing

ROW_PIN = "row"
_CONFIG = "tokenizer_config.json"  # holds the template of an NPU container
_Q4NX = ".q4nx"


class Absent(Exception):
    """It cannot be told where a row's files would be; the text says what would help."""


class Piece(Struct, frozen=True):
    """One file of a row.

    Attributes:
        name: In its source.
        path: On this machine, whether it is there or not.
        pin: What its chat template must be: `ROW_PIN` what the row pins, a SHA-256, or empty for anything.
    """

    name: str
    path: Path
    pin: str


class Named(Struct, frozen=True):
    """The files of the hub that a table names."""

    repos: frozenset[str]  # whole ones
    files: frozenset[tuple[str, str]]  # repository and name

    def __contains__(self, name: tuple[str, str]) -> bool:
        """Tell whether a file of a repository is named."""
        return name[0] in self.repos or name in self.files


def is_elsewhere(row: Row) -> bool:
    """Tell whether a row's files are another program's affair."""
    return row.url is not None or row.tag is not None


def names_of(row: Row, listed: list[str] | None = None) -> list[str]:
    """Return the names of a row's files in its source, the one that is loaded first.

    Args:
        row: A row with hf_repo, package or path.
        listed: All files of its repository, where the row is a whole one.
    """
    own = Path(row.path).name if row.path is not None else row.file
    names = [own] if own is not None else [name for name in listed or [] if not file_fault(name)]
    if own is not None and own.endswith(_Q4NX):
        names.append(_beside(own, _CONFIG))
    return list(dict.fromkeys([*names, *(extra.file for extra in row.extra_files)]))


def pieces_of(row: Row, models: Path) -> list[Piece]:
    """Return a row's files with their places.

    Raises:
        Absent: Its package is not installed, or its repository has never been listed.
        BadName: One of its names must not become a path.
    """
    listed: list[str] | None = None
    if row.hf_repo is not None and row.file is None:
        listing = read_listing(repo_folder(models, row.hf_repo))
        if listing is None:
            raise Absent(f"{row.hf_repo} is not on disk")
        listed = listing.files
    names = names_of(row, listed)
    pins = {extra.file: extra.template_sha256 or "" for extra in row.extra_files}
    carrier = _carrier(names)
    return [
        Piece(name, path, ROW_PIN if name == carrier else pins.get(name, ""))
        for name, path in zip(names, _paths(row, names, models), strict=True)
    ]


def named_by(table: Table) -> Named:
    """Return which files of the hub a table names; nothing else is ever asked of it."""
    rows = [row for row in table.rows.values() if row.hf_repo is not None]
    files = {
        (row.hf_repo or "", name) for row in rows if row.file is not None for name in names_of(row)
    }
    if table.scorer.hf_repo and table.scorer.file:
        files.add((table.scorer.hf_repo, table.scorer.file))
    whole = {row.hf_repo or "" for row in rows if row.file is None}
    return Named(frozenset(whole), frozenset(files))


def _carrier(names: list[str]) -> str:
    """Return which file holds the row's template."""
    first = names[0] if names else ""
    config = _beside(first, _CONFIG) if first.endswith(_Q4NX) else _CONFIG
    return config if config in names else first


def _beside(name: str, other: str) -> str:
    return f"{name.rpartition('/')[0]}/{other}".lstrip("/")


def _paths(row: Row, names: list[str], models: Path) -> Iterator[Path]:
    if row.hf_repo is not None:
        yield from (file_in(models, row.hf_repo, name) for name in names)
    elif row.path is not None:
        path = Path(row.path).expanduser()
        yield path
        for name in names[1:]:
            if file_fault(name):
                raise BadName(f"the file {name!r} beside {path} {file_fault(name)}")
            yield path.parent / name
    else:
        yield from _packaged(row.package or "", names)


def _packaged(package: str, names: list[str]) -> Iterator[Path]:
    """Find files through the distribution's own record, without importing the package."""
    try:
        files = metadata.distribution(package).files or []
    except metadata.PackageNotFoundError:
        text = f"the package {package} is not installed; run `make setup`"
        raise Absent(text) from None
    for name in names:
        found = [file for file in files if file.name == Path(name).name]
        if not found:
            raise Absent(f"the package {package} holds no file {name}")
        same = [file for file in found if file.as_posix().endswith(name)]
        yield Path(str((same or found)[0].locate()))
