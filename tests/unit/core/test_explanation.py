"""Why a request waited and where it landed."""

from typing import Any

import pytest

from scheduler.core import Limits
from scheduler.core.holds import Holds
from support.stand import Stand


def told(stand: Stand, rid: str = "r") -> Any:
    """Return the explanation."""
    return stand.core.explain(rid, stand.now)


def passages(stand: Stand, what: str, rid: str = "r") -> list[Any]:
    """Return the passages of one kind."""
    return [passage for passage in told(stand, rid)["passages"] if passage["what"] == what]


def test_a_request_that_ran_at_once_waited_for_nobody() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    run = stand.run(lane="mine")
    stand.wait(2.0, worker)
    stand.finish(run)
    seen = told(stand)
    assert (seen["known"], seen["lane"], seen["name"]) == (True, "mine", "M")
    assert (seen["outcome"], seen["took_s"]) == ("answered", 2.0)
    (waited,), (ran,) = passages(stand, "waited"), passages(stand, "ran")
    assert (waited["for_s"], waited["held_by"], waited["ran_before"]) == (0.0, [], {})
    assert (ran["device"], ran["model"], ran["for_s"]) == ("hrx0", "M", 2.0)


def waited_behind_others() -> Stand:
    """Return a box in which `r` waited for a holder and for two tickets of other lanes."""
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    run = stand.run("holder", "N", lane="one")
    stand.wait(4.0, worker)
    stand.ask("b", lane="two")
    stand.ask("c", lane="three")
    stand.wait(1.0, worker)
    stand.ask("r", lane="mine")
    for _ in range(3):
        stand.wait(10.0, worker)
        run = next(e for e in stand.finish(run) if type(e).__name__ == "Dispatch")  # type: ignore[assignment]  # a test's shorthand
    stand.wait(1.0, worker)
    stand.finish(run)
    return stand


def test_it_names_who_held_the_device_and_who_ran_before_also_after_the_end() -> None:
    (waited,) = passages(waited_behind_others(), "waited")
    assert (waited["device"], waited["model"], waited["for_s"]) == ("hrx0", "M", 30.0)
    assert waited["held_by"] == [
        {
            "lane": "one", "request": "holder", "model": "N", "held_s": 5.0, "still_s": 10.0,
            "load_s": None,
        }
    ]  # fmt: skip
    assert waited["ran_before"] == {"three": 1, "two": 1}
    assert waited["complete"]


def test_a_request_that_waits_is_told_its_place() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    stand.run("holder", max_tokens=1530)
    stand.ask("b", lane="two", max_tokens=153)
    stand.ask("r", lane="mine")
    stand.wait(30.0, worker)
    seen = told(stand)
    (waited,) = passages(stand, "waited")
    assert seen["outcome"] is None
    assert waited["held_by"][0]["still_s"] == 30.0
    assert (waited["position"], waited["ahead"], waited["eta_s"]) == (2, {"two": 1}, 80.0)


def test_a_request_on_a_device_without_a_worker_says_so() -> None:
    stand = Stand()
    stand.ask("r")
    (waited,) = passages(stand, "waited")
    assert (waited["device"], waited["has_worker"], waited["eta_s"]) == ("hrx0", False, None)


def test_a_request_that_runs_is_told_how_long_already() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    run = stand.run(stream=True)
    stand.stage(run, "load")
    stand.wait(2.0, worker)
    stand.stage(run, "prefill")
    stand.wait(1.0, worker)
    stand.produce(run)
    stand.wait(1.0, worker)
    (ran,) = passages(stand, "ran")
    assert (ran["for_s"], ran["load_after_s"]) == (4.0, 0.0)
    assert (ran["prefill_after_s"], ran["first_token_after_s"]) == (2.0, 3.0)


def test_a_load_is_told_of_whoever_caused_it() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run("holder")
    stand.ask("r")
    stand.produce(run)
    stand.core._box.tickets[run.ticket].load_s = 3.5  # as a worker's first piece would say
    stand.now += 5.0
    stand.finish(run)
    assert passages(stand, "waited")[0]["held_by"][0]["load_s"] == 3.5
    assert passages(stand, "ran", "holder")[0]["load_s"] == 3.5


