"""Bringing one row here: look at the hub, make room, download what is missing, check the templates.

It computes and blocks in the caller's thread; `pulls` has the threads. One file is downloaded once at a time,
whichever rows want it.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from policies.table import Row
from scheduler.settings import Store as Conf
from scheduler.wire.words import PullCause
from workers.store.disk import NoRoom, make_room
from workers.store.download import (
    Elsewhere,
    Patience,
    PullError,
    disk_error,
    download,
    patiently,
)
from workers.store.layout import BadName, file_in, partial_of, repo_folder
from workers.store.places import Named, names_of
from workers.store.records import Listing, Record, recall, write_listing
from workers.store.remote import HubError, Remote, Source
from workers.store.stock import Stock

_GIB = 2**30
_ELSEWHERE_S = 0.2  # between two looks at a file that another process downloads


class Outcome(Struct, frozen=True):
    """How a pull ended.

    Attributes:
        cause: Empty where the row is ready.
        message: For people, where it is not.
    """

    cause: PullCause = ""
    message: str = ""


class Bringer:
    """Brings rows into one models directory."""

    def __init__(self, models: Path, conf: Conf, stock: Stock) -> None:
        """Bring nothing yet; the hub's client is imported with the first row.

        Args:
            models: The models directory.
            conf: Quota, time-out and attempts.
            stock: Looks at rows' files.
        """
        self._models = models
        self._conf = conf
        self._stock = stock
        self._patience = Patience(conf.attempts)
        self._turns = threading.Semaphore(conf.parallel)
        self._hub: Source | None = None
        self._guard = threading.Lock()  # of what follows
        self._locks: dict[Path, threading.Lock] = {}
        self._coming: Counter[Path] = Counter()  # files that pulls wait for
        self._moved: dict[Path, tuple[int, int | None]] = {}  # bytes here, bytes in all

    def progress(self, files: Iterable[Path]) -> tuple[int, int | None]:
        """Return the bytes of these files that are here, and all of them if that is known."""
        known = [self._moved.get(file, (0, None)) for file in files]
        totals = [total for _, total in known if total is not None]
        return sum(done for done, _ in known), sum(totals) if len(totals) == len(known) else None

    def bring(self, row: Row, named: Named, begun: Callable[[list[Path]], None]) -> Outcome:
        """Bring a row here and say how that ended.

        Args:
            row: A row of the table in force.
            named: What that table names: nothing else is asked of the hub.
            begun: Told which files the row is made of, once that is known.
        """
        try:
            return self._bring(row, named, begun)
        except (PullError, NoRoom, BadName) as error:
            fault = str(error)
        except OSError as error:
            fault = str(disk_error(error, self._models))
        return Outcome("pull_failed", f"Model '{row.model}' cannot be pulled: {fault}.")

    def _bring(self, row: Row, named: Named, begun: Callable[[list[Path]], None]) -> Outcome:
        state = self._stock.of(row)
        if state.state == "ready":
            return Outcome()
        if row.hf_repo is not None:
            try:
                with self._turns:
                    self._pull(row, row.hf_repo, named, begun)
            except PullError:
                if state.state != "mismatch":
                    raise  # what is here and does not match stays so, hub or no hub
            state = self._stock.of(row)
        if state.state == "ready":
            return Outcome()
        if state.state == "missing":
            raise PullError(state.reason)
        fault = self._stock.mismatch(row)
        text = f"Model '{row.model}' is on disk and not used: {fault}"
        advice = "`fairlane template show` and `pin` say what a row must name to use it"
        return Outcome("template_mismatch", f"{text}; {advice}.")

    def _pull(self, row: Row, repo: str, named: Named, begun: Callable[[list[Path]], None]) -> None:
        hub = self._client()
        listing = self._list(hub, row, repo, named) if row.file is None else None
        names = names_of(row, listing.files if listing else None)
        files = {name: file_in(self._models, repo, name) for name in names}
        for name in files:
            if (repo, name) not in named:
                raise PullError(f"the table does not name {name} of {repo}")
        wanted: dict[Path, Remote] = {}
        for name, file in files.items():
            with _told(name, repo, hub):
                remote = self._wanted(hub, row, name, file, listing)
            if remote is not None:
                wanted[file] = remote
        begun(list(files.values()))
        with self._room(repo, wanted, named):
            for file, remote in wanted.items():
                with _told(remote.file, repo, hub):
                    self._download(hub, remote, file, row.model)
        if listing is not None:
            write_listing(repo_folder(self._models, repo), listing)

    def _client(self) -> Source:
        with self._guard:
            if self._hub is None:
                from workers.store.hub import Hub  # noqa: PLC0415  # it imports a large client

                self._hub = Hub(self._conf.timeout_s)
            return self._hub

    def _list(self, hub: Source, row: Row, repo: str, named: Named) -> Listing:
        if repo not in named.repos:
            raise PullError(f"the table does not name {repo}")
        with _told("the list of files", repo, hub):
            commit, files = patiently(lambda: hub.files(repo), self._patience)
            chosen = names_of(row, sorted(files))
            if not chosen:
                raise PullError("the repository is empty; correct the row's hf_repo")
        return Listing(commit, chosen)

    def _wanted(
        self, hub: Source, row: Row, name: str, file: Path, listing: Listing | None
    ) -> Remote | None:
        """Return what is to be downloaded of a file; None: what is here is what the hub has."""
        repo = row.hf_repo or ""
        known = recall(file, repo, name, row.model)
        commit = listing.commit if listing else None
        if known is not None:
            self._moved[file] = (known.bytes, known.bytes)
            if known.commit and known.commit == commit:
                return None
        remote = patiently(lambda: hub.look(repo, name, commit), self._patience)
        if known is not None and _is_current(known, remote):
            return None
        self._moved[file] = (_length(partial_of(file, remote.etag)), remote.size)
        return remote

    @contextmanager
    def _room(
        self, repo: str, wanted: dict[Path, Remote], named: Named
    ) -> Generator[None, None, None]:
        """Hold room on the disk for what is to come, beside what other pulls have still to come."""
        with self._guard:
            coming = {file: self._left(file) for file in {*wanted, *+self._coming}}
            places: Counter[Path] = Counter()
            for file, left in coming.items():
                places[file.parent] += left
            quota = int(self._conf.quota_gib * _GIB)
            try:
                if wanted:
                    need = sum(coming.values())
                    make_room(self._models, need, named, quota=quota, places=places)
            except NoRoom as error:
                raise NoRoom(
                    f"{', '.join(r.file for r in wanted.values())} of {repo}: {error}"
                ) from error
            self._coming.update(list(wanted))
        try:
            yield
        finally:
            with self._guard:
                self._coming.subtract(list(wanted))

    def _left(self, file: Path) -> int:
        done, total = self._moved.get(file, (0, None))
        return max(0, (total or 0) - done)

    def _download(self, hub: Source, remote: Remote, file: Path, model: str) -> None:
        with self._guard:
            lock = self._locks.setdefault(file, threading.Lock())
        with lock:
            while not self._is_here(remote, file, model):
                try:
                    download(
                        hub,
                        remote,
                        file,
                        model=model,
                        patience=self._patience,
                        moved=partial(self._note, file),
                    )
                except Elsewhere:  # another box of this user, most likely
                    self._note(file, _length(partial_of(file, remote.etag)), remote.size)
                    time.sleep(_ELSEWHERE_S)

    def _is_here(self, remote: Remote, file: Path, model: str) -> bool:
        known = recall(file, remote.repo, remote.file, model)
        return known is not None and _is_current(known, remote)

    def _note(self, file: Path, done: int, total: int | None) -> None:
        self._moved[file] = (done, total)


@contextmanager
def _told(what: str, repo: str, hub: Source) -> Generator[None, None, None]:
    """Name file, repository and hub in what went wrong."""
    try:
        yield
    except (HubError, PullError) as error:
        raise PullError(f"{what} of {repo} from {hub.address}: {error}") from error


def _is_current(known: Record, remote: Remote) -> bool:
    return remote.etag in (known.etag, known.sha256)


def _length(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
