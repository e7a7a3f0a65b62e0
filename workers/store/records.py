"""What is known of each pulled file, on disk: the registry. One small record a file, beside it.

A record is written whole or not at all, and carries a checksum: a crash at any byte leaves the one of before,
the one of after, or none. One that cannot be read is moved aside with one alert, and the file read anew. A
file gets its name only when it is whole and checked, so what is found without a record is whole, too.
"""

import hashlib
import logging
import os
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from scheduler.log import note
from workers.badfile import BadFile, open_plain
from workers.store.layout import aside_of, fresh_of, listing_of, record_of
from workers.templates import digests_of

log = logging.getLogger(__name__)
FOUND = "found on disk"  # origin of a file whose record was lost
_BLOCK = 1 << 20  # bytes hashed at once
_RECORD_MAX = 1 << 20  # bytes; a record has a few hundred


class Record(Struct, frozen=True, omit_defaults=True):
    """One file that is here whole.

    Attributes:
        repo: Its repository.
        file: Its name in it.
        bytes: Its length.
        sha256: Of its content, as it arrived.
        templates: Chat template name -> SHA-256; empty where it has none.
        unreadable: Why its templates cannot be read; empty: they can.
        at: When it was complete, in seconds since 1970.
        origin: Address of the hub it came from, or `FOUND`.
        etag: The hub's name of this content.
        commit: The repository's commit it is of.
        model: Row for which it was pulled first.
    """

    repo: str
    file: str
    bytes: int
    sha256: str
    templates: dict[str, str] = {}
    unreadable: str = ""
    at: float = 0.0
    origin: str = FOUND
    etag: str = ""
    commit: str = ""
    model: str = ""


class Listing(Struct, frozen=True):
    """Which files a whole repository is, at one commit."""

    commit: str
    files: list[str]


_Kept = TypeVar("_Kept", Record, Listing)


class Unreadable(Exception):
    """A record is not what was written."""


def read(file: Path) -> Record | None:
    """Return a file's record, None where there is none.

    Raises:
        Unreadable: There is one, and it is damaged.
    """
    return _decode(record_of(file), Record)


def whole(file: Path) -> Record | None:
    """Return the record of a file that is here with the length it must have, else None.

    This is all that a worker asks before it loads a file: two small reads, nothing is hashed.
    """
    try:
        record = read(file)
        return record if record and file.stat().st_size == record.bytes else None
    except (Unreadable, OSError):
        return None


def write(file: Path, record: Record) -> None:
    """Keep a record, durably.

    Raises:
        OSError: The disk does not take it; the record of before is still there.
    """
    _keep(record_of(file), msgspec.json.encode(record))


def drop(file: Path) -> None:
    """Forget a file: from here on it counts as found."""
    record_of(file).unlink(missing_ok=True)


def read_listing(folder: Path) -> Listing | None:
    """Return which files a whole repository is; None: that is not known, or damaged."""
    try:
        return _decode(listing_of(folder), Listing)
    except Unreadable as error:
        _set_aside(listing_of(folder), str(error))
        return None


def write_listing(folder: Path, listing: Listing) -> None:
    """Keep which files a whole repository is."""
    _keep(listing_of(folder), msgspec.json.encode(listing))


def recall(
    file: Path, repo: str, name: str, model: str, tick: Callable[[], None] = lambda: None
) -> Record | None:
    """Return the record of a whole file, made anew where it is lost or damaged; None: no whole file.

    Args:
        file: Where the file is.
        repo: Its repository.
        name: Its name in it.
        model: Row that asks.
        tick: Called after each mebibyte that is hashed; may raise to give up.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        if read(file) is not None:
            return whole(file)  # one of another length was damaged since: it is not taken for found
    except Unreadable as error:
        _set_aside(record_of(file), str(error))
    if not file.is_file():
        return None
    # a directory that takes no record is told before a large file was read for it, at every look
    fresh = fresh_of(record_of(file))
    fresh.touch()
    digest = sha256_of(file, tick)
    if (known := whole(file)) is not None:
        fresh.unlink(missing_ok=True)
        return known  # whoever brought it has written it meanwhile
    made = examine(file, Record(repo, name, 0, digest, at=time.time(), model=model))
    write(file, made)
    note(log, "model_found", repo=repo, file=name, bytes=made.bytes, sha256=made.sha256)
    return made


def examine(file: Path, record: Record) -> Record:
    """Return a record with the file's length and templates."""
    size = file.stat().st_size
    try:
        found, fault = digests_of(file), ""
    except BadFile as error:
        found, fault = {}, str(error)
    return msgspec.structs.replace(record, bytes=size, templates=found, unreadable=fault)


def sha256_of(file: Path, tick: Callable[[], None] = lambda: None) -> str:
    """Return the SHA-256 (hex) of a file."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(_BLOCK):
            digest.update(block)
            tick()
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Make what was renamed or removed in a directory last."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _decode(path: Path, kind: type[_Kept]) -> _Kept | None:
    try:
        with open_plain(path) as content:
            raw = content.read(_RECORD_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    text, _, check = raw.partition(b"\n")
    if check != _check(text):
        raise Unreadable("its checksum is another")
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from error


def _check(text: bytes) -> bytes:
    return b"%08x\n" % zlib.crc32(text)


def _keep(path: Path, text: bytes) -> None:
    fresh = fresh_of(path)
    with fresh.open("wb") as out:
        out.write(text + b"\n" + _check(text))
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def _set_aside(path: Path, fault: str) -> None:
    note(log, "record_unreadable", level=logging.ERROR, file=str(path), error=fault)
    with suppress(FileNotFoundError):  # another process was faster
        path.replace(aside_of(path))
