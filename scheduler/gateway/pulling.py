"""The answer to a pull: whole at its end, or a stream of how far it is.

Source of the events' names and fields: Lemonade's /v1/pull. Its `file` is the row here, and the bytes are
those of all the row's files together.
"""

import msgspec

from scheduler.bus.aioclient import Flow
from scheduler.gateway.answer import Answer
from scheduler.gateway.doors import PullDoor, named_event
from scheduler.gateway.shapes import pull_done
from scheduler.wire import messages as wire


class PullAnswer(Answer):
    """An ASGI response to a request for a row to be on disk. A client that leaves stops no pull."""

    def __init__(self, flow: Flow, model: str, *, stream: bool, waits: tuple[float, float]) -> None:
        """Remember what to send.

        Args:
            flow: What comes for the request.
            model: The row.
            stream: Whether the client asked for a stream.
            waits: See `Answer`.
        """
        super().__init__(flow, _door(model), routed=False, stream=stream, waits=waits)
        self._name = model
        self._about = _door(model)

    def _whole(self, message: wire.Final, body: bytes) -> bytes:  # the end of a pull is empty
        return msgspec.json.encode(pull_done(self._name))

    def _standing(self, note: wire.Note) -> bytes:
        if note.model != self._about.model:  # a class was asked for
            self._door = self._about = _door(note.model)
        share = 100 * note.done_bytes // note.total_bytes if note.total_bytes else None
        told = {"bytes_downloaded": note.done_bytes, "bytes_total": note.total_bytes}
        return named_event("progress", self._about.about(share) | told)


def _door(model: str) -> PullDoor:
    return PullDoor("chat", "pull", model=model)
