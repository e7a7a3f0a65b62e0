"""How a command ends: its exit codes, the same in all of them."""

from enum import IntEnum
from typing import NoReturn

import click


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    UNREACHABLE = 4
    REFUSED = 5


def finish(text: str, code: Exit = Exit.OK) -> NoReturn:
    """Print the result and end. A result is on stdout whether or not it is a good one.

    Args:
        text: What to print; nothing is printed if it is empty.
        code: Exit code.
    """
    if text:
        click.echo(text)
    raise click.exceptions.Exit(code)
