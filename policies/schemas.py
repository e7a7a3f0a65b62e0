"""JSON Schemas of our own documents, made from the types that read them.

A schema is a first filter for editors: it knows shapes and bounds. What needs the whole document
(references, sources, digests) only the check knows. The files in `policies/schema` are this
module's output; a test fails when they are not.
"""

import hashlib
import json

import msgspec

from policies.overlay import Overlay, RowOverlay
from policies.pins import Pins
from policies.row import CLASSES, ClassRow, Row
from policies.shape import is_object
from policies.table import Head

DIALECT = "https://json-schema.org/draft/2020-12/schema"
LOCK = "schema-lock.json"

Schema = dict[str, object]


def table_schema() -> Schema:
    """Return the schema of a laya-first table."""
    defs = _definitions(Head, Row, ClassRow)
    head = defs.pop("Head")
    row, reference = defs["Row"], defs["ClassRow"]
    # A class either writes its row out or names one that is written out elsewhere.
    entry = {**row, "properties": {**_properties(row), **_properties(reference)}, "title": "Class"}
    defs["Class"] = entry
    either = {"anyOf": [{"$ref": "#/$defs/Class"}, {"$ref": "#/$defs/ClassRow"}]}
    properties = _properties(head)
    properties["classes"] = {
        "type": "object",
        "properties": dict.fromkeys(CLASSES, either),
        "required": list(CLASSES),
        "additionalProperties": False,
    }
    properties["rows"] = {"type": "array", "items": {"$ref": "#/$defs/Row"}, "default": []}
    return _document({**head, "properties": properties}, defs, "Laya-first table")


def overlay_schema() -> Schema:
    """Return the schema of a site overlay."""
    defs = _definitions(Overlay, RowOverlay)
    root = defs.pop("Overlay")
    properties = _properties(root)
    properties["rows"] = {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/RowOverlay"},
        "default": {},
    }
    return _document({**root, "properties": properties}, defs, "Site overlay")


def pins_schema() -> Schema:
    """Return the schema of a pin document."""
    defs = _definitions(Pins)
    return _document(defs.pop("Pins"), defs, "Template pins")


def texts() -> dict[str, str]:
    """Return every schema file's text by its name, the lock with their hashes last.

    A schema marked as released in the lock never changes again within its major version.
    """
    made = {
        "laya-first.schema.json": table_schema(),
        "overlay.schema.json": overlay_schema(),
        "template-pins.schema.json": pins_schema(),
    }
    files = {name: _text(schema) for name, schema in made.items()}
    lock: Schema = {
        name: {
            "major": "1",
            "released": False,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
        for name, text in files.items()
    }
    return {**files, LOCK: _text(lock)}


def _text(document: Schema) -> str:
    return json.dumps(document, indent=2) + "\n"


def _definitions(*types: type[msgspec.Struct]) -> dict[str, Schema]:
    _, components = msgspec.json.schema_components(
        types, schema_hook=_anything, ref_template="#/$defs/{name}"
    )
    return {name: _brief(schema) for name, schema in components.items()}


def _anything(_: type) -> Schema:
    """Stand in for entries that are read one by one; the real schema takes its place."""
    return {"description": "see the entry's own schema"}


def _brief(schema: Schema) -> Schema:
    """Keep a description's first paragraph: the rest explains attributes to readers of code."""
    text = schema.get("description")
    if isinstance(text, str):
        return {**schema, "description": " ".join(text.partition("\n\n")[0].split())}
    return schema


def _properties(schema: Schema) -> Schema:
    properties = schema.get("properties")
    return dict(properties) if is_object(properties) else {}


def _document(root: Schema, defs: dict[str, Schema], title: str) -> Schema:
    return {"$schema": DIALECT, **root, "title": title, "$defs": dict(sorted(defs.items()))}
