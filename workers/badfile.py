"""A model file, or one that comes with it, that cannot be used."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading, and nothing that could keep its reader waiting.

    Raises:
        OSError: It cannot be opened, or is a pipe or device.
    """
    # without waiting: a pipe of this name has nobody at its other end
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return os.fdopen(descriptor, "rb")


class BadFile(Exception):
    """A file cannot be used; the message names it and the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
