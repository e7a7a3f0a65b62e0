"""Room on the disk, and what goes when the models directory is over its quota.

Only files that no row of the table names are ever removed here, the one that was used longest ago first, and
none that a process has open or maps.
"""

import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from scheduler.log import note
from workers.store.layout import file_in, folders_in, names_in, own_files_of, partials_of, record_of
from workers.store.places import Named

log = logging.getLogger(__name__)
_GIB = 2**30
_RESERVE = 64 * 2**20  # bytes of the disk that no pull takes
_PROC = Path("/proc")


class NoRoom(Exception):
    """A pull would not fit; the text says how much is needed and free, and what to do."""


class Kept(Struct, frozen=True):
    """One file in the models directory, whole or begun.

    Attributes:
        bytes: Of the file and of what pulls of it have left.
        used_at: Last use, in seconds since 1970: it was loaded, read or pulled.
    """

    repo: str
    file: str
    path: Path
    bytes: int
    used_at: float


def kept(models: Path) -> list[Kept]:
    """Return all files in the models directory."""
    found: list[Kept] = []
    for repo, file in names_in(models):
        path = file_in(models, repo, file)
        stats = [stat for each in (path, *partials_of(path)) if (stat := _stat(each))]
        times = [time for stat in stats for time in (stat.st_atime, stat.st_mtime)]
        record = _stat(record_of(path))  # whoever loads the file touches it: atime may be off
        times += [record.st_mtime] if record else []
        found.append(
            Kept(repo, file, path, sum(stat.st_size for stat in stats), max(times, default=0.0))
        )
    return found


def make_room(
    models: Path,
    need: int,
    named: Named,
    *,
    quota: int = 0,
    reserve: int = _RESERVE,
    places: Mapping[Path, int] | None = None,
) -> None:
    """Make sure that a pull fits.

    Args:
        models: The models directory.
        need: Bytes that are still to come.
        named: What must stay.
        places: Directories where they come to, with the bytes of each: a repository may be a link to another
            disk. None: all to the models directory.
        quota: Bytes that the directory may have; 0: as many as the disk.
        reserve: Bytes of the disk that stay free.

    Raises:
        NoRoom: It does not fit.
    """
    if quota:
        _keep_quota(models, need, named, quota)
    disks: dict[int, tuple[Path, int]] = {}
    for place, part in (places or {models: need}).items():
        number = _existing(place).stat().st_dev
        first, before = disks.get(number, (place, 0))
        disks[number] = first, before + part
    for place, part in disks.values():
        _check_free(place, part, reserve)


def _check_free(place: Path, need: int, reserve: int) -> None:
    free = shutil.disk_usage(_existing(place)).free
    if need > max(0, free - reserve):
        raise NoRoom(
            f"{_gib(need)} are needed and {_gib(free)} are free on the disk of {place} "
            f"({_gib(reserve)} stay free); make room, for example with `fairlane models rm MODEL`, "
            "or set store.dir to a directory on another disk"
        )


def _keep_quota(models: Path, need: int, named: Named, quota: int) -> None:
    files = kept(models)
    over = sum(one.bytes for one in files) + need - quota
    if over <= 0:
        return
    open_files = in_use(models)
    for one in sorted(files, key=lambda one: one.used_at):
        if over > 0 and (one.repo, one.file) not in named and one.path not in open_files:
            remove(one)
            note(log, "model_removed", repo=one.repo, file=one.file, bytes=one.bytes, why="quota")
            over -= one.bytes
    if over > 0:
        raise NoRoom(
            f"{_gib(need)} are needed, {_gib(over)} more than store.quota_gib ({_gib(quota)}) leaves "
            "when all that the table does not name is gone; raise it, or take rows out of the table"
        )


def remove(one: Kept) -> None:
    """Remove a file and all the store's own beside it; directories that are empty then go, too."""
    one.path.unlink(missing_ok=True)  # first: a record without its file means nothing
    for each in own_files_of(one.path):
        each.unlink(missing_ok=True)
    folder = one.path.parent
    for _ in range(len(Path(one.file).parts) + 1):  # up to the organisation's
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def in_use(models: Path) -> dict[Path, int]:
    """Return the files below a directory that processes have open or map, with a process of each.

    Of other users' processes nothing is known.
    """
    roots, links = _roots(models), _links(models)
    found: dict[Path, int] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            for name in _opened(folder):
                if name in links:
                    found[links[name]] = int(folder.name)
                for root, where in roots.items():
                    if name.startswith(root):
                        found[where / name.removeprefix(root)] = int(folder.name)
    for partial, pid in list(found.items()):  # who pulls a file uses it
        name, dot, rest = partial.name[1:].rpartition(".part")
        if partial.name.startswith(".") and dot and not rest:
            found[partial.with_name(name.rpartition(".")[0])] = pid
    return found


def _roots(models: Path) -> dict[str, Path]:
    """Return where the kernel sees the directory and its repositories, which may be links -> the places."""
    organisations = [models, *folders_in(models)]
    places = [*organisations, *(repo for one in organisations[1:] for repo in folders_in(one))]
    return {f"{place.resolve()}/": place for place in reversed(places)}


def _links(models: Path) -> dict[str, Path]:
    """Return what files that are links lead to -> the links."""
    paths = (file_in(models, repo, file) for repo, file in names_in(models))
    return {str(path.resolve()): path for path in paths if path.is_symlink()}


def _opened(process: Path) -> Iterator[str]:
    """Yield what a process maps and has open; nothing of one that has ended or is another user's."""
    with suppress(OSError):
        maps = (process / "maps").read_text(encoding="utf-8", errors="replace")
        yield from ("/" + line.partition("/")[2] for line in maps.splitlines() if "/" in line)
    with suppress(OSError):
        for link in (process / "fd").iterdir():
            with suppress(OSError):  # closed meanwhile, and those after it are not
                yield str(link.readlink())


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _gib(count: int) -> str:
    return f"{count / _GIB:.2f} GiB"
