"""The one seam to models: what deciding may ask for, and nothing else.

Implementations are plain synchronous callables. They run wherever the caller wants them to; a
policy without model-backed conditions never calls them.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol


class ModelServices(Protocol):
    """Models as classifiers see them.

    Any exception counts as a failed call: the condition that needed it takes its `on_error`.
    """

    def embed(self, model: str, text: str) -> Sequence[float]:
        """Return the embedding vector of a text; an empty text is embedded as well."""
        ...

    def run_classifier(self, model: str, text: str) -> Mapping[str, float]:
        """Return a score for each label that the model knows, as it gives them."""
        ...

    def chat(self, model: str, system: str, user: str) -> str:
        """Return a chat model's answer at temperature 0, asked for a JSON object."""
        ...

    def classify_laya(self, text: str) -> tuple[str, float]:
        """Return the chosen class and the confidence in it, 0 to 1; never asked for documents."""
        ...