def test_who_went_past_it_to_save_a_reload_is_told() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run("holder", "N", max_tokens=1)
    stand.ask("r", "M", lane="mine")
    stand.ask("other", "N", lane="other", max_tokens=1)
    stand.now += 1.0
    stand.finish(run)
    stand.now += 1.0
    (waited,) = passages(stand, "waited")
    assert waited["passed_over_by"] == {"other": 1}
    assert (waited["ran_before"], waited["position"]) == ({}, 1)


def test_a_conversation_that_a_slot_was_kept_for_is_told() -> None:
    stand = Stand()
    stand.worker(slots=1)
    turn = stand.run("turn", lane="thinker", conversation="talk", prompt_bytes=4000, starts=False)
    stand.now += 2.0
    stand.finish(turn, tokens=(1000, 0, 1), ttft_s=2.0)
    stand.ask("r")
    stand.now += 1.0
    assert passages(stand, "waited")[0]["kept_waiting_for"] == {"thinker": 1}


def test_a_lost_worker_and_the_second_run_are_told() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    stand.run()
    stand.wait(1.0, worker)
    stand.lose(b"hrx")
    stand.now += 2.0
    stand.worker(route=b"new", pid=9)
    assert [p["what"] for p in told(stand)["passages"]] == [
        "waited",
        "ran",
        "requeued",
        "waited",
        "ran",
    ]
    (requeued,), (_, again) = passages(stand, "requeued"), passages(stand, "waited")
    assert requeued["detail"] == "hrx-1 was lost"
    assert (again["for_s"], again["held_by"]) == (2.0, [])


def test_a_stand_in_is_told_with_its_cause() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    stand.ready(b"npu", "npu", "npu0", pid=3)
    asked = stand.question()
    (run,) = (e for e in stand.decided(asked) if type(e).__name__ == "Dispatch")
    stand.fail(run, code="model_not_usable", cause="template_mismatch")  # type: ignore[arg-type]  # a dispatch
    assert passages(stand, "placed")[0]["detail"] == "laya-code"
    assert passages(stand, "stand-in")[0]["detail"] == "template_mismatch"
    assert [p["device"] for p in passages(stand, "ran")] == ["hrx0", "npu0"]


def test_a_cancelled_and_an_expired_request_are_told() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    stand.run("holder")
    stand.ask("gone")
    stand.ask("late", expires_in=5.0)
    stand.cancel("gone")
    stand.wait(6.0, worker)
    assert told(stand, "gone")["outcome"] == "cancelled"
    assert told(stand, "late")["outcome"] == "deadline_exceeded"
    assert passages(stand, "waited", "late")[0]["for_s"] == pytest.approx(5.0, abs=1.0)
    assert "position" not in passages(stand, "waited", "late")[0]


def test_a_refused_request_is_told_with_its_lane() -> None:
    stand = Stand()
    stand.ask("r", "nope", lane="mine")
    seen = told(stand)
    assert (seen["lane"], seen["outcome"]) == ("mine", "refused")
    assert "was not found" in passages(stand, "refused")[0]["detail"]


def test_an_unknown_request_is_told_how_far_back_anything_is_known() -> None:
    stand = Stand(Limits(stories=2))
    stand.worker()
    stand.now += 10.0
    assert told(stand) == {"request": "r", "known": False, "kept": 2, "reaches_back_s": 10.0}
    for n in range(3):
        stand.finish(stand.run(f"r{n}"))
        stand.now += 5.0
    assert told(stand, "r0")["reaches_back_s"] == 10.0


def test_holds_are_bounded_and_say_when_they_do_not_reach_back() -> None:
    holds = Holds(2)
    for n in range(3):
        holds.keep(("hrx0", f"r{n}", "lane", "M", float(n), n + 1.0, None))
    assert [h.request for h in holds.on("hrx0", 0.0, 9.0)] == ["r1", "r2"]
    assert [h.request for h in holds.on("hrx0", 2.5, 9.0)] == ["r2"]
    assert list(holds.on("npu0", 0.0, 9.0)) == []
    assert (holds.reach_back_to(2.0), holds.reach_back_to(1.5)) == (True, False)


def test_an_explanation_changes_nothing() -> None:
    stand = waited_behind_others()
    assert told(stand) == told(stand)
