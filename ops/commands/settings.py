"""`fairlane settings`: what is in force."""

import json

import click
import msgspec

from ops.commands.common import friendly, load
from ops.example import example
from policies.shape import is_object


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.option(
    "--example", "as_example", is_flag=True, help="A file with all settings and defaults."
)
@friendly
def settings(*, as_json: bool, as_example: bool) -> None:
    """Show the settings in force: defaults, file and environment together."""
    if as_example:
        print(example(), end="")
        return
    values = msgspec.to_builtins(load())
    if as_json:
        print(json.dumps(values, indent=2))
        return
    for line in _lines("", values):
        print(line)


def _lines(prefix: str, values: dict[str, object]) -> list[str]:
    lines: list[str] = []
    for name, value in values.items():
        if is_object(value) and value:
            lines += _lines(f"{prefix}{name}.", value)
        else:
            lines.append(f"{prefix}{name} = {json.dumps(value)}")
    return lines
