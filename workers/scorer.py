"""The scorer worker's judge: the table's policy, evaluated on the first turn of a conversation.

It takes no ticket and waits for no device: a decision is a few microseconds of Python in a process of
its own.
"""

import time
from typing import Any

import msgspec

from policies.table import Table, parse_table
from workers.judge import Judgement
from workers.session import Judge

_LONG_DOC_BYTES = 1024
_CODE = (
    "function",
    "python",
    "code",
    "script",
    "class ",
    "def ",
    "bug",
    "regex",
    "sql",
    "rust",
    "java",
    "compile",
)
_SHORT_BYTES = 80


class Scorer:
    """Decides where a conversation goes."""

    backend = "keywords"

    def __init__(self) -> None:
        self._table: Table | None = None

    def take_table(self, table: bytes) -> None:
        """Learn the table."""
        self._table = parse_table(table.decode())

    def decide(self, question: Judge) -> Judgement | None:
        """Return the judgement, or None if its time is over or no table came yet."""
        table = self._table
        if table is None or time.monotonic() >= question.expires_at:
            return None
        body: dict[str, Any] = msgspec.json.decode(question.body)
        text = str(body.get("messages", [{}])[0].get("content") or body.get("prompt") or "")
        label = self._class(text)
        model = table.classes[label].model
        decision: dict[str, object] = {
            "version": "1",
            "route_to": model,
            "matched_rule": f"laya-{label}",
            "default_used": False,
            "outputs": {},
        }
        return Judgement(f"laya-{label}", model, label, 1.0, False, msgspec.json.encode(decision))

    @staticmethod
    def _class(text: str) -> str:
        if len(text.encode()) >= _LONG_DOC_BYTES:
            return "long_doc"
        if any(word in text.lower() for word in _CODE):
            return "code"
        return "short" if len(text) < _SHORT_BYTES else "prose"
