"""The first thing every request meets: it gets its id, and a foreign Host or Origin gets 403.

A page on the internet can make a browser post to 127.0.0.1, and with DNS rebinding even read the reply.
Programs send no Origin and name the host they connect to, so neither check is ever in their way.
"""

import ipaddress
import uuid
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scheduler.gateway.shapes import error_body

REQUEST_ID = "fairlane.request_id"  # key of the request's id in the ASGI scope
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """ASGI middleware that lets through what names this box."""

    def __init__(self, app: ASGIApp, *, host: str, hosts: list[str], origins: list[str]) -> None:
        """Remember what is allowed.

        Args:
            app: What is guarded.
            host: Address the gateway is bound to.
            hosts: Further names under which it is reached.
            origins: Origins of web pages that may call.
        """
        self._app = app
        self._hosts = _LOOPBACK | {host.lower(), *(h.lower() for h in hosts)}
        self._any_address = host in {"0.0.0.0", "::"}  # noqa: S104  # compared, not bound
        self._origins = frozenset(o.lower().rstrip("/") for o in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        rid = f"req-{uuid.uuid4().hex}"
        scope[REQUEST_ID] = rid
        named = (b"x-request-id", rid.encode())

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], named]
            await send(message)

        headers = {k: v.decode("latin-1") for k, v in scope["headers"] if k in (b"host", b"origin")}
        fault = self.fault(headers.get(b"host", ""), headers.get(b"origin"))
        if fault is None:
            await self._app(scope, receive, answer)
            return
        body = error_body(403, fault, "forbidden_origin")
        start = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await answer({"type": "http.response.start", "status": 403, "headers": start})
        await answer({"type": "http.response.body", "body": body})

    def fault(self, host: str, origin: str | None) -> str | None:
        """Return why a request is refused, or None."""
        name = _host_name(host)
        if not self._is_ours(name):
            return (
                f"Host '{name}' is not this box. If it is, name it in gateway.allowed_hosts "
                "of the settings."
            )
        if origin is None or origin.lower().rstrip("/") in self._origins:
            return None
        if origin.lower() in {f"http://{host.lower()}", f"https://{host.lower()}"}:
            return None  # a page of our own
        return (
            f"Origin '{origin}' may not call. Allow it in gateway.allowed_origins of the settings."
        )

    def _is_ours(self, name: str) -> bool:
        if name in self._hosts:
            return True
        if not self._any_address:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _host_name(host: str) -> str:
    """Return a Host header's name in lower case, without port and brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
