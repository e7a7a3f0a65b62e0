"""A hold that outlives its command line: the shell gets a name, a process of its own keeps the lease."""

import os
import sys
from collections.abc import Callable


def detach() -> Callable[[str], None]:
    """Go on in another process; the calling one prints what that says first and ends with its status.

    Returns:
        Says the one line that the caller prints, and lets it end well.
    """
    listen, speak = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.close(speak)
        with os.fdopen(listen) as heard:
            line = heard.readline()
        if line:
            print(line.strip(), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)  # it has said why on standard error
        os._exit(os.waitstatus_to_exitcode(status) or 1)
    os.close(listen)
    os.setsid()

    def say(line: str) -> None:
        os.write(speak, f"{line}\n".encode())
        os.close(speak)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)  # `$(...)` waits until nobody can write to it any more

    return say
