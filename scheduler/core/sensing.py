"""Readings come in: who may say them, and where they are kept."""

from scheduler.core.box import Box
from scheduler.core.events import Sensed


class Sensing:
    """Takes in what the sensors worker says."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def on_sensed(self, event: Sensed) -> None:
        """Keep the readings, if the registered sensors worker says them: a fact has one owner."""
        box = self._box
        worker = box.worker(event.route, event.epoch)
        if worker is None or worker.kind != "sensors":
            box.count("fenced")
            return
        box.senses.take(event.readings, event.at)
