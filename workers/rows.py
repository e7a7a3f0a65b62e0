"""Where a row's files are on this machine."""

import contextlib
import os
from pathlib import Path

from policies.table import ExtraFile, Row
from policies.why import Reason, Why
from workers.job import JobError
from workers.store.layout import BadName, record_of, repo_folder
from workers.store.places import Absent, Piece, pieces_of
from workers.store.records import whole

_models = Path("~/.local/share/fairlane/models").expanduser()


def look_in(models: Path) -> None:
    """Say where pulled files are, once in a process."""
    global _models  # noqa: PLW0603  # one directory a process, as one environment
    _models = models


def file_of(row: Row) -> Path:
    """Return the row's model file, or its directory where the row is a whole repository.

    It is cheap: a pulled file counts as whole if its record says so and its length is the record's. A
    `package` row is found through the distribution's own record, without importing the package.

    Raises:
        JobError: It is not on this machine whole; says what would bring it.
    """
    pieces = _pieces(row)
    if row.hf_repo is not None and row.file is None:
        for piece in pieces:
            _check(row, piece)
        return repo_folder(_models, row.hf_repo)
    return _check(row, pieces[0])


def extras_of(row: Row) -> list[tuple[ExtraFile, Path]]:
    """Return the row's further files with their places.

    Raises:
        JobError: One is not on this machine whole.
    """
    pieces = {piece.name: piece for piece in _pieces(row)}
    return [(extra, _check(row, pieces[extra.file])) for extra in row.extra_files]


def size_of(row: Row) -> int:
    """Return the bytes of all of a row's files.

    Raises:
        JobError: One is not on this machine whole.
        OSError: One cannot be looked at.
    """
    return sum(_check(row, piece).stat().st_size for piece in _pieces(row))


def used(row: Row) -> None:
    """Note that a row's files are in use now: what was used longest ago goes first."""
    if row.hf_repo is not None:
        for piece in _pieces(row):
            with contextlib.suppress(OSError):
                os.utime(record_of(piece.path))


def _pieces(row: Row) -> list[Piece]:
    """Return the files of a row, the model's own first; whether they are here is not looked at."""
    if row.url is not None or row.tag is not None:
        text = f"{row.url or row.tag} is another program's, and this engine loads files"
        raise unusable(row, Reason.PULL_FAILED, text)
    try:
        return pieces_of(row, _models)
    except (Absent, BadName) as error:
        raise unusable(row, Reason.PULL_FAILED, str(error)) from error


def _check(row: Row, piece: Piece) -> Path:
    """Return where a file of a row is."""
    if row.hf_repo is not None and whole(piece.path) is None:
        text = (
            f"{piece.name} of {row.hf_repo} is not on disk; `fairlane pull {row.model}` brings it"
        )
        raise unusable(row, Reason.PULL_FAILED, text)
    if not piece.path.is_file():
        cause = Reason.LOAD_FAILED if row.path is not None else Reason.PULL_FAILED
        raise unusable(row, cause, f"there is no file {piece.path}")
    return piece.path


def unusable(row: Row, cause: Reason | Why, text: str) -> JobError:
    """Return the error of a row that cannot be used; the cause decides what a routed answer says."""
    message = f"Model '{row.model}' cannot be used: {text}."
    return JobError(503, "model_not_usable", message, {"cause": str(cause)})
