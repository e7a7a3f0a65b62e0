"""`fairlane explain`: why a request waited and where it landed."""

import json

import click

from ops.commands.common import complain, friendly, load, reach
from ops.commands.exits import Exit
from ops.sentences import sentences, unknown
from scheduler.harmless import harmless

_ID_MAX = 256  # as words of the wire are at most


@click.command()
@click.argument("request_id")
@click.option("--json", "as_json", is_flag=True, help="The facts as one JSON object.")
@friendly
def explain(request_id: str, *, as_json: bool) -> None:
    """Tell why the request with this x-request-id waited and where it landed, also after its end."""
    if len(request_id) > _ID_MAX:
        complain(f"no request has an id of more than {_ID_MAX} characters")
        raise SystemExit(Exit.FAILED)
    with reach(load()) as client:
        told = client.explain(request_id)
    if as_json:
        print(json.dumps(told, indent=2))
    if not told["known"]:
        complain(unknown(harmless(told)))
        raise SystemExit(Exit.FAILED)
    if as_json:
        return
    told = harmless(told)
    print("\n".join(sentences(told)))
    print()
    story = told["story"]
    for at, what, detail in story:
        print(f"{at - story[0][0]:9.3f} s  {what:12} {detail}")
