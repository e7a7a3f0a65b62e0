"""The policy's seam to models, over the bus: conditions run on the workers' own models.

A call is an ordinary request under an explicit name: it waits in that row's queue and is charged to the
lane whose request is being decided. It must be over when the decision is due.
"""

import time
from collections.abc import Mapping, Sequence

from scheduler.bus.client import Client
from workers.circuit import Classifier
from workers.payloads import scores_of

_SCORES = (
    "Classify the user's text. Answer with one JSON object that maps each fitting label to a score "
    "from 0 to 1, and nothing else."
)
# Source: Lemonade's call parameters for routing models.
_OPTIONS = {
    "temperature": 0,
    "max_tokens": 256,
    "response_format": {"type": "json_object"},
    "reasoning_effort": "none",
    "chat_template_kwargs": {"enable_thinking": False},
}


class Models:
    """Models behind one decision; made for it and closed with it."""

    def __init__(
        self,
        endpoint: str,
        lane: str,
        expires_at: float,
        classifier: Classifier,
        *,
        ticket: int = 0,
    ) -> None:
        """Connect.

        Args:
            endpoint: The broker's client endpoint.
            lane: Whose work this is.
            expires_at: When the decision is due, monotonic seconds.
            classifier: Tells the laya classes apart.
            ticket: Which request's decision it is: accepted already, so also served by a box that drains.
        """
        self._classifier = classifier
        self._expires_at = expires_at
        self._client = Client(endpoint, lane=lane, for_ticket=ticket)

    def close(self) -> None:
        """Leave."""
        self._client.close()

    def classify_laya(self, text: str) -> tuple[str, float]:
        """Return the chosen class and the confidence in it."""
        verdict = self._classifier.classify(text, self._expires_at)
        return verdict.label, verdict.confidence

    def embed(self, model: str, text: str) -> Sequence[float]:
        """Return the embedding of a text."""
        return self._client.embed(text, model=model, timeout_s=self._left_s())

    def run_classifier(self, model: str, text: str) -> Mapping[str, float]:
        """Return the scores a chat model gives its labels."""
        return scores_of(self.chat(model, _SCORES, text))

    def chat(self, model: str, system: str, user: str) -> str:
        """Return a chat model's answer at temperature 0."""
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": f"/no_think\n{user}"},
        ]
        reply = self._client.chat(messages, model=model, timeout_s=self._left_s(), **_OPTIONS)
        return reply.text

    def _left_s(self) -> float:
        return max(0.0, self._expires_at - time.monotonic())
