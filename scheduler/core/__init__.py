"""The pure state machine of one box. `Appliance.handle(event)` is the only door."""

from scheduler.core.appliance import Appliance
from scheduler.core.catalogue import Catalogue, RowFacts
from scheduler.core.limits import Limits

__all__ = ["Appliance", "Catalogue", "Limits", "RowFacts"]
