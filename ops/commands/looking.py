"""Looking at the live feed again and again: what `fairlane top` and `fairlane tail` share."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from ops.commands.common import knock
from scheduler.bus.client import Client
from scheduler.errors import BrokerUnreachable
from scheduler.settings import Settings

Look = dict[str, Any] | float  # a snapshot, or for how many seconds none has come


def looks(settings: Settings, pause: "Pause") -> Iterator[Look]:
    """Yield a snapshot, and another after each pause, until the pause says that it is enough.

    A broker that goes away is waited for: it comes back by itself.

    Raises:
        BrokerUnreachable: There is none to begin with.
    """
    knock(settings)
    with Client(settings.frontend()) as client:
        heard_at = time.monotonic()
        while True:
            try:
                view = client.live()
                heard_at = time.monotonic()
                yield view
            except BrokerUnreachable:
                yield time.monotonic() - heard_at
            if pause():
                return


class Pause:
    """The time between two looks; on a terminal the key q ends it, and all of it."""

    def __init__(self, seconds: float, times: int | None) -> None:
        """Prepare.

        Args:
            seconds: Between two looks.
            times: Looks in all; None: no end.
        """
        self._seconds = seconds
        self._left = times
        self.reads_keys = False

    def __call__(self) -> bool:
        """Wait; return whether it is enough."""
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                return True
        if not self.reads_keys:
            time.sleep(self._seconds)
            return False
        ends_at = time.monotonic() + self._seconds
        while (left_s := ends_at - time.monotonic()) > 0:
            ready, _, _ = select.select([sys.stdin], [], [], left_s)
            if ready:
                # past Python's own buffer, in which a key would wait unseen; nothing: the terminal is gone
                pressed = os.read(sys.stdin.fileno(), 64)
                if not pressed or b"q" in pressed.lower():
                    return True
        return False

    @contextmanager
    def keys(self) -> Generator[None]:
        """Read single keys for as long as the block runs, where standard input is a terminal."""
        if not sys.stdin.isatty():
            yield
            return
        before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        self.reads_keys = True
        try:
            yield
        finally:
            self.reads_keys = False
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
