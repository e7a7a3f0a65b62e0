"""One answer on its way out of an engine: chunks as they come, or the whole at the end."""

import time

from workers.engine import Sink
from workers.job import End, Job, Piece
from workers.shapes import Shape, Usage


class Answering:
    """One answer on its way out: chunks as they come, or the whole at the end."""

    def __init__(self, job: Job, sink: Sink, shape: Shape, load_s: float | None) -> None:
        self._job = job
        self._sink = sink
        self._shape = shape
        self._load_s = load_s
        self._text: list[str] = []
        self._ttft_s: float | None = None
        self.wants_usage = False
        self.began_at = 0.0

    @property
    def conversation(self) -> str:
        """Return whose turn it answers."""
        return self._job.conversation

    def add(self, text: str) -> None:
        """Take a piece of text."""
        first = self._ttft_s is None
        if first:
            self._ttft_s = time.monotonic() - self.began_at
        if self._job.stream:
            load_s = self._load_s if first else None
            self._sink(Piece(self._job.lease, self._shape.chunk(text, first=first), load_s))
        else:
            self._text.append(text)

    def end(self, finish_reason: str, usage: Usage, *, cancelled: bool) -> None:
        """Say why it ends."""
        body = b""
        if self._job.stream and not cancelled:
            if self._ttft_s is None:
                self.add("")
            self._sink(Piece(self._job.lease, self._shape.last_chunk(finish_reason)))
            if self.wants_usage:
                self._sink(Piece(self._job.lease, self._shape.usage_chunk(usage)))
        elif not cancelled:
            body = self._shape.whole("".join(self._text), finish_reason, usage)
        self._sink(
            End(
                self._job.lease,
                body,
                cancelled,
                usage.prompt,
                usage.cached,
                usage.output,
                self._load_s,
                self._ttft_s,
            )
        )
