"""What a request of each door says, as turns: `role` and `content`, whichever shape they came in. Pure.

Chat's shape is the measure. Anthropic's differs by `system` beside the messages and by its blocks, OpenAI's
Responses by `instructions` and by items that are calls, results or thoughts. Only what has to be known to
place a request is checked; what else is wrong with it the engine says.
"""

import json

from policies.shape import is_array, is_object

Turn = dict[str, object]
_IMAGES = frozenset({"image_url", "input_image", "image"})
_TEXTS = frozenset({"text", "input_text", "output_text"})


class BadRequest(Exception):
    """The request is malformed; `param` names the field, or is empty."""

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(message)
        self.param = param


def turns_of(body: Turn, endpoint: str) -> list[Turn]:
    """Return the turns of a request; one that has none, such as a prompt, is one turn of the user.

    Args:
        body: The request.
        endpoint: See `scheduler.asking.Endpoint`; `decide` takes either of chat's and completion's shapes.

    Raises:
        BadRequest: A field is missing or of the wrong type.
    """
    if endpoint == "embed":
        return _said("\n".join(embed_inputs(body)))
    if endpoint == "rerank":
        return _said(_reranked(body))
    if endpoint == "tokenize":
        return _said(_text_of(body, "content" if "content" in body else "prompt"))
    if endpoint == "responses":
        return _instructed(body, "instructions") + _items(body)
    if endpoint == "completion" or (endpoint == "decide" and "messages" not in body):
        return _said(_prompt(body))
    head = _instructed(body, "system") if endpoint in {"messages", "count_tokens"} else []
    messages = body.get("messages")
    if not is_array(messages) or not messages:
        raise BadRequest("'messages' must be a non-empty list", "messages")
    return head + [_turn(one, f"messages[{index}]") for index, one in enumerate(messages)]


def embed_inputs(body: Turn) -> list[str]:
    """Return the texts an embeddings request asks for.

    Raises:
        BadRequest: 'input' is neither a string nor a non-empty list of strings.
    """
    given = body.get("input")
    texts = given if is_array(given) else [given]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise BadRequest("'input' must be a string or a non-empty list of strings", "input")
    return [str(text) for text in texts]


def text_bytes(content: object) -> int:
    """Return the bytes of a content's text, that of tools' results in it included."""
    if isinstance(content, str):
        return len(content.encode(errors="replace"))
    if not is_array(content):
        return 0
    total = 0
    for part in content:
        total += len(part_text(part).encode(errors="replace"))
        if is_object(part) and part.get("type") == "tool_result":
            total += text_bytes(part.get("content"))
    return total


def has_image(content: object) -> bool:
    """Return whether a content holds an image, one in a tool's result included."""
    return is_array(content) and any(
        is_object(part)
        and (
            part.get("type") in _IMAGES
            or (part.get("type") == "tool_result" and has_image(part.get("content")))
        )
        for part in content
    )


def part_text(part: object) -> str:
    """Return the text of a part, empty if it has none."""
    text = part.get("text") if is_object(part) else None
    return text if isinstance(text, str) else ""


def steady(content: object, volatile: tuple[str, ...]) -> object:
    """Return content as it is on every turn of its conversation.

    Agents move `cache_control` from message to message, and write a text as a list of one part in order to
    set it; neither makes another conversation of it.

    Args:
        content: Of a turn.
        volatile: Beginnings of blocks that are left out.
    """
    if isinstance(content, str):
        return "" if content.startswith(volatile) else content
    if not is_array(content):
        return content
    parts = [
        {key: value for key, value in part.items() if key != "cache_control"}
        if is_object(part)
        else part
        for part in content
        if not part_text(part).startswith(volatile)
    ]
    only = parts[0] if len(parts) == 1 else None
    if is_object(only) and only.keys() == {"type", "text"} and only["type"] in _TEXTS:
        return only["text"]
    return parts


def _said(text: str) -> list[Turn]:
    return [{"role": "user", "content": text}]


def _text_of(body: Turn, name: str) -> str:
    text = body.get(name)
    if not isinstance(text, str):
        raise BadRequest(f"'{name}' must be a string", name)
    return text


def _prompt(body: Turn) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return prompt
    if is_array(prompt) and prompt and all(isinstance(one, str) for one in prompt):
        return "\n".join(map(str, prompt))
    raise BadRequest("'prompt' must be a string or a non-empty list of strings", "prompt")


def _reranked(body: Turn) -> str:
    documents = body.get("documents")
    if not is_array(documents) or not documents:
        raise BadRequest("'documents' must be a non-empty list", "documents")
    texts = [one if isinstance(one, str) else part_text(one) for one in documents]
    return "\n".join([_text_of(body, "query"), *texts])


def _instructed(body: Turn, name: str) -> list[Turn]:
    """Return what stands beside the turns as one of the system."""
    if body.get(name) is None:
        return []
    return [_turn({"role": "system", "content": body[name]}, name, name)]


def _items(body: Turn) -> list[Turn]:
    given = body.get("input")
    if isinstance(given, str):
        return _said(given)
    if not is_array(given) or (not given and not body.get("previous_response_id")):
        raise BadRequest("'input' must be a string or a non-empty list", "input")
    return [_item(one, f"input[{index}]") for index, one in enumerate(given)]


def _item(item: object, path: str) -> Turn:
    """Return an item of a Responses request; one without a role is a tool's result, or the model's."""
    if not is_object(item) or "role" in item:
        return _turn(item, path)
    kind = item.get("type")
    if not isinstance(kind, str):
        raise BadRequest(f"'{path}' must have a 'role' or a string 'type'", path)
    if not kind.endswith("_output"):
        return {"role": "assistant", "content": item.get("arguments")}
    output = item.get("output")
    return {"role": "tool", "content": json.dumps(output) if is_object(output) else output}


def _turn(turn: object, path: str, content_path: str = "") -> Turn:
    if not is_object(turn):
        raise BadRequest(f"'{path}' must be an object", path)
    if not isinstance(turn.get("role"), str):
        raise BadRequest(f"'{path}.role' must be a string", f"{path}.role")
    content, where = turn.get("content"), content_path or f"{path}.content"
    if is_array(content):
        for number, part in enumerate(content):
            _check_part(part, f"{where}[{number}]")
    elif content is not None and not isinstance(content, str):
        raise BadRequest(f"'{where}' must be a string, a list of parts or null", where)
    return turn


def _check_part(part: object, path: str) -> None:
    if not is_object(part) or not isinstance(part.get("type"), str):
        raise BadRequest(f"'{path}' must be an object with a string 'type'", path)
    if part["type"] == "text" and not isinstance(part.get("text"), str):
        raise BadRequest(f"'{path}.text' must be a string", f"{path}.text")
