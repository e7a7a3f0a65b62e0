"""At the door: names, abilities, bounds, and requests that are sent twice."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from support.stand import CLIENT, ROUTER, Stand, kinds, of, one, row


def test_an_unknown_name_is_404_in_lemonades_shape() -> None:
    refused = one(Stand().ask(name="nope"), fx.Refuse)
    assert (refused.status, refused.code) == (404, "model_not_found")
    assert refused.facts == {"param": "model", "requested_model": "nope"}
    assert refused.message.startswith("Model 'nope' was not found. Available models include: 'M',")
    assert "and 4 more" in refused.message


def test_an_explicit_row_goes_to_its_device_without_a_decision() -> None:
    stand = Stand()
    stand.worker()
    assert kinds(stand.ask(name="M")) == ["Dispatch"]


def test_an_alias_of_a_row_means_that_row() -> None:
    stand = Stand()
    stand.worker()
    assert stand.run(name="em").model == "M"


@pytest.mark.parametrize("name", ["auto", ROUTER])
def test_a_collection_and_its_alias_are_decided(name: str) -> None:
    stand = Stand()
    stand.scorer()
    assert kinds(stand.ask(name=name)) == ["AskHelper"]


def test_a_name_is_taken_as_it_is_spelled() -> None:
    assert one(Stand().ask(name="m"), fx.Refuse).code == "model_not_found"


@pytest.mark.parametrize(
    ("need", "missing"),
    [("tools", "tools"), ("images", "images"), ("json_schema", "response_format")],
)
def test_an_explicit_row_that_lacks_an_ability_is_400_naming_it(need: str, missing: str) -> None:
    refused = one(Stand().ask(name="plain", **{need: True}), fx.Refuse)  # type: ignore[arg-type]  # a flag
    assert (refused.status, refused.code) == (400, "unsupported_by_model")
    assert refused.facts == {"missing": missing}


def test_all_that_is_missing_is_named_at_once() -> None:
    refused = one(Stand().ask(name="plain", tools=True, images=True), fx.Refuse)
    assert refused.facts == {"missing": "tools, images"}


def test_an_expired_request_is_not_accepted() -> None:
    stand = Stand()
    assert kinds(stand.ask(expires_in=0.0)) == ["Refuse"]
    assert one(stand.ask(expires_in=-1.0), fx.Refuse).status == 504


def test_a_request_in_hand_that_is_sent_again_is_acknowledged_and_not_run_twice() -> None:
    stand = Stand()
    stand.worker()
    stand.run("r")
    assert stand.ask("r") == [fx.Acknowledge(CLIENT, "r")]


def test_two_clients_may_use_one_request_id() -> None:
    stand = Stand()
    stand.worker(seats=2)
    stand.run("r")
    assert one(stand.ask("r", client=b"other"), fx.Dispatch).ticket == 2


def test_an_id_may_be_used_again_after_its_request_ended() -> None:
    stand = Stand()
    stand.worker()
    stand.finish(stand.run("r"))
    assert kinds(stand.ask("r")) == ["Dispatch"]


def full_lane(stand: Stand, lane: str = "lane", name: str = "M") -> None:
    """Let a lane wait with as many tickets as it may."""
    for n in range(stand.limits.queue_per_lane):
        assert of(stand.ask(f"{lane}{n}", name, lane=lane), fx.Refuse) == []


def test_a_lane_past_its_bound_is_429_and_others_are_not() -> None:
    stand = Stand(Limits(queue_total=10, queue_per_lane=3))
    full_lane(stand)
    refused = one(stand.ask("more"), fx.Refuse)
    assert (refused.status, refused.code) == (429, "queue_full")
    assert "lane 'lane' has 3" in refused.message
    assert of(stand.ask("other", lane="other"), fx.Refuse) == []


def test_the_box_past_its_bound_is_429_for_every_lane() -> None:
    stand = Stand(Limits(queue_total=4, queue_per_lane=2))
    full_lane(stand, "a")
    full_lane(stand, "b")
    refused = one(stand.ask("more", lane="c"), fx.Refuse)
    assert refused.status == 429
    assert "the box has 4" in refused.message


def test_the_bound_holds_while_the_model_is_loaded() -> None:
    stand = Stand(Limits(queue_total=3, queue_per_lane=1))
    stand.worker()
    stand.run("running")
    full_lane(stand)
    assert one(stand.ask("more"), fx.Refuse).status == 429


def test_what_runs_is_not_counted_as_waiting() -> None:
    stand = Stand(Limits(queue_total=2, queue_per_lane=1))
    stand.worker(seats=3)
    assert [kinds(stand.ask(f"r{n}")) for n in range(3)] == [["Dispatch"]] * 3


def test_what_is_being_decided_is_counted_as_waiting() -> None:
    stand = Stand(Limits(queue_total=5, queue_per_lane=2))
    stand.scorer()
    full_lane(stand, name="auto")
    assert one(stand.ask("more", "auto"), fx.Refuse).status == 429


@pytest.mark.parametrize("way", ["cancel", "grant", "expire"])
def test_a_place_is_free_again_when_a_ticket_leaves_the_queue(way: str) -> None:
    stand = Stand(Limits(queue_total=1, queue_per_lane=1))
    stand.ask("first", expires_in=5.0)
    assert one(stand.ask("more"), fx.Refuse).status == 429
    if way == "cancel":
        stand.cancel("first")
    elif way == "grant":
        stand.worker()
    else:
        stand.wait(6.0)
    assert of(stand.ask("again"), fx.Refuse) == []


def test_retry_after_is_the_measured_time_until_a_place_is_free() -> None:
    stand = Stand(Limits(queue_total=1, queue_per_lane=1))
    stand.worker()
    run = stand.run("first")
    stand.now += 12.0
    stand.finish(run)
    stand.run("second")
    stand.ask("waits")
    refused = one(stand.ask("more"), fx.Refuse)
    assert refused.retry_after_s == pytest.approx(12.0)
    assert refused.facts["estimated_wait_s"] == pytest.approx(12.0)


def test_retry_after_is_never_above_a_minute_and_the_body_tells_the_truth() -> None:
    stand = Stand(Limits(queue_total=1, queue_per_lane=1))
    worker = stand.worker()
    run = stand.run("first")
    stand.wait(300.0, worker)
    stand.finish(run)
    stand.run("second")
    stand.ask("waits")
    refused = one(stand.ask("more"), fx.Refuse)
    assert refused.retry_after_s == 60.0
    assert refused.facts["estimated_wait_s"] == pytest.approx(300.0)


def test_retry_after_is_at_least_a_second() -> None:
    stand = Stand(Limits(queue_total=1, queue_per_lane=1))
    stand.worker()
    stand.finish(stand.run("first"))
    stand.run("second")
    stand.ask("waits")
    assert one(stand.ask("more"), fx.Refuse).retry_after_s == 1.0


def test_retry_after_is_whole_seconds_rounded_up_and_the_body_repeats_it() -> None:
    stand = Stand(Limits(queue_total=1, queue_per_lane=1))
    worker = stand.worker()
    run = stand.run("first")
    stand.wait(7.25, worker)
    stand.finish(run)
    stand.run("second")
    stand.ask("waits")
    refused = one(stand.ask("more"), fx.Refuse)
    assert (refused.retry_after_s, refused.facts["retry_after_s"]) == (8, 8)
    assert refused.facts["estimated_wait_s"] == pytest.approx(7.25)


@pytest.mark.parametrize("has_worker", [True, False])
def test_before_anything_ended_retry_after_is_the_first_guess_and_not_zero(
    *, has_worker: bool
) -> None:
    stand = Stand(Limits(queue_total=1, queue_per_lane=1))
    if has_worker:
        stand.worker()
        stand.run("first", max_tokens=153)  # 5 s of loading, 10 s of decoding
    stand.ask("waits", max_tokens=153)
    refused = one(stand.ask("more"), fx.Refuse)
    assert refused.facts["estimated_wait_s"] == pytest.approx(15.0)


def test_a_refusal_says_which_bound_was_hit_and_how_full_it_is() -> None:
    stand = Stand(Limits(queue_total=3, queue_per_lane=2))
    full_lane(stand, "a")
    of_lane = one(stand.ask("more", lane="a"), fx.Refuse).facts
    assert (of_lane["bound"], of_lane["limit"], of_lane["waiting_of_lane"]) == ("lane", 2, 2)
    stand.ask("b", lane="b")
    in_all = one(stand.ask("more", lane="b"), fx.Refuse).facts
    assert (in_all["bound"], in_all["limit"], in_all["waiting_total"]) == ("total", 3, 3)
    assert (in_all["lane"], in_all["waiting_of_lane"]) == ("b", 1)


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize(
    "limits", [Limits(queue_per_lane=1), Limits(queue_total=1, queue_per_lane=1)]
)
def test_of_six_at_once_one_runs_one_waits_and_four_are_429(
    limits: Limits, *, is_warm: bool
) -> None:
    stand = Stand(limits)
    worker = stand.worker()
    if is_warm:
        stand.finish(stand.run("before"))
        stand.beat(worker, ["M"])
    effects = [stand.ask(f"r{n}") for n in range(6)]
    assert [kinds(e) for e in effects] == [["Dispatch"], [], *[["Refuse"]] * 4]
    for refused in effects[2:]:
        assert one(refused, fx.Refuse).status == 429
        assert one(refused, fx.Refuse).retry_after_s


def test_lanes_beyond_the_last_flow_share_the_default_one() -> None:
    stand = Stand(Limits(lanes=2, queue_total=10, queue_per_lane=2))
    stand.ask("a", lane="first")
    stand.ask("b", lane="second")
    stand.ask("c", lane="third")
    stand.ask("d", lane="fourth")
    refused = one(stand.ask("e", lane="fifth"), fx.Refuse)
    assert "lane 'default' has 2" in refused.message
    assert of(stand.ask("f", lane="first"), fx.Refuse) == []


def test_a_new_lane_name_for_every_request_buys_nothing() -> None:
    stand = Stand(Limits(lanes=4, queue_total=20, queue_per_lane=5))
    for n in range(4):
        stand.ask(f"own{n}", lane=f"lane{n}")
    refused = [of(stand.ask(f"r{n}", lane=f"new{n}"), fx.Refuse) for n in range(12)]
    assert sum(map(len, refused)) == 12 - 5


def test_the_sixty_fifth_lane_is_the_first_without_a_flow_of_its_own() -> None:
    stand = Stand()
    stand.worker(seats=200)
    for n in range(65):
        stand.run(f"r{n}", lane=f"lane{n}")
    served = stand.core.snapshot(stand.now)["devices"]["hrx0"]["served_s"]  # type: ignore[index]  # a view
    assert len(served) == 65
    assert "default" in served
    assert "lane64" not in served


def test_a_lane_of_the_settings_keeps_its_flow_however_late_it_comes() -> None:
    stand = Stand(Limits(lanes=1, queue_total=10, queue_per_lane=1), weights={"mine": 2.0})
    stand.ask("a", lane="x")
    assert one(stand.ask("b", lane="y"), fx.Refuse).status == 429
    assert of(stand.ask("c", lane="mine"), fx.Refuse) == []


def test_a_refusal_at_the_door_leaves_nothing_behind() -> None:
    stand = Stand()
    stand.ask("r", name="nope")
    assert stand.cancel("r") == []
    assert stand.wait(1.0) == []


def test_an_embedding_row_serves_embeddings_only() -> None:
    stand = Stand(rows=[row("M"), row("E", type="embedding")])
    stand.worker(seats=2)
    refused = one(stand.ask("a", "E"), fx.Refuse)
    assert (refused.status, refused.facts) == (400, {"param": "model", "model_type": "embedding"})
    assert one(stand.ask("b", "M", op="embed"), fx.Refuse).code == "unsupported_by_model"
    assert kinds(stand.ask("c", "E", op="embed")) == ["Dispatch"]


def test_embeddings_of_a_collection_are_not_found() -> None:
    assert one(Stand().ask(name="auto", op="embed"), fx.Refuse).code == "model_not_found"


@pytest.mark.parametrize("op", ["pull", "embed", "rerank", "tokenize"])
def test_a_router_is_no_model_and_is_not_listed_as_one(op: str) -> None:
    stand = Stand()
    refused = one(stand.ask("r", "auto", op=op), fx.Refuse)
    assert (refused.status, refused.code) == (404, "model_not_found")
    assert "'auto' routes to models and is none itself" in refused.message
    assert "'M'" in refused.message
    assert "was not found" not in refused.message
