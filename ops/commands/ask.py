"""`fairlane ask`: one question to the running box, streamed to the terminal."""

import json
import sys
from typing import Any
from urllib.parse import urlsplit

import click

from ops.commands.common import complain, friendly, load
from ops.commands.exits import Exit
from ops.http import HttpError, events, post
from scheduler.harmless import readable


@click.command()
@click.argument("text")
@click.option("--model", default="auto", show_default=True, help="A model's name, or auto.")
@click.option("--lane", default="", help="Whose work this is.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Longest answer.")
@click.option("--url", default="", help="Gateway; default: the one of the settings.")
@click.option("--json", "as_json", is_flag=True, help="The whole reply as one JSON object.")
@friendly
def ask(
    text: str, model: str, lane: str, max_tokens: int | None, url: str, *, as_json: bool
) -> None:
    """Ask TEXT ("-" reads standard input) and print the answer; where it went is on stderr."""
    if text == "-":
        if sys.stdin is None:
            raise click.UsageError("standard input is closed")
        text = sys.stdin.read()
    if not text.strip():
        raise click.UsageError("there is no question in an empty text")
    if url and urlsplit(url).scheme != "http":
        raise click.UsageError(f"--url must begin with http://, not {url}")
    gateway = load().gateway
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "stream": not as_json,
        **({"max_tokens": max_tokens} if max_tokens else {}),
    }
    headers = {"x-fairlane-lane": lane} if lane else {}
    where = url or f"http://{gateway.host}:{gateway.port}"
    try:
        response = post(where, "/v1/chat/completions", body, headers)
    except HttpError as error:
        complain(str(error))
        raise SystemExit(Exit.REFUSED) from error
    if as_json:
        print(response.read().decode())
        return
    print(f"[{response.headers['x-request-id']}]", file=sys.stderr)
    failed = False
    for line in events(response):
        failed = _show(line) or failed
    print()
    if failed:
        raise SystemExit(Exit.REFUSED)


def _show(line: str) -> bool:
    """Print one line of the stream; return whether it was an error."""
    if line.startswith(": ") and sys.stderr.isatty():
        print(f"\r[{readable(line[2:])}]", end="", file=sys.stderr, flush=True)
    if not line.startswith("data: ") or line == "data: [DONE]":
        return False
    event = json.loads(line.removeprefix("data: "))
    if "error" in event:
        print(file=sys.stderr)
        complain(event["error"]["message"])
        return True
    route = event.get("x_lemonade_route")
    if route:
        print(f"[{json.dumps(route['outputs'])}]", file=sys.stderr)
    for choice in event["choices"]:
        said = choice["delta"].get("content") or ""
        print(
            readable(said) if sys.stdout is not None and sys.stdout.isatty() else said,
            end="",
            flush=True,
        )
    return False
