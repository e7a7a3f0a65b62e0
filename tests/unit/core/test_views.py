"""What can be seen of a box: stories, status, models, counts."""

from typing import Any

from scheduler.core import Limits
from support.stand import ROUTER, Stand


def status(stand: Stand) -> Any:
    """Return the status view."""
    return stand.core.snapshot(stand.now)


def whats(stand: Stand, rid: str = "r") -> list[str]:
    """Return what a story says, without times and details."""
    return [what for _, what, _ in stand.core.story(rid) or []]


def test_the_status_names_what_decides_now() -> None:
    stand = Stand()
    scorer = stand.scorer()
    seen = [status(stand)["scorers"][0]["backend"]]
    for told in ("builtin (instead of another)", "", "test"):
        stand.beat(scorer, backend=told)
        seen.append(status(stand)["scorers"][0]["backend"])
    other = "builtin (instead of another)"
    assert seen == ["test", other, other, "test"]


def test_a_story_tells_a_requests_whole_way() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    asked = stand.question(stream=True)
    stand.decided(asked)
    run = stand.core.story("r")
    assert run is not None
    assert whats(stand) == ["asked", "placed", "queued", "running"]


def test_a_story_is_kept_after_the_end() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run(stream=True)
    stand.stage(run, "load")
    stand.produce(run)
    stand.finish(run)
    assert whats(stand) == ["asked", "queued", "running", "load", "first token", "ended"]


def test_a_story_tells_of_a_lost_worker() -> None:
    stand = Stand()
    stand.worker()
    stand.run()
    stand.lose(b"hrx")
    story = stand.core.story("r")
    assert story is not None
    assert story[-1] == (stand.now, "queued", "hrx-1 was lost")


def test_a_story_tells_why_a_request_was_refused_at_the_door() -> None:
    stand = Stand()
    stand.ask(name="nope")
    assert whats(stand) == ["asked", "refused"]


def test_an_unknown_request_has_no_story() -> None:
    assert Stand().core.story("nope") is None


def test_stories_are_bounded_and_the_oldest_gives_way() -> None:
    stand = Stand(Limits(stories=3))
    stand.worker()
    for n in range(5):
        stand.finish(stand.run(f"r{n}"))
    assert [stand.core.story(f"r{n}") is None for n in range(5)] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_flood_of_refusals_hides_no_story() -> None:
    stand = Stand(Limits(stories=3))
    stand.worker()
    stand.finish(stand.run("r"))
    for n in range(10):
        stand.ask(f"no{n}", name="nope")
    assert whats(stand)[-1] == "ended"
    assert stand.core.story("no0") is None


def test_a_talkative_worker_cannot_make_a_story_endless() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    for _ in range(1000):
        stand.stage(run)
    assert len(whats(stand)) < 100
    stand.finish(run)
    assert whats(stand)[-1] == "ended"


def test_the_status_of_an_empty_box() -> None:
    view = status(Stand(boot=7))
    assert (view["boot"], view["ready"], view["deciding"], view["conversations"]) == (
        7,
        False,
        0,
        0,
    )
    assert view["devices"]["hrx0"]["worker"] is None
    assert view["counts"] == {}


def test_a_box_is_ready_with_a_scorer_and_a_worker_for_every_device() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    assert not status(stand)["ready"]
    stand.ready(b"npu", "npu", "npu0", pid=3)
    assert status(stand)["ready"]


def test_the_status_shows_who_holds_and_how_many_wait() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run("a", lane="one")
    stand.ask("b")
    stand.ask("c", "N")
    stand.wait(2.5, worker)
    device = status(stand)["devices"]["hrx0"]
    assert device["holders"] == [{"lane": "one", "request": "a", "held_s": 2.5}]
    assert (device["waiting"], device["loaded"], device["worker"]["held"]) == (2, "M", 1)


def test_a_peeked_ticket_still_waits() -> None:
    stand = Stand()
    stand.worker(seats=2)
    stand.run("a")
    stand.ask("b", "N")
    assert status(stand)["devices"]["hrx0"]["waiting"] == 1


def test_the_status_shows_busy_seconds_not_above_the_wall_clock() -> None:
    stand = Stand()
    worker = stand.worker(seats=2)
    first, second = stand.run("a"), stand.run("b")
    stand.wait(3.0, worker)
    stand.finish(first)
    stand.finish(second)
    stand.wait(3.0, worker)
    assert status(stand)["devices"]["hrx0"]["busy_s"] == 3.0


def test_outcomes_are_counted() -> None:
    stand = Stand()
    stand.worker()
    stand.finish(stand.run("a"))
    stand.fail(stand.run("b"))
    stand.ask("c", name="nope")
    run = stand.run("d")
    stand.finish(run, lease=1)
    counts = status(stand)["counts"]
    assert counts["answered"] == 1
    assert counts["refused_broken"] == 1
    assert counts["refused_model_not_found"] == 1
    assert counts["fenced"] == 1


def test_the_models_view_says_what_is_loaded_and_on_what() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M"])
    models: Any = stand.core.models()
    rows = {row["id"]: row for row in models["rows"]}
    assert (rows["M"]["loaded"], rows["M"]["backend"], rows["N"]["loaded"]) == (True, "test", False)
    assert (rows["P"]["device"], rows["P"]["backend"]) == ("npu", None)
    assert models["collections"] == [{"id": ROUTER, "default_model": "M"}]
    assert models["aliases"] == {"auto": ROUTER, "em": "M"}


def test_the_views_say_what_is_on_disk_and_what_is_on_its_way() -> None:
    stand = Stand()
    stand.worker()
    store = stand.store()
    stand.stocked(store, why="not here", M="ready", N="missing")
    stand.ask("r", "N")
    stand.moved(store, "N", 5, 10)
    models: Any = stand.core.models()
    rows = {row["id"]: (row["on_disk"], row["disk_reason"], row["bytes"]) for row in models["rows"]}
    assert rows["M"] == ("ready", "not here", 7)
    assert rows["N"] == ("missing", "not here", 7)
    assert rows["P"] == (None, "", None)
    assert (models["classes"], models["default_model"]) == ({"code": "N"}, "M")
    view = status(stand)
    assert view["not_on_disk"] == {"N": {"state": "missing", "reason": "not here"}}
    (pull,) = view["pulls"]
    assert (pull["model"], pull["done_bytes"], pull["total_bytes"]) == ("N", 5, 10)
    assert (pull["asked"], pull["waiting"]) == (True, 1)


def test_a_view_changes_nothing() -> None:
    stand = Stand()
    stand.worker()
    stand.run()
    before = status(stand)
    stand.core.models()
    assert status(stand) == before
