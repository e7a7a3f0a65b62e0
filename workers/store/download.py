"""One file from the hub to its name: in part beside it, checked, made to last, then renamed.

What has arrived stays when the process is killed, and the next pull goes on from it. Nothing gets the file's
name before its length and its digest are the hub's.
"""

import errno
import fcntl
import hashlib
import io
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from scheduler.log import note
from workers.store.layout import partial_of, partials_of
from workers.store.records import Record, drop, examine, sync_folder, write
from workers.store.remote import HubError, Remote, Source

log = logging.getLogger(__name__)
_BLOCK = 1 << 20
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PAUSE_MAX_S = 8.0
_AFTER_MAX_S = 300.0  # a hub counts requests over five minutes
T = TypeVar("T")


class PullError(Exception):
    """A file did not come; the text names what and says what to do."""


class Elsewhere(Exception):
    """Another process is downloading this file; it may be here soon."""


class Patience(Struct, frozen=True):
    """How often the hub is asked again.

    Attributes:
        attempts: Times in a row that may bring nothing.
        pause_s: Before the second of them; doubles to 8 s.
    """

    attempts: int = 4
    pause_s: float = 0.5

    def pause(self, failed: int, after_s: float = 0.0) -> None:
        """Wait after so many failures in a row, as long as the hub asks for within reason."""
        own_s = min(_PAUSE_MAX_S, self.pause_s * 2.0 ** max(0, failed - 1))
        time.sleep(max(own_s, min(_AFTER_MAX_S, after_s)))


def patiently(ask: Callable[[], T], patience: Patience) -> T:
    """Return what the hub answers, asking again where that may help.

    Raises:
        HubError: The last answer.
    """
    failed = 0
    while True:
        try:
            return ask()
        except HubError as error:
            failed += 1
            if not error.again or failed >= patience.attempts:
                raise
            after_s = error.after_s
        patience.pause(failed, after_s)


