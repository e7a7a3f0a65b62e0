"""How a command ends: its exit codes, the same in all of them."""

from enum import IntEnum
from typing import NoReturn

import click


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    FAILED = 1  # it ran and did not succeed
    USAGE = 2  # wrong arguments
    INVALID = 3  # settings, table or policy are refused
    UNREACHABLE = 4  # no broker, gateway or server answers
    REFUSED = 5  # the box or the server declined


def finish(text: str, code: Exit = Exit.OK) -> NoReturn:
    """Print the result and end. A result is on stdout whether or not it is a good one.

    Args:
        text: What to print; nothing is printed if it is empty.
        code: Exit code.
    """
    if text:
        click.echo(text)
    raise click.exceptions.Exit(code)
