"""Runs jobs on the in-process engine with the real small model, without a box around it."""

import json
import queue
import time

from policies import shipped
from scheduler.wire.catalogue import CatalogueBody
from workers.job import End, Error, Job, Outcome
from workers.llama import LlamaEngine
from workers.pinned import load_pinned

MODEL = "SmolLM2-135M-Instruct"


class Asker:
    """Runs jobs on one engine and collects what comes of them."""

    def __init__(self, **row: object) -> None:
        """Start an engine; nothing is loaded.

        Args:
            row: What differs in the embedded table's row; None: it lacks that.
        """
        table = json.loads(shipped.read("embedded.json"))
        changed = {**table["rows"][0], **row}
        table["rows"][0] = {key: value for key, value in changed.items() if value is not None}
        self.engine = LlamaEngine("hrx", 1, load_pinned("", is_strict=True))
        self.engine.take_catalogue(CatalogueBody(json.dumps(table)))
        self.said: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self.numbers = 0

    def start(
        self, body: dict[str, object], *, op: str = "chat", model: str = MODEL, talk: str = "c"
    ) -> int:
        """Begin a job, a turn of a conversation."""
        self.numbers += 1
        raw = json.dumps({"model": model, **body}).encode()
        stream = bool(body.get("stream"))
        self.engine.start(Job(self.numbers, op, model, stream, talk, raw), self.said.put)
        return self.numbers

    def rest(self, *, within_s: float = 120.0) -> list[Outcome]:
        """Return all outcomes until the job's end."""
        outcomes: list[Outcome] = []
        while not (outcomes and isinstance(outcomes[-1], End | Error)):
            outcomes.append(self.said.get(timeout=within_s))
        return outcomes

    def cancel(self, number: int) -> float:
        """Cancel a job and return after how many seconds its end was told."""
        asked_at = time.monotonic()
        self.engine.cancel(number)
        last = self.rest()[-1]
        assert isinstance(last, End)
        assert last.cancelled
        return time.monotonic() - asked_at

    def end(self, body: dict[str, object], *, op: str = "chat", talk: str = "c") -> End | Error:
        """Run a job and return how it ended."""
        self.start(body, op=op, talk=talk)
        last = self.rest()[-1]
        assert isinstance(last, End | Error)
        return last


def chat(text: str, **fields: object) -> dict[str, object]:
    """Return a chat request's body."""
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **fields}


def text_of(end: End | Error) -> str:
    """Return a whole answer's text."""
    assert isinstance(end, End), end
    text: str = json.loads(end.body)["choices"][0]["message"]["content"]
    return text
