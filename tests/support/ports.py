"""Ports for servers that a test starts on a port it has to know, or has to find again, before they listen."""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_dice = random.SystemRandom()  # a second run of the tests beside this one must not draw the same


def free_port() -> int:
    """Return a port of loopback that nobody has, and that the kernel gives to nobody who asks for any.

    A port that the kernel chose is one that it may choose again, for whichever connection comes next, until
    the server listens on it. One from below its range stays free unless somebody wants this very number.
    """
    below = int(_RANGE.read_text().split()[0])
    while True:
        port = _dice.randrange(_LOWEST, below)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
