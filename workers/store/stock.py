"""Whether a row's files are here and may be used: all whole, each served template the pinned one."""

from pathlib import Path

from msgspec import Struct

from policies.pins import DEFAULT_TEMPLATE, row_verdict
from policies.table import Row
from scheduler.wire.words import RowStock
from workers.badfile import BadFile
from workers.store.layout import BadName
from workers.store.places import ROW_PIN, Absent, Piece, is_elsewhere, pieces_of
from workers.store.records import recall
from workers.templates import digests_of

REASON_MAX = 128  # characters, on the wire
_SHORT = 10  # digits of a digest that tell files apart


class Templates(Struct, frozen=True):
    """The chat templates of one file.

    Attributes:
        digests: Name -> SHA-256; empty where it has none.
        fault: Why they cannot be read; empty: they can.
    """

    digests: dict[str, str]
    fault: str


class Stock:
    """Looks at rows' files. Records keep what was read of pulled files, this the rest."""

    def __init__(self, models: Path) -> None:
        """Look nowhere yet.

        Args:
            models: The models directory.
        """
        self._models = models
        self._read: dict[tuple[Path, int, int], Templates] = {}  # with size and time of change

    def of(self, row: Row) -> RowStock:
        """Return the state of a row.

        Raises:
            OSError: A file is there and cannot be read.
        """
        if is_elsewhere(row):
            return RowStock("ready")
        try:
            pieces = pieces_of(row, self._models)
        except (Absent, BadName) as error:
            return RowStock("missing", str(error)[:REASON_MAX])
        total, fault = 0, ""
        for piece in pieces:
            found = self._look(row, piece)
            if found is None:
                return RowStock("missing", f"{piece.name} is not on disk"[:REASON_MAX])
            size, templates = found
            total += size
            fault = fault or _mismatch(row, piece, templates, _SHORT)
        if fault:
            return RowStock("mismatch", fault[:REASON_MAX], total)
        return RowStock("ready", bytes=total)

    def templates(self, row: Row) -> dict[str, str]:
        """Return the digests of the templates of the file that a row serves; empty: none, or not known."""
        try:
            pieces = [piece for piece in pieces_of(row, self._models) if piece.pin == ROW_PIN]
        except (Absent, BadName):
            return {}
        found = [self._look(row, piece) for piece in pieces[:1]]
        return found[0][1].digests if found and found[0] else {}

    def mismatch(self, row: Row) -> str:
        """Return in full what is wrong with the templates of a row whose files are here; empty: nothing."""
        looks = ((piece, self._look(row, piece)) for piece in pieces_of(row, self._models))
        faults = (_mismatch(row, piece, found[1], 64) for piece, found in looks if found)
        return next(filter(None, faults), "")

    def _look(self, row: Row, piece: Piece) -> tuple[int, Templates] | None:
        """Return bytes and templates of a file that is here whole."""
        if row.hf_repo is not None:
            record = recall(piece.path, row.hf_repo, piece.name, row.model)
            if record is None:
                return None
            return record.bytes, Templates(record.templates, record.unreadable)
        if not piece.path.is_file():
            return None
        stat = piece.path.stat()
        key = (piece.path, stat.st_size, stat.st_mtime_ns)
        if key not in self._read:
            self._read[key] = _templates(piece.path) if piece.pin else Templates({}, "")
        return stat.st_size, self._read[key]


def _templates(path: Path) -> Templates:
    try:
        return Templates(digests_of(path), "")
    except BadFile as error:
        return Templates({}, error.reason)


def _mismatch(row: Row, piece: Piece, templates: Templates, digits: int) -> str:
    """Return how a file's templates differ from what is pinned; empty: they do not."""
    if not piece.pin or (piece.pin == ROW_PIN and _pins_nothing(row)):
        return ""
    if templates.fault:
        return f"the chat template of {piece.name} cannot be read: {templates.fault}"
    if piece.pin == ROW_PIN:
        is_match = row_verdict(row, templates.digests) != "mismatch"
        pinned = _pinned(row, digits)
    else:
        is_match = templates.digests == {DEFAULT_TEMPLATE: piece.pin}
        pinned = piece.pin[:digits]
    if is_match:
        return ""
    said = _said(templates.digests, digits)
    return f"{piece.name} has the template {said}, and the row pins {pinned}"


def _pinned(row: Row, digits: int) -> str:
    if isinstance(row.template_sha256, dict):
        return _said(row.template_sha256, digits)
    return (row.template_sha256 or row.template_sha256_prefix or "")[:digits]


def _said(digests: dict[str, str], digits: int) -> str:
    """Return digests in words; the default template's stands alone where it is the only one."""
    if set(digests) == {DEFAULT_TEMPLATE}:
        return digests[DEFAULT_TEMPLATE][:digits]
    texts = [f"{name} {digest[:digits]}" for name, digest in sorted(digests.items())]
    return ", ".join(texts) or "none"


def _pins_nothing(row: Row) -> bool:
    return row.template_sha256 is None and row.template_sha256_prefix is None
