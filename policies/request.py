"""What a policy sees of a request: one text, its length, and a few facts.

Lengths and searches are about UTF-8 bytes, not characters. Three request forms are known; the
first that is there counts: `messages`, `prompt`, `input`.
"""

from collections.abc import Iterator

import msgspec

from policies.errors import RequestError
from policies.shape import is_array, is_object, utf8, wrong_type

Body = dict[str, object]

TEXT_PARTS = frozenset({"text", "input_text"})
IMAGE_PARTS = frozenset({"image_url", "input_image", "image"})  # the last is Anthropic's


class RouteContext(msgspec.Struct, frozen=True):
    """A request as the conditions see it.

    Attributes:
        input: The text that is examined: the last user turn.
        data: `input` as UTF-8.
        total_chars: Bytes of the text of all turns, whoever wrote them.
        has_tools: `tools` is an array with at least one item.
        has_images: Some turn holds an image part.
        metadata: The entries of `metadata` whose values are strings.
        laya_text: The first user turn, which tells a conversation's class.
        wants_trace: The client asked for a trace.
    """

    input: str
    data: bytes
    total_chars: int
    has_tools: bool
    has_images: bool
    metadata: dict[str, str]
    laya_text: str
    wants_trace: bool

    @property
    def chars(self) -> int:
        """Bytes of `input`."""
        return len(self.data)


class _Text(msgspec.Struct, frozen=True):
    """The text side of one request form."""

    input: str
    total_chars: int
    has_images: bool


def context_of(body: Body) -> RouteContext:
    """Build the context of a request.

    Raises:
        RequestError: A role or a part's type is no string, or `route_trace` no boolean.
    """
    text = _read_text(body)
    tools = body.get("tools")
    metadata = body.get("metadata")
    entries = metadata.items() if is_object(metadata) else ()
    wants_trace = body.get("route_trace", False)
    if not isinstance(wants_trace, bool):
        raise RequestError(wrong_type(wants_trace, "boolean"))
    return RouteContext(
        input=text.input,
        data=utf8(text.input),
        total_chars=text.total_chars,
        has_tools=is_array(tools) and len(tools) > 0,
        has_images=text.has_images,
        metadata={key: value for key, value in entries if isinstance(value, str)},
        laya_text=laya_text(body),
        wants_trace=wants_trace,
    )


def plain_context(
    text: str,
    *,
    has_tools: bool = False,
    has_images: bool = False,
    metadata: dict[str, str] | None = None,
) -> RouteContext:
    """Build a context from its parts, as `routing/validate` is given them; it wants a trace."""
    data = utf8(text)
    return RouteContext(
        text, data, len(data), has_tools, has_images, metadata or {}, text, wants_trace=True
    )


def laya_text(body: Body) -> str:
    """Return the text that is classified: the first user turn, system text never included.

    Returns:
        Its text parts joined by newlines; empty if there is no user turn.
    """
    items = _turns(body)
    if items is None:
        return _plain_text(body["prompt"] if "prompt" in body else body.get("input"))
    for item in items:
        if is_object(item) and _is_user_turn(item):
            return content_text(item["content"], lenient=True)
    return "" if is_array(body.get("messages")) else _loose_text(items, lenient=True)


def head_of(body: Body) -> Body:
    """Return the request cut after its first user turn; tools and metadata are kept.

    A conversation is decided on its head, so a later turn can never change the decision. A
    request without a user turn is returned whole.
    """
    key = "messages" if is_array(body.get("messages")) else "input"
    items = _turns(body)
    for index, item in enumerate(items or ()):
        if items is not None and _is_user_turn(item):
            return {**body, key: items[: index + 1]}
    return body


def content_text(content: object, *, lenient: bool = False) -> str:
    """Return the text of a turn's content: a string, or text parts joined by newlines.

    Args:
        content: String, array of parts, or anything else, which is no text.
        lenient: Pass over a part whose type is no string.

    Raises:
        RequestError: A part's type is no string; never when lenient.
    """
    if isinstance(content, str):
        return content
    text = ""
    for part in content if is_array(content) else ():
        if is_object(part):
            text = _joined(text, _part_text(part, lenient=lenient))
    return text


def _is_user_turn(item: object) -> bool:
    return is_object(item) and item.get("role") == "user" and "content" in item


def _turns(body: Body) -> list[object] | None:
    """Return the array that holds the turns, `None` for the forms that are one text."""
    messages, items = body.get("messages"), body.get("input")
    if is_array(messages):
        return messages
    return items if "prompt" not in body and is_array(items) else None


def _read_text(body: Body) -> _Text:
    items = _turns(body)
    if items is None:
        text = _plain_text(body["prompt"] if "prompt" in body else body.get("input"))
        return _Text(text, len(utf8(text)), has_images=False)
    is_chat = is_array(body.get("messages"))
    images = any(_has_image(content) for content in _contents(items, is_chat=is_chat))
    last = _last_user_text(items)
    text = last if last is not None else "" if is_chat else _loose_text(items)
    # Measuring is no reason to give a request up: it passes over what reading would refuse.
    contents = _contents(items, is_chat=is_chat)
    total = sum(len(utf8(content_text(content, lenient=True))) for content in contents)
    if not is_chat:
        total += sum(len(utf8(item)) for item in items if isinstance(item, str))
    return _Text(text, total, has_images=images)


def _contents(items: list[object], *, is_chat: bool) -> Iterator[object]:
    """Yield the content of each turn; an `input` item without one is a part by itself."""
    for item in items:
        if is_object(item) and "content" in item:
            yield item["content"]
        elif is_object(item) and not is_chat:
            yield [item]


def _plain_text(value: object) -> str:
    """Return the text of a form without turns: a string, or an array of strings."""
    if isinstance(value, str):
        return value
    text = ""
    for item in value if is_array(value) else ():
        if isinstance(item, str):
            text = _joined(text, item)
    return text


def _last_user_text(items: list[object]) -> str | None:
    for item in reversed(items):
        if is_object(item) and _word(item, "role") == "user" and "content" in item:
            return content_text(item["content"])
    return None


def _loose_text(items: list[object], *, lenient: bool = False) -> str:
    """Return the text of an `input` array without a user turn: its items that have no role."""
    text = ""
    for item in items:
        if isinstance(item, str):
            text = _joined(text, item)
        elif is_object(item) and "role" not in item:
            content = item.get("content", [item])
            # An item without text adds no line, though an empty string does.
            text = _joined(text, content_text(content, lenient=lenient) or None)
    return text


def _part_text(part: Body, *, lenient: bool) -> str | None:
    """Return the text of a part, `None` if it is no text part."""
    kind = part.get("type") if lenient else _word(part, "type")
    text = part.get("text")
    return text if kind in TEXT_PARTS and isinstance(text, str) else None


def _joined(text: str, more: str | None) -> str:
    """Append a part; the newline comes only after text, so a leading empty part leaves none."""
    if more is None:
        return text
    return f"{text}\n{more}" if text else more


def _has_image(content: object) -> bool:
    parts = content if is_array(content) else ()
    return any(is_object(part) and _word(part, "type") in IMAGE_PARTS for part in parts)


def _word(value: Body, key: str) -> str:
    """Return a field that must be a string where it is there at all."""
    word = value.get(key, "")
    if not isinstance(word, str):
        raise RequestError(wrong_type(word, "string"))
    return word
