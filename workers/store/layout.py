"""Where files of the hub are in the models directory, in a layout that people read.

    <models>/<organisation>/<repository>/<file>        the file, whole and checked, or not there
    <models>/<organisation>/<repository>/.<file>.json  its record
    <models>/<organisation>/<repository>/.<file>.<etag>.part  what a pull has so far
    <models>/<organisation>/<repository>/.repository.json     which files a whole repository is

All that belongs to a file is beside it, so a repository can be moved, or be a link to another disk, as one.
Names are checked here whoever asks: the table's have been, those that a hub lists have not.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from policies.filenames import file_fault, repo_fault

_RECORD, _PARTIAL, _FRESH, _BAD = ".json", ".part", ".new", ".bad"
_REPOSITORY = ".repository.json"
_ETAG_DIGITS = 16  # enough of a digest to tell the contents of one file apart


class BadName(ValueError):
    """A name that must not become a path; the text names it and says why."""


def repo_folder(models: Path, repo: str) -> Path:
    """Return a repository's directory.

    Raises:
        BadName: It must not become a path.
    """
    fault = repo_fault(repo)
    if fault is not None:
        raise BadName(f"the repository {repo!r} {fault}")
    return models.joinpath(*repo.split("/"))


def file_in(models: Path, repo: str, file: str) -> Path:
    """Return where a file of a repository is.

    Raises:
        BadName: One of the names must not become a path.
    """
    fault = file_fault(file)
    if fault is not None:
        raise BadName(f"the file {file!r} of {repo} {fault}")
    return repo_folder(models, repo).joinpath(*file.split("/"))


def record_of(file: Path) -> Path:
    """Return where a file's record is."""
    return file.with_name(f".{file.name}{_RECORD}")


def listing_of(folder: Path) -> Path:
    """Return where it says which files a whole repository is."""
    return folder / _REPOSITORY


def partial_of(file: Path, etag: str) -> Path:
    """Return where a pull of this content of a file grows; another content never meets it."""
    digits = "".join(sign for sign in etag if sign.isalnum())[:_ETAG_DIGITS]
    return file.with_name(f".{file.name}.{digits}{_PARTIAL}")


def partials_of(file: Path) -> list[Path]:
    """Return what pulls of any content of a file have left."""
    return _between(file.parent, f".{file.name}.", _PARTIAL)


def fresh_of(record: Path) -> Path:
    """Return where this thread writes a record before it takes its place."""
    return record.with_name(f"{record.name}.{os.getpid()}-{threading.get_ident()}{_FRESH}")


def aside_of(record: Path) -> Path:
    """Return where a record goes that cannot be read."""
    return record.with_name(record.name + _BAD)


def own_files_of(file: Path) -> list[Path]:
    """Return the store's own files beside a file, there or not."""
    record = record_of(file)
    fresh = _between(file.parent, f"{record.name}.", _FRESH)
    return [record, aside_of(record), *fresh, *partials_of(file)]


def names_in(models: Path) -> Iterator[tuple[str, str]]:
    """Yield repository and name of every file that is there, or that a pull has begun."""
    seen: set[tuple[str, str]] = set()
    for folder in folders_in(models):
        for repo in folders_in(folder):
            for path in sorted(repo.rglob("*")):
                name = _name(path)
                if name and (path.is_file() or not path.exists()):
                    inside = path.with_name(name).relative_to(repo).as_posix()
                    found = (f"{folder.name}/{repo.name}", inside)
                    if file_fault(inside) is None and found not in seen:
                        seen.add(found)
                        yield found


def _between(folder: Path, begins: str, ends: str) -> list[Path]:
    """Return files whose name is between, with letters, digits and '-' alone in the middle."""
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    return [
        path
        for path in found
        if path.name.startswith(begins)
        and path.name.endswith(ends)
        and path.name[len(begins) : -len(ends)].replace("-", "").isalnum()
    ]


def folders_in(folder: Path) -> list[Path]:
    """Return the directories in one, links to others among them, by name."""
    try:
        return [p for p in sorted(folder.iterdir()) if p.is_dir() and not p.name.startswith(".")]
    except OSError:
        return []


def _name(path: Path) -> str:
    """Return the name of the file that a path is, or is a partial of; empty for the store's others."""
    if not path.name.startswith("."):
        return path.name
    stem, dot, _etag = path.name.removesuffix(_PARTIAL).rpartition(".")
    return stem[1:] if dot and path.name.endswith(_PARTIAL) else ""
