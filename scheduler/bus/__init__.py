"""The sockets: the broker's loop and the clients other programs use."""

from scheduler.bus.aioclient import AsyncClient
from scheduler.bus.client import Client

__all__ = ["AsyncClient", "Client"]
