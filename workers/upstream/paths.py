"""Where an operation is asked of an OpenAI-compatible server. Pure."""

from msgspec import Struct


class Path(Struct, frozen=True):
    """How one operation is asked.

    Attributes:
        path: Below the server's address.
        streams: Whether its answer may come as server-sent events.
    """

    path: str
    streams: bool


# Operation -> how it is asked. What a server does not have it refuses itself, with 404 or 501.
PATHS: dict[str, Path] = {
    "chat": Path("/v1/chat/completions", streams=True),
    "completion": Path("/v1/completions", streams=True),
    "responses": Path("/v1/responses", streams=True),
    "messages": Path("/v1/messages", streams=True),
    "count_tokens": Path("/v1/messages/count_tokens", streams=False),
    "embed": Path("/v1/embeddings", streams=False),
    "rerank": Path("/v1/rerank", streams=False),
    "tokenize": Path("/tokenize", streams=False),
}
