"""The heat hold: nothing new starts on a hot iGPU, and whoever waits for it is told so."""

from typing import Any

import pytest

from ops.sentences import sentences
from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.core.forecast import starts
from scheduler.core.limits import Npu
from scheduler.core.spells import KEEP, Spells
from support.stand import Peer, Stand, of

LIMITS = Limits(stop_tctl_c=80.0, resume_tctl_c=70.0)


class Hot(Stand):
    """A box with an iGPU and sensors."""

    def __init__(self, *, slots: int = 0) -> None:
        super().__init__(LIMITS)
        self.hrx, self.eyes = self.worker(slots=slots), self.sensors()

    def feel(self, tctl_c: float, seconds: int = 2) -> list[fx.Effect]:
        """Let the time pass with one reading a second."""
        effects: list[fx.Effect] = []
        for _ in range(seconds):
            effects += self.wait(1.0, self.hrx, self.eyes)
            effects += self.sense(self.eyes, tctl=tctl_c)
        return effects

    def waited(self, rid: str = "r") -> dict[str, Any]:
        told: dict[str, Any] = self.core.explain(rid, self.now)
        return next(one for one in told["passages"] if one["what"] == "waited")

    def said(self, rid: str = "r") -> str:
        return "\n".join(sentences(self.core.explain(rid, self.now)))


def test_one_that_waits_for_a_hot_device_is_told_so_and_for_how_long() -> None:
    stand = Hot()
    stand.feel(95.0)
    stand.ask("r")
    assert "kept hrx0 from starting anything for 0 ms of it so far" in stand.said()
    stand.feel(95.0, 5)
    told = stand.waited()
    assert (told["for_s"], told["hot_s"], told["is_hot"], told["eta_s"]) == (5.0, 5.0, True, None)
    assert (told["stop_c"], told["resume_c"]) == (80.0, 70.0)
    assert "The heat hold, from 80 °C on until below 70 °C, kept hrx0 from" in stand.said()
    assert "from starting anything for 5.0 s of it so far." in stand.said()
    assert "position 1 now; how soon hrx0 cools nobody knows." in stand.said()


def test_the_heat_of_the_time_is_told_after_the_end_as_well() -> None:
    stand = Hot()
    stand.feel(95.0)
    stand.ask("r")
    stand.feel(95.0, 5)
    (run,) = of(stand.feel(60.0, 1), fx.Dispatch)
    stand.wait(3.0, stand.hrx, stand.eyes)
    stand.finish(run)
    stand.feel(95.0, 4)  # another spell, which it has nothing to do with
    assert stand.waited()["hot_s"] == pytest.approx(6.0)
    assert "from starting anything for 6.0 s of it." in stand.said()


def test_heat_that_came_while_it_waited_for_others_is_told_by_its_part() -> None:
    stand = Hot()
    run = stand.run("holder")
    stand.ask("r")
    stand.feel(60.0, 4)
    stand.feel(95.0, 3)
    stand.finish(run)
    told = stand.waited()
    assert (told["for_s"], told["hot_s"]) == (7.0, 1.0)  # two readings make heat


def test_without_heat_nothing_is_said_of_it() -> None:
    stand = Hot()
    stand.run("holder")
    stand.ask("r")
    stand.feel(60.0)
    assert stand.waited()["hot_s"] == 0.0
    assert "heat" not in stand.said()


def test_nobody_is_promised_a_start_while_it_is_hot() -> None:
    stand = Hot()
    stand.feel(95.0)
    stand.ask("r", stream=True)
    device = stand.core._box.devices["hrx"]
    assert [eta for _, eta in starts(stand.core._box, device, stand.now)] == [None]
    told = of(stand.feel(95.0), fx.Tell)
    assert {(one.stage, one.eta_s) for one in told} == {("hot", None)}


def test_a_conversation_that_comes_back_to_its_slot_waits_for_the_heat_as_well() -> None:
    stand = Hot(slots=1)
    stand.feel(79.0)
    turn = stand.run("turn", lane="one", conversation="talk", prompt_bytes=40_000, starts=False)
    stand.feel(95.0, 1)
    stand.wait(1.0, stand.hrx, stand.eyes)
    stand.finish(turn, tokens=(10_000, 0, 1), ttft_s=2.0)
    stand.ask("other", lane="two")  # is kept waiting for the conversation's next turn
    assert stand.core._box.devices["hrx"].is_thinking
    stand.sense(stand.eyes, tctl=95.0)
    assert of(stand.ask("next", lane="one", conversation="talk", starts=False), fx.Dispatch) == []


def test_a_slot_is_kept_by_no_worker_that_leaves() -> None:
    stand = Stand()
    worker = stand.worker(slots=1)
    turn = stand.run("turn", lane="one", conversation="talk", prompt_bytes=40_000, starts=False)
    stand.now += 2.0
    stand.finish(turn, tokens=(10_000, 0, 1), ttft_s=2.0)
    stand.ask("other", lane="two")
    stand.core._box.roster.by_route[worker.route].leaving_at = stand.now
    assert of(stand.ask("next", lane="one", conversation="talk", starts=False), fx.Dispatch) == []


def test_a_restarted_broker_holds_from_its_first_instant() -> None:
    stand = Hot()
    stand.feel(95.0)
    stand.ask("before")
    stand.now += 1.0
    box = stand.core._box
    stand.send(
        ev.Restarted(
            at=stand.now, boot=2, same_kernel=True, shift_s=0.0, catalogue=box.catalogue,
            limits=LIMITS, weights={}, memory=None, npu=Npu(),
        )
    )  # fmt: skip
    again = Peer(b"again", 0)
    stand.ready(again.route, pid=8)
    assert of(stand.ask("r"), fx.Dispatch) == []
    assert stand.waited("before")["hot_s"] == pytest.approx(1.0)


def test_spells_are_bounded_and_go_on_by_another_clock() -> None:
    spells = Spells()
    for n in range(2 * KEEP):
        spells.turn(float(2 * n), on=True)
        spells.turn(float(2 * n), on=True)
        spells.turn(2 * n + 1.0, on=False)
    assert len(spells.past) == KEEP
    spells.turn(500.0, on=True)
    assert spells.within_s(499.0, 510.0) == 10.0
    again = Spells()
    again.inherit(spells, 1510.0, 1000.0)
    assert again.since is None
    assert again.within_s(1490.0, 1600.0) == 10.0
