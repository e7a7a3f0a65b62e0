"""What commands share: settings, and errors as a line and an exit status instead of a trace."""

import functools
import os
import socket
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from ops.commands.exits import Exit
from scheduler import settings as module
from scheduler.asking import BadRequest
from scheduler.bus.client import Client
from scheduler.bus.sockets import ipc_path
from scheduler.errors import BrokerUnreachable, FairlaneError, Refused, SettingsError
from scheduler.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")


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
            return command(*args, **kwargs)
        except FairlaneError as error:
            print(f"fairlane: {error}", file=sys.stderr)
            raise SystemExit(_status(error)) from error
        except BrokenPipeError:
            sys.stderr.close()  # whoever read our output has had enough
            raise SystemExit(Exit.OK) from None
        except (OSError, ValueError, BadRequest) as error:
            print(f"fairlane: {error}", file=sys.stderr)
            raise SystemExit(Exit.FAILED) from error
        except KeyboardInterrupt:
            raise SystemExit(130) from None

    return run


def _status(error: FairlaneError) -> Exit:
    if isinstance(error, SettingsError):
        return Exit.INVALID
    if isinstance(error, BrokerUnreachable):
        return Exit.UNREACHABLE
    return Exit.REFUSED if isinstance(error, Refused) else Exit.FAILED
