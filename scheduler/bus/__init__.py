"""The sockets: the broker's loop and the client other programs use."""

from scheduler.bus.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
