"""A backend that counts what it is asked."""

from workers.backend import Answer, BackendError


class CountingBackend:
    """Calls everything prose, or fails; keeps the texts it was asked about."""

    name = "counting"

    def __init__(self, failure: str = "", probabilities: dict[str, float] | None = None) -> None:
        self.asked: list[str] = []
        self.closed = False
        self._failure = failure
        self._probabilities = (
            {"code": 0.1, "prose": 0.8, "short": 0.1} if probabilities is None else probabilities
        )

    def classify(self, text: str) -> Answer:
        """Count and answer."""
        self.asked.append(text)
        if self._failure:
            raise BackendError(self._failure)
        return Answer("prose", 0.41831, self._probabilities)

    def close(self) -> None:
        """Note it."""
        self.closed = True
