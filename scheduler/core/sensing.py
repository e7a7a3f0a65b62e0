"""Readings come in: who may say them, and where they are kept."""

from scheduler.core.box import Box
from scheduler.core.climate import HELD_KIND
from scheduler.core.dispatch import Dispatcher
from scheduler.core.events import Sensed
from scheduler.core.senses import STALE_S

_POWER_OF = {"hrx": "gfx_power", "npu": "npu_power"}


class Sensing:
    """Takes in what the sensors worker says."""

    def __init__(self, box: Box, dispatcher: Dispatcher) -> None:
        self._box = box
        self._dispatcher = dispatcher

    def on_sensed(self, event: Sensed) -> None:
        """Keep the readings, if the registered sensors worker says them: a fact has one owner."""
        box = self._box
        worker = box.worker(event.route, event.epoch)
        if worker is None or worker.kind != "sensors":
            box.count("fenced")
            return
        since_s = event.at - box.senses.at
        box.senses.take(event.readings, event.at)
        gpu = box.devices.get(HELD_KIND)
        is_held = gpu is not None and bool(gpu.active)
        if since_s <= STALE_S:  # of a longer silence nothing is known
            busy = box.senses.number("gpu_busy", event.at)
            box.meter.checked(busy, since_s, held=is_held)
            for kind, name in _POWER_OF.items():
                box.meter.burned(kind, box.senses.number(name, event.at), since_s)
        box.climate.feed(box.senses, event.at, held=is_held)
        self.look_at_heat(event.at)

    def look_at_heat(self, at: float) -> None:
        """Hold a device that is too hot; let go of one that is not, or of which nothing is known."""
        box = self._box
        for device in box.devices.values():
            was = device.is_hot
            device.heat.turn(at, on=box.climate.holds(device.kind, at))
            if was and not device.is_hot:
                self._dispatcher.pump(device, at)
