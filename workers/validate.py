"""`POST /v1/routing/validate`: a policy and a made-up request in, the decision and the full policy out.

Pure. Source of the request, the reply, the error texts and the order of the checks: Lemonade's endpoint.
"""

import msgspec
from msgspec import Struct

from policies.document import Policy
from policies.engine import Decision
from policies.errors import PolicyError, RequestError
from policies.parse import parse_policy
from policies.request import RouteContext, context_of
from policies.shape import is_object


class TrialError(Exception):
    """The request is refused; the text is what the client reads."""


class Trial(Struct, frozen=True):
    """A policy and the request it is tried on."""

    document: dict[str, object]  # as it was sent
    policy: Policy
    context: RouteContext


def read_trial(raw: bytes) -> Trial:
    """Read a trial.

    Raises:
        TrialError: With the endpoint's exact text of the first fault.
    """
    body = _object(raw)
    document = body.get("policy")
    if not is_object(document):
        raise TrialError("'policy' must be a JSON object")
    context = _context(body)
    try:
        return Trial(document, parse_policy(document), context)
    except PolicyError as error:
        raise TrialError(f"Invalid routing policy: {error}") from error


def trial_answer(trial: Trial, decision: Decision) -> bytes:
    """Return the reply's JSON."""
    routing = {"routing": trial.policy.normalized}
    return msgspec.json.encode(
        {"decision": decision.to_json(), "normalized_policy": {**trial.document, **routing}}
    )


def trial_error(text: str) -> bytes:
    """Return an error's JSON: a text, not an object, as this endpoint has it."""
    return msgspec.json.encode({"error": text})


def _object(raw: bytes) -> dict[str, object]:
    if not raw:
        raise TrialError("Request body is required but was empty")
    try:
        body: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TrialError(f"Invalid JSON in request body: {error}") from error
    return body if is_object(body) else {}


def _context(body: dict[str, object]) -> RouteContext:
    prompt = body.get("prompt", "")
    if not isinstance(prompt, str):
        raise TrialError("'prompt' must be a string")
    flags: dict[str, bool] = {}
    for name in ("has_images", "has_tools"):
        value = body.get(name, False)
        if not isinstance(value, bool):
            raise TrialError(f"'{name}' must be a boolean")
        flags[name] = value
    metadata = body.get("metadata", {})
    if not is_object(metadata):
        raise TrialError("'metadata' must be a JSON object of string values")
    for key in sorted(metadata):
        if not isinstance(metadata[key], str):
            raise TrialError(f"'metadata' value for key '{key}' must be a string")
    content: list[dict[str, object]] = [{"type": "text", "text": prompt}]
    if flags["has_images"]:
        content.append({"type": "image_url"})
    tools: list[object] = [{}] if flags["has_tools"] else []
    request: dict[str, object] = {
        "messages": [{"role": "user", "content": content}],
        "tools": tools,
        "metadata": metadata,
    }
    try:
        return context_of(request)
    except RequestError as error:
        raise TrialError(str(error)) from error
