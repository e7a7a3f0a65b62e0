"""The gateway process: uvicorn around the application, stopped by us and not by its own handlers."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Generator

import uvicorn

from scheduler.bus.aioclient import AsyncClient
from scheduler.gateway.app import Gateway
from scheduler.gateway.listening import listen
from scheduler.log import note
from scheduler.settings import Settings

log = logging.getLogger(__name__)
_GRACE_S = 2  # requests under way get this long when the process is told to stop
_LAST_S = 0.5  # of it, for telling those that are not through by then
_GOING = "The gateway is being stopped. Send the request again when it is back."


class _Server(uvicorn.Server):
    """A server whose signals are handled outside."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals alone."""
        yield


def run(settings: Settings) -> None:
    """Serve HTTP until SIGTERM or SIGINT.

    Raises:
        BusError: The address is taken or not ours.
    """
    listener = listen(settings.gateway.host, settings.gateway.port)
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(_serve(settings, listener))


async def _serve(settings: Settings, listener: socket.socket) -> None:
    async with AsyncClient(settings.frontend()) as bus:
        gateway = Gateway(bus, settings)
        config = uvicorn.Config(
            gateway.app(),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
            h11_max_incomplete_event_size=65536,
        )
        server = _Server(config)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, server, gateway, bus)
        host, port = listener.getsockname()[:2]
        note(log, "gateway_up", pid=os.getpid(), url=f"http://{host}:{port}")
        feeding = asyncio.create_task(gateway.feed.run())
        try:
            await server.serve(sockets=[listener])
        finally:
            feeding.cancel()


def _stop(server: uvicorn.Server, gateway: Gateway, bus: AsyncClient) -> None:
    server.should_exit = True
    gateway.feed.close()
    asyncio.get_running_loop().call_later(
        _GRACE_S - _LAST_S, bus.give_up, "gateway_stopped", _GOING
    )


def _loop() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415  # 20 ms, and only this process needs it

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
