"""What commands share: settings, and errors as a line and an exit status instead of a trace.

Rules of this file: what a person is shown goes through `scheduler/harmless.py` and, where it is a table,
through `terminal`: names in it are other people's words.
"""

import functools
import math
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from ops.commands.exits import Exit
from scheduler import settings as module
from scheduler.asking import BadRequest
from scheduler.bus.client import Client
from scheduler.bus.sockets import ipc_path
from scheduler.errors import BrokerUnreachable, FairlaneError, Refused, SettingsError
from scheduler.harmless import readable
from scheduler.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

P = ParamSpec("P")
T = TypeVar("T")


class Amount(click.FloatRange):
    """A number in a range. `nan` passes every comparison of a range, and would be waited for without end."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no number", param, ctx)
        return number


def terminal(file_width: int) -> "Console":
    """Return what tables are printed with: a name in them is never markup, an emoji or a number to colour.

    Args:
        file_width: Columns where no terminal says: no window's edge cuts what goes into a file.
    """
    from rich.console import Console  # 60 ms that `--json` need not pay

    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = file_width
    return console


def load() -> Settings:
    """Return the settings in force for this command line."""
    config: str | None = click.get_current_context().find_root().obj
    if config is not None:
        os.environ["FAIRLANE_CONFIG"] = config  # processes that this one starts read the same file
    return module.load(os.environ, config)


def knock(settings: Settings) -> None:
    """Find out whether a box runs, where its socket is a file; else nothing is known yet.

    Raises:
        BrokerUnreachable: No broker listens.
    """
    path = ipc_path(settings.frontend())
    if path is not None:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except OSError as error:
                raise BrokerUnreachable from error


def reach(settings: Settings) -> Client:
    """Return a client of the running box.

    Raises:
        BrokerUnreachable: No broker listens; told at once where its socket is a file.
    """
    knock(settings)
    return Client(settings.frontend())


def friendly(command: Callable[P, T]) -> Callable[P, T]:
    """Turn our own errors into one line on standard error and the right exit status."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            result = command(*args, **kwargs)
            if sys.stdout is not None:
                sys.stdout.flush()  # here it can still be told that it does not arrive
        except FairlaneError as error:
            complain(str(error))
            raise SystemExit(_status(error)) from error
        except BrokenPipeError:
            _let_go(sys.stdout, sys.stderr)  # whoever read our output has had enough
            raise SystemExit(Exit.OK) from None
        except (OSError, ValueError, BadRequest) as error:
            complain(str(error))
            _end_output()
            raise SystemExit(Exit.FAILED) from error
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except (SystemExit, click.exceptions.Exit):
            _end_output()
            raise
        return result

    return run


def complain(text: str) -> None:
    """Say a line on standard error; a reader that is gone changes nothing."""
    if sys.stderr is not None:
        try:
            print(f"fairlane: {readable(text)}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            _let_go(sys.stderr)


def _end_output() -> None:
    """Write what is left; where nobody takes it the command has ended as it has."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        _let_go(sys.stdout, sys.stderr)


def _let_go(*streams: Any) -> None:
    """Have what cannot be written go nowhere: Python would try it again at its end, and end with 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError, AttributeError):  # closed, or none of the system's
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _status(error: FairlaneError) -> Exit:
    if isinstance(error, SettingsError):
        return Exit.INVALID
    if isinstance(error, BrokerUnreachable):
        return Exit.UNREACHABLE
    return Exit.REFUSED if isinstance(error, Refused) else Exit.FAILED
