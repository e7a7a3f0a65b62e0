"""`fairlane laya-first`: the table that says which model answers which class of request.

Exit codes: 0 ok, 1 failed, 2 usage, 3 invalid table, 4 server not reached, 5 refused by it.
"""

import json
from pathlib import Path

import click
import msgspec

from ops.commands.advice import advice
from ops.commands.exits import Exit, finish
from ops.commands.tables import RegistrationError, Source, find, register, report
from policies.desugar import to_text
from policies.table import parse_table


@click.command("laya-first")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--check", "action", flag_value="check", help="Check the table, naming every fault.")
@click.option("--policy", "out", metavar="OUT", help="Write the policy it stands for (- stdout).")
@click.option("--register", "url", metavar="URL", help="Register that policy with a Lemonade.")
@click.option("--strict", is_flag=True, help="With --check: warnings are errors.")
@click.option("--api-key", envvar="LEMONADE_API_KEY", help="With --register: its key.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def laya_first(
    file: Path | None,
    action: str | None,
    out: str | None,
    url: str | None,
    *,
    strict: bool,
    api_key: str | None,
    as_json: bool,
) -> None:
    """Check, desugar or register the table in FILE, else the user's own, else the shipped one."""
    if sum(choice is not None for choice in (action, out, url)) != 1:
        raise click.UsageError("say one of --check, --policy OUT, --register URL")
    source = _source(file)
    found = report(source, strict=strict)
    if action is not None and found.ok:
        found = msgspec.structs.replace(found, advice=advice(parse_table(source.text)))
    if action is not None or not found.ok:
        code = Exit.OK if found.ok else Exit.INVALID
        finish(msgspec.json.encode(found).decode() if as_json else str(found), code)
    text = to_text(parse_table(source.text))
    if out is not None:
        _write(text, out, as_json=as_json)
    _register(text, str(url), api_key, as_json=as_json)


def _source(file: Path | None) -> Source:
    try:
        return find(file, Path.home())
    except (OSError, UnicodeDecodeError) as error:
        finish(str(error), Exit.FAILED)


def _write(text: str, out: str, *, as_json: bool) -> None:
    if out == "-":
        finish(text.rstrip("\n"))
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        finish(str(error), Exit.FAILED)
    finish(json.dumps({"written": out}) if as_json else f"wrote {out}")


def _register(text: str, url: str, api_key: str | None, *, as_json: bool) -> None:
    try:
        name = register(url, text, api_key)
    except RegistrationError as error:
        finish(json.dumps({"error": str(error)}) if as_json else str(error), error.code)
    finish(json.dumps({"registered": name}) if as_json else f"registered {name}")
