"""`GET /metrics`: one look at the broker, and what the gateway itself knows."""

import asyncio
import os
import platform
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from scheduler.bus.aioclient import AsyncClient
from scheduler.errors import BrokerUnreachable
from scheduler.gateway.metrics.text import Samples, Writer
from scheduler.settings import Settings

_ANSWER_S = 0.8  # a scraper that comes each second waits no longer than that second


class Scrapes:
    """Answers them."""

    def __init__(self, bus: AsyncClient, settings: Settings) -> None:
        """Remember whom to ask.

        Args:
            bus: Started before the first scrape.
            settings: Those of memory are read.
        """
        self._bus = bus
        self._writer = Writer()
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._own: Samples = {
            "build_info": [[version("fairlane"), platform.python_version(), 1]],
            "memory_reserve_bytes": [[settings.memory.kept_free(total)]],
        }

    async def answer(self, request: Request) -> Response:
        """Answer one; without a broker, with what is known without it."""
        from scheduler.gateway.metrics.collector import rendered  # noqa: PLC0415  # see there

        seen: dict[str, Any] = {}
        with suppress(BrokerUnreachable, TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                seen = await self._bus.query("metrics")
        samples = {**seen, **self._own, "up": [[int(bool(seen))]]}
        text, content_type = rendered(samples, request.headers.get("accept", ""), self._writer)
        if request.query_params.get("aliases") == "0":
            text = b"".join(line for line in text.splitlines(keepends=True) if not _is_alias(line))
        return Response(text, headers={"content-type": content_type, "cache-control": "no-store"})


def _is_alias(line: bytes) -> bool:
    """Return whether a line is of one of vLLM's names, whose colon promtool minds."""
    return line.startswith((b"vllm:", b"# HELP vllm:", b"# TYPE vllm:"))
