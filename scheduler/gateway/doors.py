"""The doors: how each way to be asked ends its streams and words its errors. Pure."""

from typing import Any

import msgspec
from msgspec import Struct

from scheduler.asking import TALKS, Endpoint
from scheduler.gateway.shapes import error_body, refusal_body
from scheduler.wire.messages import Refused

# status -> Anthropic's error type
_TYPES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error",
}  # fmt: skip
_DONE = b"data: [DONE]\n\n"


class Door(Struct, frozen=True):
    """One way to be asked."""

    op: Endpoint
    path: str  # below /v1
    names_events: bool = False  # a stream's events have their `type` as name, and no [DONE] ends it
    is_anthropic: bool = False

    @property
    def may_route(self) -> bool:
        """Whether a router collection may be asked by its name."""
        return self.op in TALKS

    @property
    def ending(self) -> bytes:
        """What ends a stream after its last event."""
        return b"" if self.names_events else _DONE

    def event(self, body: bytes) -> bytes:
        """Return a chunk as a server-sent event."""
        if not self.names_events:
            return b"data: " + body + b"\n\n"
        kind = _type_of(body)
        head = b"event: " + kind.encode() + b"\n" if kind.isprintable() and kind else b""
        return head + b"data: " + body + b"\n\n"

    def refusal(self, message: Refused) -> bytes:
        """Return the error object of a refusal."""
        return self.error(refusal_body(message), message.status)

    def failure(self, status: int, message: str, code: str, param: str = "") -> bytes:
        """Return the error object of what was refused before it reached the bus."""
        return self.error(
            error_body(status, message, code, {"param": param} if param else None), status
        )

    def error(self, body: bytes, status: int) -> bytes:
        """Return an error object of OpenAI's shape in this door's."""
        if not self.is_anthropic:
            return body
        error: dict[str, Any] = msgspec.json.decode(body)["error"]
        kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
        return msgspec.json.encode({"type": "error", "error": {**error, "type": kind}})

    def broken(self, message: Refused) -> bytes:
        """Return the event that ends a stream which failed."""
        body = self.refusal(message)
        if self.names_events and not self.is_anthropic:  # Responses' own fields beside the object
            error: dict[str, Any] = msgspec.json.decode(body)["error"]
            told = {name: error.get(name) for name in ("code", "message", "param")}
            body = msgspec.json.encode({"type": "error", **told, "error": error})
        return self.event(body)


class _Typed(Struct):
    type: object = ""


def _type_of(body: bytes) -> str:
    """Return the `type` of an event, empty where an engine gives it none that is a text."""
    try:
        kind = msgspec.json.decode(body, type=_Typed).type
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return kind if isinstance(kind, str) else ""


class PullDoor(Door, frozen=True):
    """The door of pulls: Lemonade's events, a name and an object each. Its `file` is a row of ours."""

    model: str = ""

    @property
    def ending(self) -> bytes:
        """What ends a stream whose row is on disk."""
        return named_event("complete", self.about(100))

    def about(self, percent: int | None) -> dict[str, Any]:
        """Return what each event says of the row."""
        return {"file": self.model, "file_index": 1, "total_files": 1, "percent": percent}

    def broken(self, message: Refused) -> bytes:
        """Return the event that ends a pull which failed; its `error` is the text."""
        told = {"error": message.message, "code": message.code, "status": message.status}
        return named_event("error", told)


def named_event(name: str, told: dict[str, Any]) -> bytes:
    """Return a server-sent event with a name."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(told))


DOORS: tuple[Door, ...] = (
    Door("chat", "chat/completions"),
    Door("completion", "completions"),
    Door("responses", "responses", names_events=True),
    Door("messages", "messages", names_events=True, is_anthropic=True),
    Door("count_tokens", "messages/count_tokens", is_anthropic=True),
    Door("embed", "embeddings"),
    Door("rerank", "rerank"),
    Door("tokenize", "tokenize"),
)


def at(path: str) -> Door:
    """Return the door at a path, chat's where there is none: its errors are of OpenAI's shape."""
    if path == "/tokenize":  # where llama-server has it
        return DOORS[-1]
    return next((door for door in DOORS if path.endswith(f"/v1/{door.path}")), DOORS[0])
