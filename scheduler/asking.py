"""What the bus must know of a request, OpenAI's or Anthropic's: whose it is, which conversation, how long.

Rules of this file: pure. The gateway and the bus client both come through here, so a request means the
same whichever way it enters. The broker never reads a body; all it may know of one is made here.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from policies.shape import is_array, is_object
from scheduler import turns
from scheduler.turns import BadRequest as BadRequest  # noqa: PLC0414  # this module's callers catch it
from scheduler.wire.codec import BODY_MAX
from scheduler.wire.messages import Ask

Endpoint = Literal[
    "chat", "completion", "embed", "decide", "responses", "messages", "count_tokens", "rerank",
    "tokenize",
]  # fmt: skip
# Those whose requests are turns of a conversation: a router collection may be asked by its name.
TALKS = frozenset({"chat", "completion", "decide", "responses", "messages", "count_tokens"})
_STREAMS = TALKS - {"count_tokens"}

LANE_HEADER = "x-fairlane-lane"
PRIORITY_HEADER = "x-fairlane-priority"

# Headers under which clients send an id of their conversation, ours first. Sources: Claude Code, opencode
# (two), Codex CLI (three spellings over its versions), Open WebUI, and the general conventions.
CONVERSATION_HEADERS = (
    "x-fairlane-conversation",
    "x-claude-code-session-id",
    "x-opencode-session",
    "x-session-affinity",
    "conversation_id",
    "conversation-id",
    "session_id",
    "session-id",
    "x-openwebui-chat-id",
    "x-conversation-id",
    "x-chat-id",
    "x-session-id",
)

# The client's headers that an engine is sent, and no others: they say how the body is meant. What names the
# client, such as a key or a cookie, is none of the engine's business. They travel inside the body, which is
# all of a request that the bus hands on unread; the engine gets none of its members that begin like this one.
RELAYED = ("anthropic-version", "anthropic-beta", "openai-beta")
HEADERS_FIELD = "x_fairlane_headers"
_RELAYED_AT = frozenset({"responses", "messages", "count_tokens"})
_HEADER_MAX = 4096  # characters of a value

# Beginnings of system blocks that agents change on every request; they are no part of the conversation.
VOLATILE_BLOCKS = ("x-anthropic-billing-header:",)

_LANE_MAX = 64  # characters; a longer lane name is cut, so that it stays a usable label
_decode = msgspec.json.Decoder().decode


class Asking(Struct, frozen=True):
    """What the bus must know of one request."""

    name: str
    starts: bool
    stream: bool
    flex: bool  # the client itself asked to be served after others
    prompt_bytes: int
    max_tokens: int | None
    tools: bool
    images: bool
    json_schema: bool
    conversation: str  # explicit id or digest of the conversation's head, without lane and name

    def message(
        self, rid: str, endpoint: Endpoint, *, lane: str, batch: bool, expires_at: float
    ) -> Ask:
        """Return the bus message that asks for this."""
        return Ask(
            id=rid,
            op=endpoint,
            name=self.name,
            lane=lane,
            conversation=conversation_key(lane, self.name, self.conversation),
            expires_at=expires_at,
            starts=self.starts,
            stream=self.stream,
            batch=batch or self.flex,
            prompt_bytes=self.prompt_bytes,
            max_tokens=self.max_tokens,
            tools=self.tools,
            images=self.images,
            json_schema=self.json_schema,
        )


def read(raw: bytes, endpoint: Endpoint, headers: Mapping[str, str]) -> Asking:
    """Read a request's body.

    Args:
        raw: The body as it came.
        endpoint: Which shape it must have; `decide` takes either.
        headers: HTTP headers by lower-case name; empty for a bus client.

    Raises:
        BadRequest: No JSON object, or a field of it is missing or of the wrong type.
    """
    try:
        return _read(_object(raw), endpoint, headers)
    except RecursionError as error:
        raise BadRequest("The body is nested too deeply.") from error


def _read(body: dict[str, object], endpoint: Endpoint, headers: Mapping[str, str]) -> Asking:
    name = body.get("model")
    if not isinstance(name, str) or not name or len(name) > 256:
        raise BadRequest("'model' must be a non-empty string of at most 256 characters", "model")
    messages = turns.turns_of(body, endpoint)
    flags = _flags(body)
    return Asking(
        name=name,
        starts=not _goes_on(body, messages),
        stream=flags["stream"] and endpoint in _STREAMS,
        flex=body.get("service_tier") == "flex"
        or headers.get(PRIORITY_HEADER, "").lower() == "batch",
        prompt_bytes=sum(turns.text_bytes(m.get("content")) for m in messages),
        max_tokens=_max_tokens(body),
        tools=bool(body.get("tools")),
        images=any(turns.has_image(m.get("content")) for m in messages),
        json_schema=flags["json_schema"],
        conversation=_explicit_id(body, headers) or _head_digest(messages),
    )


def with_headers(raw: bytes, endpoint: Endpoint, headers: Mapping[str, str]) -> bytes:
    """Return a request's body, which `read` has accepted, with the headers that its engine is to have."""
    if endpoint not in _RELAYED_AT:
        return raw
    told = relayed(headers)
    if not told:
        return raw
    # the last member: of two of one name that one counts
    member = json.dumps({HEADERS_FIELD: told})[1:]
    made = raw.rstrip()[:-1] + b"," + member.encode()
    return made if len(made) <= BODY_MAX else raw


