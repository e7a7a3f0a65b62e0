"""The protocol of type `llm`: what a chat model is told, and which answers count.

Only a JSON object with exactly a known label and a reason counts. Anything else is no choice,
which is safer than guessing what a model meant.
"""

import json

import msgspec

from policies.document import Judge
from policies.request import RouteContext
from policies.shape import decode, is_object

_BLANK = " \t\r\n"
_FENCE = "```"


class Choice(msgspec.Struct, frozen=True):
    """A well-formed answer: the label, in the model's spelling, and the reason for it."""

    label: str
    rationale: str


def system_text(judge: Judge) -> str:
    """Return the system message: the author's prompt, then the form of question and answer."""
    names = ", ".join(judge.labels)
    return (
        f"{judge.prompt}\n\n"
        'You get one JSON object that describes a request: "text" is its last user turn, "chars" '
        'the length of that text in bytes, "has_tools" and "has_images" tell whether the request '
        'brings tools or images, "metadata" holds hints of the caller. '
        f"Pick exactly one of: {names}. "
        'Answer with one JSON object and nothing else: {"model": "<the name you picked>", '
        '"rationale": "<why, in one short sentence>"}'
    )


def user_text(context: RouteContext) -> str:
    """Return the user message: the request as compact JSON with sorted keys."""
    payload = {
        "chars": context.chars,
        "has_images": context.has_images,
        "has_tools": context.has_tools,
        "metadata": context.metadata,
        "text": context.input,
    }
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def read_reply(reply: str) -> Choice | None:
    """Return the choice that an answer makes, `None` if it does not keep to the form.

    One pair of code fences around the object is accepted, because instruction-tuned models add
    it unasked; text after the closing fence is not.
    """
    text = _unfenced(reply.strip(_BLANK))
    if text is None:
        return None
    try:
        parsed = decode(text)
    except (ValueError, RecursionError):
        return None
    if not is_object(parsed) or parsed.keys() != {"model", "rationale"}:
        return None
    label, rationale = parsed["model"], parsed["rationale"]
    if not isinstance(label, str) or not isinstance(rationale, str):
        return None
    rationale = rationale.strip(_BLANK)
    return Choice(label, rationale) if rationale else None


def _unfenced(text: str) -> str | None:
    if not text.startswith(_FENCE):
        return text
    first, last = text.find("\n"), text.rfind(_FENCE)
    if first < 0 or last <= first or text[last + len(_FENCE) :].strip(_BLANK):
        return None
    return text[first + 1 : last].strip(_BLANK)