def download(
    source: Source,
    remote: Remote,
    target: Path,
    *,
    model: str = "",
    patience: Patience | None = None,
    moved: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> Record:
    """Bring one file here and return its record.

    Args:
        source: The hub.
        remote: What of it.
        target: The file's name here. What is there is replaced at the end, and only then.
        model: Row it is for.
        patience: How often to ask again.
        moved: Told the bytes that are here and the length, as far as it is known, after each piece.

    Raises:
        PullError: It did not come whole and right, or the disk does not take it.
        HubError: The hub does not give it.
        Elsewhere: Another process is at it.
    """
    partial = partial_of(target, remote.etag)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in partials_of(target):
            if left != partial:  # of a content that the hub has no more
                with suppress(Elsewhere), _held(left):
                    left.unlink()
        with _held(partial) as out:
            job = _Job(source, remote, out, patience or Patience(), moved)
            sha256 = job.run()
            os.fsync(out.fileno())
            record = Record(
                remote.repo,
                remote.file,
                job.done,
                sha256,
                at=time.time(),
                origin=source.address,
                etag=remote.etag,
                commit=remote.commit,
                model=model,
            )
            _name(partial, target)
        record = examine(target, record)
        write(target, record)
    except OSError as error:
        raise disk_error(error, target.parent) from error
    return record


def disk_error(error: OSError, folder: Path) -> PullError:
    """Return what to tell of a disk that does not take a file."""
    if error.errno in _FULL:
        text = f"the disk of {folder} is full ({error.strerror}); what has come is kept"
        return PullError(
            f"{text}. Make room, for example with `fairlane models rm MODEL`, or set store.dir"
        )
    text = f"{folder} cannot be written ({error.strerror or error})"
    return PullError(f"{text}; correct its permissions, or set store.dir to another directory")


def _name(partial: Path, target: Path) -> None:
    """Give a file its name; without a record in between, it would count as found."""
    drop(target)
    partial.replace(target)
    sync_folder(target.parent)


def _held(partial: Path) -> io.FileIO:
    """Open a partial file for this process alone; the kernel lets go of it however the process ends.

    Raises:
        Elsewhere: Another process holds it, or has given it its name meanwhile.
    """
    out = partial.open("a+b", buffering=0)
    try:
        fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(out.fileno()).st_ino == partial.stat().st_ino:
            return out
    except (BlockingIOError, FileNotFoundError):
        pass
    out.close()
    raise Elsewhere


class _Job:
    """The bytes of one file and their digests."""

    def __init__(
        self,
        source: Source,
        remote: Remote,
        out: io.FileIO,
        patience: Patience,
        moved: Callable[[int, int | None], None],
    ) -> None:
        self._source = source
        self._remote = remote
        self._out = out
        self._patience = patience
        self._moved = moved
        self._size = remote.size
        self._sha256 = hashlib.sha256()
        self.done = 0

    def run(self) -> str:
        """Complete the file and return its SHA-256."""
        resumed = self._recall()
        if resumed:
            note(log, "pull_resumed", file=self._remote.file, bytes=self.done)
        self._complete()
        fault = self._fault()
        if fault and resumed:  # what was left here was damaged: one more try, from the start
            note(log, "pull_restarted", level=logging.WARNING, file=self._remote.file, error=fault)
            self._empty()
            self._complete()
            fault = self._fault()
        if fault:
            self._empty()
            text = f"it arrived other than the hub says: {fault}. Nothing of it was kept"
            raise PullError(f"{text}; try again, and see which mirror HF_ENDPOINT names")
        return self._sha256.hexdigest()

    def _recall(self) -> bool:
        """Hash what an earlier pull has left; return whether there was anything."""
        length = self._out.seek(0, os.SEEK_END)
        if self._size is not None and length > self._size:
            length = 0
            self._empty()
        self._out.seek(0)
        while block := self._out.read(_BLOCK):
            self._sha256.update(block)
            self.done += len(block)
        self._moved(self.done, self._size)
        return length > 0

    def _empty(self) -> None:
        self._out.truncate(0)
        self._sha256 = hashlib.sha256()
        self.done = 0
        self._moved(0, self._size)

    def _complete(self) -> None:
        failed = 0
        while self._size is None or self.done < self._size:
            before = self.done
            try:
                self._read()
            except HubError as error:
                failed = 1 if self.done > before else failed + 1
                if not error.again or failed >= self._patience.attempts:
                    raise
                note(
                    log,
                    "pull_interrupted",
                    level=logging.WARNING,
                    file=self._remote.file,
                    bytes=self.done,
                    error=str(error),
                )
                self._patience.pause(failed, error.after_s)

    def _read(self) -> None:
        with self._source.read(self._remote, self.done) as (start, length, pieces):
            if self._size is None:
                self._size = length
            if self._size is None:
                raise HubError(
                    "the hub says no length; correct HF_ENDPOINT, or the proxy in between"
                )
            if length is not None and length != self._size:
                raise HubError(_other_length(self._size, length))
            if start != self.done:
                self._empty()  # it does not send ranges
            for piece in pieces:
                self._put(piece)
        if self.done < self._size:
            raise HubError(f"the connection ended after {self.done} bytes; try again", again=True)

    def _put(self, piece: bytes) -> None:
        if self._size is not None and self.done + len(piece) > self._size:
            raise HubError(_other_length(self._size, self.done + len(piece)))
        left = memoryview(piece)
        while left:
            count = self._out.write(left)
            self._sha256.update(left[:count])
            self.done += count
            left = left[count:]
        self._moved(self.done, self._size)

    def _fault(self) -> str:
        """Return how the content differs from what the hub named; empty: it does not."""
        etag = self._remote.etag.lower()
        if len(etag) == 64:
            found = self._sha256.hexdigest()
            return "" if found == etag else f"its sha256 is {found} and not {etag}"
        if len(etag) == 40:
            found = self._git_digest()
            return "" if found == etag else f"its git digest is {found} and not {etag}"
        return ""  # a mirror's own etag says nothing about the content

    def _git_digest(self) -> str:
        digest = hashlib.sha1(b"blob %d\0" % self.done, usedforsecurity=False)
        self._out.seek(0)
        while block := self._out.read(_BLOCK):
            digest.update(block)
        return digest.hexdigest()


def _other_length(said: int, sent: int) -> str:
    text = f"the hub says {said} bytes and sends {sent}"
    return f"{text}; try again later, and see which mirror HF_ENDPOINT names"
