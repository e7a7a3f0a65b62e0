"""The directories of a box: who may use them, what lies in them, and whether there is room."""

import fcntl
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil

from ops.doctor.finding import Finding, Patient, fail, ok, warn
from scheduler.bus.sockets import ipc_path
from scheduler.errors import BusError

MIB = 2**20
_NEEDS = {"state_dir": 64 * MIB, "store.dir": MIB, "run_dir": MIB}  # a journal takes 48 MB
_MODEL = 5 * 1024 * MIB
_SOCKETS = ("clients.sock", "workers.sock")


def is_held(run_dir: Path) -> bool:
    """Return whether a process holds a run directory."""
    try:
        descriptor = os.open(run_dir / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def run_dir(patient: Patient) -> Iterator[Finding]:
    """Look at the directory of the sockets."""
    path = Path(patient.settings.run_dir)
    try:
        for endpoint in (patient.settings.frontend(), patient.settings.backend()):
            ipc_path(endpoint)
    except BusError as error:
        yield fail("run_dir", str(error), "Set run_dir to a shorter path.")
    if not path.exists():
        yield _makeable("run_dir", path)
        return
    yield from _private("run_dir", path)


def state_dir(patient: Patient) -> Iterator[Finding]:
    """Look at the directory of what survives, and whether another box uses it too."""
    path = Path(patient.settings.state_dir)
    if not path.exists():
        yield _makeable("state_dir", path)
        return
    if not path.is_dir():
        yield _no_directory("state_dir", path)
        return
    own = patient.status["pid"] if patient.status else 0
    others = {pid for pid in _users_of(path / "journal") if pid != own}
    if others and not (patient.is_held and patient.status is None):
        names = ", ".join(map(str, sorted(others)))
        yield fail(
            "state_dir",
            f"{path} is used by another box too: process {names} writes a journal there",
            "Give each box a state_dir of its own; a second one is not started.",
        )
    elif not os.access(path, os.W_OK | os.X_OK):
        yield fail("state_dir", f"{path} cannot be written by {_me()}", f"chown {_me()} {path}")
    else:
        yield ok("state_dir", f"{path} is writable and this box's own")


def store_dir(patient: Patient) -> Iterator[Finding]:
    """Look at the directory of the models' files."""
    path = Path(patient.settings.store.dir)
    if not path.exists():
        yield _makeable("store.dir", path)
    elif not path.is_dir():
        yield _no_directory("store.dir", path)
    elif not os.access(path, os.W_OK | os.X_OK):
        text = f"{path} cannot be written by {_me()}: nothing can be pulled"
        yield fail("store.dir", text, f"chown {_me()} {path}")
    else:
        yield ok("store.dir", f"{path} is writable")


def sockets(patient: Patient) -> Iterator[Finding]:
    """Look at the two sockets and at who listens."""
    path = Path(patient.settings.run_dir)
    there = [path / name for name in _SOCKETS if (path / name).exists()]
    if patient.status is not None:
        if len(there) < len(_SOCKETS):
            yield fail("sockets", f"the box runs and a socket is gone from {path}", "Restart it.")
        else:
            yield from _modes(there)
    elif patient.is_held:
        yield fail(
            "sockets",
            f"a process holds {path} and its broker does not answer: it hangs, or is stopped",
            f"Find it with `fuser {path}/lock`, look at its log, and end it; a supervisor starts it again.",
        )
    elif there:
        names = " and ".join(one.name for one in there)
        yield warn(
            "sockets",
            f"{names} in {path} are dead: nobody listens, their broker was killed",
            "Nothing has to be removed: `fairlane up` takes them over.",
        )
    else:
        yield ok("sockets", "no box runs here, and none left sockets behind")


def disk(patient: Patient) -> Iterator[Finding]:
    """Look whether there is room where the box writes: once a disk, for all that is on it."""
    conf = patient.settings
    disks: dict[int, tuple[Path, list[str]]] = {}
    for name, path in (
        ("state_dir", conf.state_dir),
        ("store.dir", conf.store.dir),
        ("run_dir", conf.run_dir),
    ):
        there = _existing(Path(path))
        disks.setdefault(there.stat().st_dev, (there, []))[1].append(name)
    for there, names in disks.values():
        space = os.statvfs(there)
        free = space.f_bavail * space.f_frsize
        text = f"{free / MIB:.1f} MiB are free at {there}, for {', '.join(names)}"
        if free < max(_NEEDS[name] for name in names):
            remedy = "Make room: a full disk stops the journal, and no model can be pulled."
            yield fail("disk", text, remedy)
        elif space.f_files and not space.f_favail:
            yield fail("disk", f"no inode is free at {there}", "Remove files that nobody needs.")
        elif "store.dir" in names and free < _MODEL:
            yield warn("disk", text, "That is less than one larger model.")
        else:
            yield ok("disk", text)


def _no_directory(check: str, path: Path) -> Finding:
    return fail(check, f"{path} is no directory", f"Remove it, or set {check} to another path.")


def _private(check: str, path: Path) -> Iterator[Finding]:
    """Say whether a directory is ours, and nobody else's."""
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        yield _no_directory(check, path)
    elif status.st_uid != os.geteuid():
        yield fail(
            check,
            f"{path} belongs to {_name(status.st_uid)}, and this is {_me()}",
            f"Run this as {_name(status.st_uid)}, or set {check} to a directory of your own.",
        )
    elif status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        yield fail(
            check,
            f"{path} has mode {mode:04o}: others may enter it",
            f"chmod 700 {path}",
        )
    elif not os.access(path, os.W_OK | os.X_OK):
        yield fail(check, f"{path} cannot be written", f"chmod 700 {path}")
    else:
        yield ok(check, f"{path} is this user's alone")


def _modes(paths: list[Path]) -> Iterator[Finding]:
    open_to = [path for path in paths if path.stat().st_mode & 0o077]
    for path in open_to:
        mode = stat.S_IMODE(path.stat().st_mode)
        yield fail(
            "sockets",
            f"{path} has mode {mode:04o}: others may command this box",
            f"chmod 600 {path}",
        )
    if not open_to:
        yield ok("sockets", "both are there, this user's alone, and the broker answers")


def _makeable(check: str, path: Path) -> Finding:
    above = _existing(path)
    if os.access(above, os.W_OK | os.X_OK):
        return ok(check, f"{path} is not there yet, and can be made")
    return fail(
        check,
        f"{path} is not there, and {_me()} may not make it in {above}",
        f"Make it as root and `chown {_me()} {path}`, or set {check} to another.",
    )


def _existing(path: Path) -> Path:
    """Return a path, or the nearest directory above it that is there."""
    return next(one for one in (path, *path.absolute().parents) if one.exists())


def _users_of(folder: Path) -> set[int]:
    """Return the processes of ours that have a file of a folder open."""
    inside = os.path.realpath(folder) + "/"
    found: set[int] = set()
    for process in psutil.process_iter():
        try:
            if any(one.path.startswith(inside) for one in process.open_files()):
                found.add(process.pid)
        except psutil.Error:
            continue  # it ended, or is somebody else's
    return found


def _me() -> str:
    return _name(os.geteuid())


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