def relayed(headers: Mapping[str, object]) -> dict[str, str]:
    """Return of some headers those that an engine is sent; a value that is no plain text is left out."""
    found: dict[str, str] = {}
    for name in RELAYED:
        value = headers.get(name)
        text = value.strip() if isinstance(value, str) else ""
        if text and len(text) <= _HEADER_MAX and text.isascii() and text.isprintable():
            found[name] = text
    return found


def lane_of(headers: Mapping[str, str], peer: str, lane_of_key: Mapping[str, str]) -> str:
    """Return whose work a request is.

    Args:
        headers: HTTP headers by lower-case name.
        peer: Client address, empty if unknown.
        lane_of_key: sha256 (hex) of a configured API key -> its lane.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":  # the scheme's case does not matter (RFC 9110, 11.1)
        token = ""
    token = token.strip() or headers.get("x-api-key", "")
    digest = hashlib.sha256(token.encode()).hexdigest() if token else ""
    if digest in lane_of_key:
        return lane_of_key[digest]
    named = _clean(headers.get(LANE_HEADER, ""))
    if named:
        return named
    if digest:
        return f"key-{digest[:8]}"
    product = _clean(headers.get("user-agent", "").split("/", 1)[0].split(" ", 1)[0])
    return f"{peer}/{product}"[:_LANE_MAX] if peer and product else "default"


def conversation_key(lane: str, name: str, conversation: str) -> str:
    """Return the key of a conversation: one lane can never meet another's, nor one name another's."""
    return hashlib.sha256(
        "\0".join((lane, name, conversation)).encode(errors="replace")
    ).hexdigest()


def _object(raw: bytes) -> dict[str, object]:
    if not raw:
        raise BadRequest("The request has no body; a JSON object is expected.")
    try:
        body = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"The body is not valid JSON: {error}") from error
    if not is_object(body):
        raise BadRequest("The body must be a JSON object.")
    return body


def _flags(body: dict[str, object]) -> dict[str, bool]:
    stream = body.get("stream")
    if not isinstance(stream, bool | None):
        raise BadRequest("'stream' must be a boolean", "stream")
    if not isinstance(body.get("route_trace", False), bool):
        raise BadRequest("'route_trace' must be a boolean", "route_trace")
    tools = body.get("tools")
    if tools is not None and not is_array(tools):
        raise BadRequest("'tools' must be a list", "tools")
    shape = body.get("response_format")
    if shape is not None and not is_object(shape):
        raise BadRequest("'response_format' must be an object", "response_format")
    wants_json = any(
        is_object(one) and one.get("type") in ("json_schema", "json_object")
        for one in (shape, *map(_format_in, (body.get("text"), body.get("output_config"))))
    )
    return {"stream": bool(stream), "json_schema": wants_json}


def _format_in(holder: object) -> object:
    """Return where Responses (`text`) and Anthropic (`output_config`) name the answer's format."""
    return holder.get("format") if is_object(holder) else None


def _goes_on(body: dict[str, object], messages: list[turns.Turn]) -> bool:
    """Return whether a request is a later turn; what went before may be kept by the engine alone."""
    return bool(body.get("previous_response_id")) or any(
        message.get("role") == "assistant" for message in messages
    )


def _max_tokens(body: dict[str, object]) -> int | None:
    for field in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        value = body.get(field)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**31:
            raise BadRequest(f"'{field}' must be an integer of at least 1", field)
        return value
    return None


def _explicit_id(body: dict[str, object], headers: Mapping[str, str]) -> str:
    for header in CONVERSATION_HEADERS:
        value = headers.get(header)
        if value:
            return f"{header}:{value}"
    key = body.get("prompt_cache_key")
    return f"prompt_cache_key:{key}" if isinstance(key, str) and key else ""


def _head_digest(messages: list[dict[str, object]]) -> str:
    """Return a digest of the messages up to and including the first of the user."""
    head: list[tuple[object, object]] = []
    for message in messages:
        head.append((message["role"], turns.steady(message.get("content"), VOLATILE_BLOCKS)))
        if message["role"] == "user":
            break
    text = json.dumps(head, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _clean(name: str) -> str:
    """Return a lane name that is safe in a label, a log line and a header."""
    return "".join(c for c in name.strip() if c.isascii() and c.isprintable() and c != '"')[
        :_LANE_MAX
    ]
