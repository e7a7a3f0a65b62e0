"""A core at rest is the core: thawed anywhere it goes on the same, and its journal replays bit for bit."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis.stateful import rule

from ops.replay import replay
from property.test_appliance_machine import LIMITS, ApplianceMachine
from scheduler.bus.journal import Journal, segments
from scheduler.bus.resume import replayed
from scheduler.bus.segment import Reader
from scheduler.core import Appliance
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.core.checkpoint import Checkpoint
from scheduler.settings import Journal as Conf
from support.stand import Stand

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Checkpoint).decode
PAGE = 4096  # bytes of events in a segment: the least there may be, so that runs rotate


def thawed(core: Appliance) -> Appliance:
    """Return a core's twin, made from the bytes of its checkpoint."""
    return Appliance.restored(_decode(_encode(core.freeze())))


def without_body(effects: list[fx.Effect]) -> list[fx.Effect]:
    """Return effects without what a checkpoint does not hold: bodies of requests."""
    return [
        msgspec.structs.replace(effect, body=b"")
        if isinstance(effect, fx.Dispatch | fx.AskHelper)
        else effect
        for effect in effects
    ]


class TwinStand(Stand):
    """A stand whose core has a twin, thawed at some time, and a journal."""

    def __init__(self, folder: Path) -> None:
        super().__init__(LIMITS, weights={"heavy": 3.0})
        self.twin = thawed(self.core)
        self.journal = Journal(folder, Conf(segment_bytes=PAGE, keep=1000), self.core, "kernel")

    def ready(self, route: bytes = b"hrx", *args: Any, **fields: Any) -> list[fx.Effect]:
        """Let a worker offer itself whose engine keeps prompts, so that there are slots to freeze."""
        return super().ready(route, *args, **{"slots": 1, **fields})

    def send(self, event: ev.Event) -> list[fx.Effect]:
        """Hand one event to both and hold them to the same effects."""
        effects = super().send(event)
        assert without_body(self.twin.handle(event)) == without_body(effects)
        assert self.twin.next_deadline() == self.core.next_deadline()
        self.twin.check_invariants()
        self.journal.note(event, effects)
        self.journal.flush()
        self.journal.tend(self.now)
        return effects


class TwinMachine(ApplianceMachine):
    """The machine of `test_appliance_machine`, with a twin beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.room = tempfile.TemporaryDirectory(prefix="fl-")
        self.folder = Path(self.room.name)
        self.twins = TwinStand(self.folder)
        self.stand = self.twins

    @rule()
    def rest(self) -> None:
        """Freeze the core and let another twin go on from there."""
        self.twins.twin = thawed(self.stand.core)

    def teardown(self) -> None:
        """Replay the journal of the run."""
        try:
            core, twin, now = self.stand.core, self.twins.twin, self.stand.now
            # of the readings only what decides is kept, without the words that people read
            assert twin.snapshot(now) | {"senses": 0} == core.snapshot(now) | {"senses": 0}
            assert twin.models() == core.models()
            assert as_text(twin.freeze()) == as_text(core.freeze())
            self.twins.journal.close()
            after = as_text(core.freeze())
            for segment in segments(self.folder):  # from the last to the first
                report = replay(segment)
                assert report.difference is None
                assert report.torn_bytes == report.damaged_bytes == 0
                assert as_text(replayed(segment).core.freeze()) == after
                with Reader(segment) as reader:
                    after = as_text(reader.checkpoint)
        finally:
            self.room.cleanup()


def as_text(frozen: Checkpoint) -> bytes:
    """Return a state in one form: sets have no order of their own, and 1 is 1.0 once read back."""
    return msgspec.json.encode(_decode(_encode(frozen)), order="deterministic")


TestTwins = TwinMachine.TestCase
TestTwins.settings = settings(report_multiple_bugs=False)
