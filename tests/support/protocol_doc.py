"""Makes the verb tables of scheduler/wire/PROTOCOL.md from scheduler/wire/messages.py.

python tests/support/protocol_doc.py        writes them into the document
"""

import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import inspect as shapes

from scheduler.wire import messages as wire
from scheduler.wire import verbs, words

DOCUMENT = Path(inspect.getfile(wire)).with_name("PROTOCOL.md")
BEGIN = "<!-- verbs: begin; made by tests/support/protocol_doc.py -->"
END = "<!-- verbs: end -->"

_WAYS = ((0x20, "client to broker"), (0x40, "broker to client"), (0x50, "worker to broker"))
_LAST_WAY = "broker to worker"


def section() -> str:
    """Return the section that the document must hold between its two markers."""
    parts = [BEGIN, "", *_overview(), ""]
    for verb, kind in sorted(verbs.VERBS.items()):
        parts += [f"### `0x{verb:02x}` {kind.__name__.upper()}", "", _sentence(kind), ""]
        parts += [*_fields(kind), ""]
    for part in (words.Timings, words.Reading, words.RowStock):
        parts += [f"### {part.__name__}", "", _sentence(part), "", *_fields(part), ""]
    return "\n".join([*parts, END])


def current(text: str) -> str:
    """Return the section that a document holds now, markers included; empty if it has none."""
    found = re.search(f"{re.escape(BEGIN)}.*{re.escape(END)}", text, re.DOTALL)
    return found.group() if found else ""


def _overview() -> Iterator[str]:
    yield "| byte | verb | direction | |"
    yield "|---|---|---|---|"
    for verb, kind in sorted(verbs.VERBS.items()):
        yield f"| `0x{verb:02x}` | {kind.__name__.upper()} | {_way(verb)} | {_sentence(kind)} |"


def _way(verb: int) -> str:
    return next((way for below, way in _WAYS if verb < below), _LAST_WAY)


def _sentence(kind: type) -> str:
    return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")


def _fields(kind: type) -> Iterator[str]:
    info = shapes.type_info(kind)
    assert isinstance(info, shapes.StructType)
    if not info.fields:
        yield "No fields."
        return
    remarks = _remarks(kind)
    yield "| field | type | default | |"
    yield "|---|---|---|---|"
    for field in info.fields:
        name = field.encode_name
        yield f"| `{name}` | {_type(field.type)} | {_default(field)} | {remarks.get(name, '')} |"


def _remarks(kind: type) -> dict[str, str]:
    """Return the comment that follows each field in the source."""
    found: dict[str, str] = {}
    name = ""
    for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(kind)).readline):
        if token.type == tokenize.NAME and token.start[1] == 4:
            name = token.string
        elif token.type == tokenize.COMMENT and name:
            found[name] = token.string.removeprefix("#").strip()
    return found


def _default(field: shapes.Field) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.NODEFAULT:
        made = field.default_factory() if callable(field.default_factory) else None
        return f"`{msgspec.json.encode(made).decode()}`"
    return f"`{msgspec.json.encode(field.default).decode()}`"


def _type(kind: shapes.Type) -> str:  # noqa: C901, PLR0911  # one branch a type
    match kind:
        case shapes.StrType():
            return "string" + _span(kind.min_length, kind.max_length, " of {} characters")
        case shapes.IntType():
            return "integer" + _span(kind.ge, kind.le, " {}")
        case shapes.FloatType():
            return "float" + _span(kind.ge, kind.le, " {}")
        case shapes.BoolType():
            return "boolean"
        case shapes.NoneType():
            return "nil"
        case shapes.LiteralType():
            return " \\| ".join(f'`"{value}"`' for value in kind.values)
        case shapes.ListType():
            return f"list of at most {kind.max_length}: {_type(kind.item_type)}"
        case shapes.DictType():
            return f"map of at most {kind.max_length}: string to {_type(kind.value_type)}"
        case shapes.UnionType():
            return " \\| ".join(_type(one) for one in kind.types)
        case shapes.StructType():
            return f"map, see {kind.cls.__name__}"
        case _:
            return type(kind).__name__


def _span(low: float | None, high: float | None, text: str) -> str:
    if high is None:
        return ""
    top = "2^53" if high == 2**53 else f"{high:,.0f}".replace(",", "")
    return text.format(f"{low or 0:.0f} to {top}")


if __name__ == "__main__":
    known = DOCUMENT.read_text()
    DOCUMENT.write_text(known.replace(current(known), section()))
