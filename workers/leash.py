"""`python -m workers.leash [--nice N] PARENT PROGRAM ARGUMENT..`: becomes what dies with its parent.

A program of others does not ask the kernel for that itself, and asking for it between fork and exec, in a
process with threads, may deadlock. So this asks and then becomes the program; the wish outlives the exec.
"""

import os
import sys

from workers.process import die_with_parent

NOT_STARTED = 127  # exit status where the program cannot be run, as a shell has it


def main(arguments: list[str]) -> int:
    """Become the program; return only if that is impossible."""
    if arguments[0] == "--nice":
        os.nice(int(arguments[1]))
        arguments = arguments[2:]
    parent, *command = arguments
    die_with_parent()
    if os.getppid() != int(parent):  # it ended before the kernel was told to watch it
        return NOT_STARTED
    try:
        os.execvp(command[0], command)  # noqa: S606  # that is what it is for; the site chose the program
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
