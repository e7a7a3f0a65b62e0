"""The chat templates a model file brings, and their digests.

A template is a program that a server runs on every request. Its digest is the SHA-256 of its UTF-8 bytes
as they are in the file: nothing is trimmed. A GGUF keeps templates in its metadata; a Q4NX container is a
folder with the file `tokenizer_config.json`.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from policies.pins import DEFAULT_TEMPLATE
from policies.problems import Problem, load_unique
from policies.shape import is_array, is_object
from workers import gguf
from workers.badfile import BadFile, open_plain

_KEY = "tokenizer.chat_template"
_CONFIG = "tokenizer_config.json"
_CONFIG_MAX = 16 << 20  # bytes: the longest lists of added tokens take 1 MiB
_Q4NX = ".q4nx"


class _Named(msgspec.Struct):
    """One template of the list form."""

    name: str
    template: str


def digests_of(path: Path, count: Callable[[int], object] = lambda _: None) -> dict[str, str]:
    """Return the digests of a model's templates: name -> lower-case hex; empty where it has none.

    Of a GGUF the metadata are read, tensors never. A folder, its `tokenizer_config.json` or a `.q4nx` file
    in it is a Q4NX container; every other file is taken for a GGUF.

    Args:
        path: A model's file or folder.
        count: Takes the number of bytes of each read of a GGUF.

    Raises:
        BadFile: It cannot be read, is cut off or is no file of its kind, or readers would not agree on
            what its templates are.
    """
    found = _from_config(path) if _is_container(path) else _from_gguf(path, count)
    for name, template in found.items():
        if "\0" in template:
            raise BadFile(path, f"the template {name!r} holds a NUL, where some readers end it")
    return {name: digest_of(template, path) for name, template in found.items()}


def digest_of(template: str, path: Path = Path()) -> str:
    """Return the SHA-256 (hex) of a template's UTF-8 bytes.

    Raises:
        BadFile: It holds half a character.
    """
    try:
        return hashlib.sha256(template.encode()).hexdigest()
    except UnicodeEncodeError as error:
        raise BadFile(path, f"a template is no text: {error}") from error


def _from_gguf(path: Path, count: Callable[[int], object]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, text in gguf.texts(path, _is_template, count):
        name = key.removeprefix(_KEY).removeprefix(".")
        if key != _KEY and name in {"", DEFAULT_TEMPLATE}:
            raise BadFile(path, f"the key {key!r} names a template like the one without a name")
        found[name or DEFAULT_TEMPLATE] = text
    return found


def _is_template(key: str) -> bool:
    return key == _KEY or key.startswith(f"{_KEY}.")


def _is_container(path: Path) -> bool:
    return path.is_dir() or path.name == _CONFIG or path.suffix.lower() == _Q4NX


def _from_config(path: Path) -> dict[str, str]:
    file = path / _CONFIG if path.is_dir() else path.with_name(_CONFIG)
    problems: list[Problem] = []
    try:
        document = load_unique(_read(file), problems)
    except RecursionError:
        raise BadFile(file, "it is nested too deeply") from None
    if problems or not is_object(document):
        raise BadFile(file, str(problems[0]) if problems else "it is no JSON object")
    value = document.get("chat_template")
    if value is None:
        return {}
    if isinstance(value, str):
        return {DEFAULT_TEMPLATE: value}
    if not is_array(value):
        raise BadFile(file, "chat_template is neither a text nor a list")
    try:
        named = msgspec.convert(value, list[_Named])
    except msgspec.ValidationError as error:
        raise BadFile(file, f"chat_template: {error}") from error
    found = {entry.name: entry.template for entry in named}
    if len(found) < len(named):
        raise BadFile(file, "chat_template names a template twice")
    return found


def _read(file: Path) -> str:
    try:
        with open_plain(file) as opened:
            raw = opened.read(_CONFIG_MAX + 1)
    except OSError as error:
        raise BadFile(file, f"cannot be read: {error.strerror}") from error
    if len(raw) > _CONFIG_MAX:
        raise BadFile(file, f"it has more than {_CONFIG_MAX} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadFile(file, f"it is no text: {error}") from error
