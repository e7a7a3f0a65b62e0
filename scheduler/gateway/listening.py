"""The socket that the gateway listens on, and a port kept for it."""

import socket

from scheduler.errors import BusError


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        BusError: The address is taken or not ours.
    """
    listener = _socket(host)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise BusError(
            f"cannot listen on {host}:{port}: {error.strerror}; "
            "set gateway.port in the settings or FAIRLANE__GATEWAY__PORT"
        ) from error
    listener.listen(1024)
    return listener


def reserve(host: str) -> socket.socket:
    """Return a socket on a free port, which is kept for the gateway for as long as it is open.

    It never listens, and both have SO_REUSEADDR, so that the gateway may listen there, again after each
    start; nobody else is given the port before the gateway has come, or while it is away.

    Raises:
        BusError: The address is not ours.
    """
    held = _socket(host)
    try:
        held.bind((host, 0))
    except OSError as error:
        held.close()
        raise BusError(f"cannot listen on {host}: {error.strerror}") from error
    return held


def _socket(host: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made
