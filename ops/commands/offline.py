"""What the offline commands do: parse, check and decide without a server.

Answers are plain JSON objects, the same for one document and for a line of many.
"""

import json
from collections.abc import Callable, Iterable

from ops.commands.exits import Exit
from policies.engine import decide
from policies.errors import PolicyError, RequestError
from policies.parse import parse_policy
from policies.request import context_of
from policies.shape import decode, is_object
from policies.stubs import StubbedServices

Answer = dict[str, object]


class UnreadableError(Exception):
    """A document cannot be read at all; the text says why."""


def document_of(data: bytes) -> object:
    """Decode one JSON document.

    Raises:
        UnreadableError: It is not UTF-8, not JSON, or nested beyond reading.
    """
    try:
        return decode(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"not JSON: {error}") from error


def check(document: Answer) -> Answer:
    """Check a policy.

    Args:
        document: `policy`, and `types` (model -> type) where types are to be checked.

    Returns:
        `error`: the text with which the policy is refused, null if it is accepted.
    """
    types = document.get("types")
    known = {name: str(kind) for name, kind in types.items()} if is_object(types) else None
    try:
        parse_policy(document.get("policy"), model_type=None if known is None else known.get)
    except PolicyError as error:
        return {"error": str(error)}
    return {"error": None}


def decision_of(document: Answer) -> Answer:
    """Decide a request.

    Args:
        document: `policy`, `request`, and `services`: what models would answer, see
            `policies.stubs`. A call without an answer there fails.

    Returns:
        `decision`, or `error` with the text of what was wrong.
    """
    request, services = document.get("request"), document.get("services")
    if not is_object(request):
        return {"error": "the request must be a JSON object"}
    stubs = StubbedServices(services if is_object(services) else {})
    try:
        policy = parse_policy(document.get("policy"))
        context = context_of(request)
    except (PolicyError, RequestError) as error:
        return {"error": str(error)}
    return {"decision": decide(policy, context, stubs, trace=context.wants_trace).to_json()}


def _object_of(line: bytes) -> Answer:
    document = document_of(line)
    if not is_object(document):
        raise UnreadableError("the line must hold a JSON object")
    return document


def summary(answer: Answer) -> str:
    """Return the answer to one request in a line for a person."""
    decision = answer.get("decision")
    if not is_object(decision):
        return str(answer.get("error"))
    return f"{decision['route_to']} ({decision['matched_rule'] or 'default'})"


def exit_of(document: Answer, answer: Answer) -> Exit:
    """Return the exit code of the answer to one request: whose fault an error is."""
    if "decision" in answer:
        return Exit.OK
    return Exit.FAILED if check(document)["error"] is None else Exit.INVALID


def answer_lines(
    lines: Iterable[bytes], answer: Callable[[Answer], Answer], echo: Callable[[str], None]
) -> Exit:
    """Answer each line that holds an object with one line, in order.

    Args:
        lines: One JSON object a line; blank lines are passed over.
        answer: What to make of one.
        echo: Takes each answer.

    Returns:
        `FAILED` if a line could not be read; it still gets an answer that says so.
    """
    code = Exit.OK
    for line in lines:
        if line.strip():
            try:
                text = json.dumps(answer(_object_of(line)))
            except (UnreadableError, RecursionError) as error:
                text, code = json.dumps({"error": str(error)}), Exit.FAILED
            echo(text)
    return code
