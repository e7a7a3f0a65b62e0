"""`fairlane policy`: routing policies, looked at without a server.

Exit codes: 0 ok, 1 failed, 2 usage, 3 invalid policy.
"""

import json
import sys
from typing import BinaryIO

import click

from ops.commands.exits import Exit, finish
from ops.commands.offline import (
    UnreadableError,
    answer_lines,
    check,
    decision_of,
    document_of,
    exit_of,
    summary,
)

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_jsonl = click.option("--jsonl", is_flag=True, help="Answer JSON objects from stdin, one a line.")


@click.group()
def policy() -> None:
    """Check routing policies and decide requests, offline."""


@policy.command("check")
@click.argument("file", type=click.File("rb"), required=False)
@_as_json
@_jsonl
def check_command(file: BinaryIO | None, *, as_json: bool, jsonl: bool) -> None:
    """Check the policy in FILE (- for stdin).

    With --jsonl a line is {"policy": .., "types": ..} and its answer {"error": text or null}.
    """
    if jsonl:
        finish("", answer_lines(sys.stdin.buffer, check, click.echo))
    result = check({"policy": _read(file, "FILE", as_json=as_json)})
    error = result["error"]
    code = Exit.OK if error is None else Exit.INVALID
    finish(json.dumps(result) if as_json else str(error or "ok"), code)


@policy.command("decide")
@click.option("--policy", "policy_file", type=click.File("rb"), help="The policy.")
@click.option("--request", "request_file", type=click.File("rb"), help="The request's body.")
@click.option("--services", type=click.File("rb"), help="What models would answer.")
@_as_json
@_jsonl
def decide_command(
    policy_file: BinaryIO | None,
    request_file: BinaryIO | None,
    services: BinaryIO | None,
    *,
    as_json: bool,
    jsonl: bool,
) -> None:
    """Decide a request, as a whole, without calling any model.

    With --jsonl a line is {"policy": .., "request": .., "services": ..} and its answer
    {"decision": ..} or {"error": text}. A model call that the services do not answer fails.
    """
    if jsonl:
        finish("", answer_lines(sys.stdin.buffer, decision_of, click.echo))
    document = {
        "policy": _read(policy_file, "--policy", as_json=as_json),
        "request": _read(request_file, "--request", as_json=as_json),
        "services": services and _read(services, "--services", as_json=as_json),
    }
    result = decision_of(document)
    finish(json.dumps(result) if as_json else summary(result), exit_of(document, result))


def _read(file: BinaryIO | None, name: str, *, as_json: bool) -> object:
    if file is None:
        raise click.UsageError(f"missing {name} (or --jsonl)")
    try:
        return document_of(file.read())
    except UnreadableError as error:
        text = f"{name}: {error}"
        finish(json.dumps({"error": text}) if as_json else text, Exit.INVALID)
