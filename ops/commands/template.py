"""`fairlane template`: the chat templates that a model file brings, and the pin that holds it to them."""

import json
from pathlib import Path

import click

from ops.commands.common import friendly, load
from ops.commands.exits import Exit, finish
from policies.pins import DEFAULT_TEMPLATE
from workers.badfile import BadFile
from workers.pinned import load_pinned
from workers.templates import digests_of

_FILE = click.argument("file", type=click.Path(exists=True, path_type=Path))


@click.group()
def template() -> None:
    """Show or pin the chat templates of a GGUF, or of a Q4NX container's folder."""


@template.command()
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@friendly
def show(file: Path, *, as_json: bool) -> None:
    """Print the SHA-256 of each of FILE's templates, and what the pins say of it."""
    digests = _digests(file)
    if as_json:
        finish(json.dumps({"sha256": digests.get(DEFAULT_TEMPLATE), "templates": digests}))
    conf = load().workers
    verdict = load_pinned(conf.template_pins, is_strict=False).verdict(file, digests)
    lines = [f"{digest}  {name}" for name, digest in sorted(digests.items())]
    finish("\n".join([*(lines or ["no chat template"]), f"pin: {verdict}"]))


@template.command()
@_FILE
@friendly
def pin(file: Path) -> None:
    """Print the row to add to the `pins` of a document that `workers.template_pins` names."""
    digest = _digests(file).get(DEFAULT_TEMPLATE)
    if digest is None:
        finish(f"{file}: it has no default chat template to pin", Exit.FAILED)
    finish(f"{json.dumps(file.absolute().name.lower())}: {json.dumps({'sha256': digest})}")


def _digests(file: Path) -> dict[str, str]:
    try:
        return digests_of(file)
    except BadFile as error:
        raise ValueError(str(error)) from error
