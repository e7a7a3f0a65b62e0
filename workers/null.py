"""An engine that answers at once with a constant: for measuring everything but the model.

It says so: its backend is "null", and so is its text.
"""

from collections.abc import Callable

from scheduler.wire.catalogue import CatalogueBody
from workers.engine import Sink
from workers.job import End, Job, Piece, Unloaded

REPLY = (
    b'{"id":"null","object":"chat.completion","created":0,"model":"null","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"null"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
)
_CHUNK = (
    b'{"id":"null","object":"chat.completion.chunk","created":0,"model":"null","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"null"},"finish_reason":"stop"}]}'
)


class NullEngine:
    """Answers at once."""

    backend = "null"
    slots = 0  # no prompt is kept

    def __init__(self, seats: int) -> None:
        self.seats = seats
        self._rows: list[str] = []
        self._resident: dict[str, None] = {}  # in order of their first use

    def start(self, job: Job, sink: Sink) -> None:
        """Answer."""
        self._resident[job.model] = None
        if job.stream:
            sink(Piece(job.lease, _CHUNK))
        sink(End(job.lease, b"" if job.stream else REPLY, output_tokens=1))

    def cancel(self, lease: int) -> None:
        """Do nothing: every job is over before it can be cancelled."""

    def unload(self, model: str, done: Callable[[Unloaded], None]) -> None:
        """Forget a row."""
        self._resident.pop(model, None)
        done(Unloaded(model))

    def sizes(self) -> dict[str, int]:
        """Return the rows it can answer for, which is each of the table; none takes memory."""
        return dict.fromkeys(self._rows, 0)

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn the names of the rows; every row is answered alike."""
        self._rows = list(body.parsed().rows)

    def resident(self) -> list[str]:
        """Return the rows that were asked for: nothing has to be loaded for them."""
        return list(self._resident)
