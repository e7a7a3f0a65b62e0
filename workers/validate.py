"""`POST /v1/routing/validate`: a policy and a made-up request in, the decision and the full policy out.

Pure. Source of the request, the reply, the error texts and the order of the checks: Lemonade's endpoint.
"""

import msgspec
from msgspec import Struct

from policies.document import Policy
from policies.engine import Decision
from policies.errors import PolicyError
from policies.parse import parse_policy
from policies.request import RouteContext, plain_context
from policies.shape import is_object
from workers.policy_bounds import fault_of


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
    fault = fault_of(document, len(raw))
    if fault:
        raise TrialError(fault)
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
    flags = {name: body.get(name, False) for name in ("has_images", "has_tools")}
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TrialError(f"'{name}' must be a boolean")
    metadata = body.get("metadata", {})
    if not is_object(metadata):
        raise TrialError("'metadata' must be a JSON object of string values")
    for key in sorted(metadata):
        if not isinstance(metadata[key], str):
            raise TrialError(f"'metadata' value for key '{key}' must be a string")
    return plain_context(
        prompt,
        has_tools=bool(flags["has_tools"]),
        has_images=bool(flags["has_images"]),
        metadata={key: str(value) for key, value in metadata.items()},
    )
