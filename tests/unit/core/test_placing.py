"""on_busy in the box: asked where a conversation is bound, and nowhere else."""

import msgspec
import pytest

from policies.row import OnBusy
from policies.why import Why
from scheduler.core import Appliance, Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.core.events import Reading
from support.stand import CLIENT, Peer, Stand, catalogue, of, one, row

RULE = OnBusy("npu", "P", allow_interactive=True)  # the stand decides for class code
HEAT = OnBusy(
    "npu",
    "P",
    queue_depth=None,
    tctl_c=95.0,
    tctl_clear_c=85.0,
    min_stay_s=0.0,
    allow_interactive=True,
)


def sense(stand: Stand, **values: float | None) -> list[fx.Effect]:
    """Let the sensors say these values; None: unknown."""
    readings = [
        Reading(
            name,
            value,
            "",
            "test",
            "",
            0.0,
            value is not None,
            "" if value is not None else "missing",
        )
        for name, value in values.items()
    ]
    return stand.send(ev.Sensed(stand.now, b"sensors", stand.epochs[b"sensors"], readings))


def stand_with(
    rule: OnBusy = RULE,
    *,
    uptime: float | None = 5000.0,
    npu: bool = True,
    limits: Limits | None = None,
) -> Stand:
    """Return a box whose class `code` runs on N and may start on the NPU's row P."""
    stand = Stand(limits)
    known = msgspec.structs.replace(catalogue(), on_busy={"code": rule})
    stand.core = Appliance(known, stand.limits, boot=1, at=stand.now)
    stand.worker()
    stand.scorer()
    stand.ready(b"sensors", "sensors", "", pid=5)
    if npu:
        stand.ready(b"npu", "npu", "npu0", pid=9)
        stand.beat(Peer(b"npu", stand.epochs[b"npu"]), P=0)
    sense(stand, uptime=uptime)
    return stand


def auto(stand: Stand, rid: str = "r", **fields: object) -> list[fx.Effect]:
    """Ask for `auto`, decided for class code, row N."""
    return stand.decided(stand.question(rid, lane="asker", **fields))


def place(effects: list[fx.Effect]) -> tuple[str, str, str]:
    placed = one(effects, fx.Place)
    return placed.model, placed.device, placed.why


def test_an_idle_gpu_keeps_its_conversations() -> None:
    assert place(auto(stand_with())) == ("N", "hrx", "")


def test_a_ticket_of_another_lane_sends_the_conversation_to_the_npu_and_it_says_why() -> None:
    stand = stand_with()
    stand.run("other", lane="other")
    effects = auto(stand)
    assert place(effects) == ("P", "npu", Why.GPU_BUSY)
    assert one(effects, fx.Dispatch).worker == b"npu"
    assert stand.core.snapshot(stand.now)["counts"]["moved_gpu_busy"] == 1  # type: ignore[index]  # a view


def test_a_ticket_of_the_same_lane_does_not() -> None:
    stand = stand_with()
    stand.run("mine", lane="asker")
    assert place(auto(stand)) == ("N", "hrx", "")


def test_a_hold_of_an_outside_lane_does() -> None:
    stand = stand_with()
    stand.held("h")
    assert place(auto(stand)) == ("P", "npu", Why.GPU_BUSY)


def test_the_end_of_the_answer_says_it_too() -> None:
    stand = stand_with()
    stand.run("other", lane="other")
    run = one(auto(stand), fx.Dispatch)
    ended = one(stand.finish(run), fx.Ended)
    assert (ended.model, ended.device, ended.why) == ("P", "npu", Why.GPU_BUSY)
    assert ended.instance == "npu0"


def test_who_held_no_seat_ends_on_no_instance() -> None:
    stand = stand_with()
    stand.run("other", lane="other")
    stand.ask("r", "N", lane="asker")
    ended = one(stand.cancel("r"), fx.Ended)
    assert (ended.device, ended.instance) == ("hrx", "")


@pytest.mark.parametrize(("uptime", "model"), [(59.0, "N"), (60.0, "P"), (None, "N")])
def test_in_the_first_minute_or_without_an_uptime_nothing_moves(
    uptime: float | None, model: str
) -> None:
    stand = stand_with(uptime=uptime)
    stand.run("other", lane="other")
    assert place(auto(stand))[0] == model


@pytest.mark.parametrize("name", ["suspended", "resets"])
@pytest.mark.parametrize(("since", "model"), [(0.0, "N"), (59.0, "N"), (60.0, "P"), (61.0, "P")])
def test_in_the_minute_after_a_resume_or_a_reset_nothing_moves(
    name: str, since: float, model: str
) -> None:
    stand = stand_with()
    sense(stand, uptime=5000.0, **{name: 0.0})
    stand.now += 1.0
    sense(stand, uptime=5000.0, **{name: 30.0})
    stand.now += since
    sense(stand, uptime=5000.0, **{name: 30.0})
    stand.run("other", lane="other")
    assert place(auto(stand))[0] == model
    suppressed = stand.core.snapshot(stand.now)["counts"].get("suppressed_warmup", 0)  # type: ignore[attr-defined]
    assert suppressed == (model == "N")


def test_a_resume_is_known_to_the_next_broker_of_the_same_machine_start() -> None:
    stand = stand_with()
    sense(stand, uptime=5000.0, suspended=30.0)
    stand.now += 50.0
    known = msgspec.structs.replace(catalogue(), on_busy={"code": RULE})
    stand.send(ev.Restarted(stand.now, 2, True, 0.0, known, stand.limits, {}))
    assert stand.core._box.climate.resumes.since_s(stand.now) == 50.0
    stand.send(ev.Restarted(stand.now, 3, False, 0.0, known, stand.limits, {}))
    assert stand.core._box.climate.resumes.since_s(stand.now) is None


def test_without_an_npu_nothing_moves_and_that_is_counted() -> None:
    stand = stand_with(npu=False)
    stand.run("other", lane="other")
    assert place(auto(stand)) == ("N", "hrx", "")
    assert stand.core.snapshot(stand.now)["counts"]["suppressed_npu_unavailable"] == 1  # type: ignore[index]


def test_a_turn_that_continues_keeps_the_device_and_repeats_why() -> None:
    stand = stand_with()
    other = stand.run("other", lane="other")
    stand.finish(one(auto(stand, "1", conversation="talk"), fx.Dispatch))
    stand.finish(other)
    effects = stand.ask("2", "auto", lane="asker", conversation="talk", starts=False)
    assert place(effects) == ("P", "npu", Why.GPU_BUSY)


def test_a_turn_that_continues_is_not_moved_by_a_gpu_that_has_become_busy() -> None:
    stand = stand_with()
    stand.finish(one(auto(stand, "1", conversation="talk"), fx.Dispatch))
    stand.run("other", lane="other")
    effects = stand.ask("2", "auto", lane="asker", conversation="talk", starts=False)
    assert place(effects) == ("N", "hrx", "")


def test_a_conversation_that_starts_again_is_placed_afresh() -> None:
    stand = stand_with()
    other = stand.run("other", lane="other")
    stand.finish(one(auto(stand, "1", conversation="talk"), fx.Dispatch))
    stand.finish(other)
    assert place(stand.ask("2", "auto", lane="asker", conversation="talk")) == ("N", "hrx", "")


# --- waiting first ------------------------------------------------------------------------------------


def waiting(stand: Stand) -> list[fx.Effect]:
    stand.run("other", lane="other")
    return auto(stand)


def test_with_wait_s_it_waits_in_the_queue_first_and_its_client_is_told_that_it_may_move() -> None:
    stand = stand_with(OnBusy("npu", "P", wait_s=5.0, allow_interactive=True))
    told = one(waiting(stand), fx.Place)
    assert (told.rule, told.device, told.why, told.is_open) == ("laya-code", "hrx", "", True)
    peers = [Peer(route, stand.epochs[route]) for route in (b"hrx", b"npu", b"scorer", b"sensors")]
    assert of(stand.wait(4.0, *peers), fx.Place) == []
    sense(stand, uptime=5000.0)
    effects = stand.wait(2.0, *peers)
    assert place(effects) == ("P", "npu", Why.GPU_BUSY)
    assert one(effects, fx.Place).is_open is False
    assert one(effects, fx.Dispatch).worker == b"npu"


def test_its_time_in_the_queue_is_told_from_the_first_one_on() -> None:
    stand = stand_with(OnBusy("npu", "P", wait_s=5.0, allow_interactive=True))
    waiting(stand)
    peers = [Peer(route, stand.epochs[route]) for route in (b"hrx", b"npu", b"scorer", b"sensors")]
    effects = stand.wait(4.5, *peers)
    sense(stand, uptime=5000.0)
    run = one([*effects, *stand.wait(1.5, *peers)], fx.Dispatch)
    assert one(stand.finish(run), fx.Answer).queue_ms == 5000.0


def test_a_grant_before_that_is_final() -> None:
    stand = stand_with(OnBusy("npu", "P", wait_s=5.0, allow_interactive=True))
    other = stand.run("other", lane="other")
    auto(stand)
    effects = stand.finish(other)
    assert place(effects) == ("N", "hrx", "")
    assert one(effects, fx.Place).is_open is False
    assert of(stand.wait(2.0), fx.Place) == []


def test_one_that_gives_up_meanwhile_is_not_judged() -> None:
    stand = stand_with(OnBusy("npu", "P", wait_s=5.0, allow_interactive=True))
    waiting(stand)
    stand.cancel("r")
    assert of(stand.wait(2.0), fx.Place) == []


# --- heat ---------------------------------------------------------------------------------------------


def test_two_hot_readings_move_and_one_below_the_clear_line_ends_it() -> None:
    stand = stand_with(HEAT)
    told = []
    for n, tctl in enumerate((70, 96, 96, 90, 84)):
        stand.now += 1.0
        sense(stand, uptime=5000.0, tctl=float(tctl))
        told.append(place(auto(stand, f"r{n}"))[2])
        stand.cancel(f"r{n}")
        for run in list(stand.core._box.tickets.values()):  # let go of what drains
            stand.send(
                ev.Finished(
                    stand.now, run.worker, stand.epochs[run.worker], run.number, run.lease, True,
                    None, None, 0, 0, 0, b"",
                )
            )  # fmt: skip
    assert told == ["", "", Why.GPU_HOT, Why.GPU_HOT, ""]


def test_an_unknown_temperature_is_neither_hot_nor_cool() -> None:
    stand = stand_with(HEAT)
    for _ in range(3):
        stand.now += 1.0
        sense(stand, uptime=5000.0, tctl=None)
    assert place(auto(stand)) == ("N", "hrx", "")
    assert stand.core.snapshot(stand.now)["counts"]["suppressed_sensor_unknown"] == 1  # type: ignore[index]


def test_above_the_stop_line_nothing_new_is_granted_until_it_has_cooled() -> None:
    stand = stand_with(limits=Limits(stop_tctl_c=100.0, resume_tctl_c=90.0))
    for tctl in (101.0, 101.0):
        stand.now += 1.0
        sense(stand, uptime=5000.0, tctl=tctl)
    assert of(stand.ask("r", stream=True), fx.Dispatch) == []
    peers = [Peer(route, stand.epochs[route]) for route in (b"hrx", b"npu", b"scorer", b"sensors")]
    assert {told.stage for told in of(stand.wait(1.5, *peers), fx.Tell)} == {"hot"}
    sense(stand, uptime=5000.0, tctl=95.0)
    stand.now += 1.0
    assert len(of(sense(stand, uptime=5000.0, tctl=89.0), fx.Dispatch)) == 1


def test_with_the_sensors_gone_nothing_is_held() -> None:
    stand = stand_with(limits=Limits(stop_tctl_c=100.0))
    for tctl in (101.0, 101.0, None):
        stand.now += 1.0
        sense(stand, uptime=5000.0, tctl=tctl)
    assert len(of(stand.ask("r"), fx.Dispatch)) == 1


# --- a lost NPU ---------------------------------------------------------------------------------------


def moved(stand: Stand, rid: str = "r") -> fx.Dispatch:
    """Let a conversation start on the NPU, and the GPU be free again."""
    other = stand.run(f"other {rid}", lane="other")
    run = one(auto(stand, rid, conversation=rid), fx.Dispatch)
    assert run.worker == b"npu"
    stand.finish(other)
    return run


def test_a_lost_npu_hands_its_request_to_the_gpu_once_and_says_so() -> None:
    stand = stand_with()
    moved(stand)
    effects = stand.ended(9)
    assert place(effects) == ("N", "hrx", Why.NPU_QUARANTINED)
    assert one(effects, fx.Dispatch).worker == b"hrx"
    stand.finish(one(effects, fx.Dispatch))
    again = stand.ask("2", "auto", lane="asker", conversation="r", starts=False)
    assert place(again) == ("N", "hrx", Why.NPU_QUARANTINED)


@pytest.mark.parametrize("fails", [False, True], ids=["crash", "error"])
def test_what_the_gpu_loses_too_is_not_run_a_third_time(*, fails: bool) -> None:
    stand = stand_with()
    run = moved(stand)
    effects = stand.fail(run, 500, "engine_failed") if fails else stand.ended(9)
    assert one(effects, fx.Dispatch).worker == b"hrx"
    over = stand.lose(b"hrx", "it crashed")
    assert (one(over, fx.Refuse).code, of(over, fx.Dispatch)) == ("worker_lost", [])


def test_what_waits_for_a_lost_npu_goes_to_the_gpu_with_it() -> None:
    stand = stand_with()
    other = stand.run("other", lane="other")
    first = one(auto(stand, "1", conversation="1"), fx.Dispatch)
    assert of(auto(stand, "2", conversation="2"), fx.Dispatch) == []
    explicit = stand.ask("3", "P", lane="asker")
    assert (first.worker, of(explicit, fx.Dispatch)) == (b"npu", [])
    effects = stand.ended(9)
    places = [(said.rid, said.device, said.why) for said in of(effects, fx.Place)]
    assert places == [("1", "hrx", Why.NPU_QUARANTINED), ("2", "hrx", Why.NPU_QUARANTINED)]
    runs = of([*effects, *stand.finish(other)], fx.Dispatch)
    runs += of(stand.finish(runs[-1]), fx.Dispatch)
    assert {run.worker for run in runs} == {b"hrx"}
    back = stand.ready(b"npu", "npu", "npu0", pid=10, nonce="second")
    assert one(back, fx.Dispatch).model == "P"  # an explicit name waits for its own device


def places(effects: list[fx.Effect]) -> list[tuple[str, str, str]]:
    return [(said.rid, said.device, said.why) for said in of(effects, fx.Place)]


BOTH = [("1", "hrx", Why.NPU_QUARANTINED), ("2", "hrx", Why.NPU_QUARANTINED)]


def test_an_npu_that_leaves_in_order_is_lost_to_what_runs_and_to_what_waits_there() -> None:
    stand = stand_with()
    stand.run("other", lane="other")
    auto(stand, "1", conversation="1")
    auto(stand, "2", conversation="2")
    explicit = stand.ask("3", "P", lane="asker")
    effects = stand.lose(b"npu")
    assert places(effects) == BOTH
    assert stand.core._box.quarantine.crashes == 0  # it left in order
    back = stand.ready(b"npu", "npu", "npu0", pid=10, nonce="second")
    assert of(explicit, fx.Dispatch) == []
    assert one(back, fx.Dispatch).model == "P"  # an explicit name waits for its own device


def test_an_npu_that_stops_is_lost_from_the_first_piece_of_work_it_hands_back() -> None:
    stand = stand_with()
    stand.run("other", lane="other")
    run = one(auto(stand, "1", conversation="1"), fx.Dispatch)
    auto(stand, "2", conversation="2")
    assert places(stand.finish(run, cancelled=True)) == BOTH
    assert stand.core._box.quarantine.crashes == 0
    assert places(stand.lose(b"npu")) == []  # once


def test_a_turn_that_comes_while_its_npu_stops_goes_to_the_gpu_too() -> None:
    stand = stand_with()
    stand.finish(moved(stand, "talk"))
    hold = one(stand.ask("explicit", "P", lane="asker"), fx.Dispatch)
    stand.finish(hold, cancelled=True)
    turn = stand.ask("2", "auto", lane="asker", conversation="talk", starts=False)
    assert place(turn) == ("N", "hrx", Why.NPU_QUARANTINED)


def test_an_engine_that_fails_on_the_npu_does_too() -> None:
    stand = stand_with()
    effects = stand.fail(moved(stand), status=500, code="engine_failed")
    assert place(effects) == ("N", "hrx", Why.NPU_QUARANTINED)


def test_what_the_engine_refuses_in_good_health_quarantines_nothing() -> None:
    stand = stand_with()
    effects = stand.fail(moved(stand), status=400, code="invalid_request")
    assert one(effects, fx.Refuse).client == CLIENT
    assert of(effects, fx.Place) == []


def test_a_door_that_the_npus_engine_lacks_is_asked_for_on_the_gpu_as_if_the_rule_had_known() -> (
    None
):
    stand = stand_with()
    stand.run("other", lane="other")
    run = one(auto(stand, op="responses", conversation="talk"), fx.Dispatch)
    effects = stand.fail(run, status=501, code="not_implemented")
    assert place(effects) == ("N", "hrx", "")
    assert not of(effects, fx.Refuse)
    counts = stand.core.snapshot(stand.now)["counts"]
    assert counts["suppressed_capability"] == 1  # type: ignore[index]  # a view
    assert "npu_lost" not in counts  # type: ignore[operator]  # a view
    turn = stand.ask("2", "auto", lane="asker", op="responses", conversation="talk", starts=False)
    assert place(turn) == ("N", "hrx", "")


def test_the_rule_learns_which_doors_the_npus_engine_lacks_until_another_worker_comes() -> None:
    stand = stand_with()
    stand.run("other", lane="other")
    stand.fail(one(auto(stand, op="responses"), fx.Dispatch), status=501, code="not_implemented")
    assert place(auto(stand, "2", op="responses")) == ("N", "hrx", "")
    run = one(auto(stand, "3"), fx.Dispatch)  # chat is another door
    assert (run.model, run.worker) == ("P", b"npu")
    stand.finish(run)
    stand.lose(b"npu")
    stand.ready(b"npu", "npu", "npu0", pid=10, nonce="second")
    stand.beat(Peer(b"npu", stand.epochs[b"npu"]), P=0)
    assert place(auto(stand, "4", op="responses")) == ("P", "npu", Why.GPU_BUSY)


def test_a_turn_at_a_door_that_the_npu_lacks_moves_alone() -> None:
    stand = stand_with()
    stand.run("other", lane="other")
    stand.finish(one(auto(stand, conversation="talk"), fx.Dispatch))
    turn = stand.ask(
        "2", "auto", lane="asker", op="count_tokens", conversation="talk", starts=False
    )
    effects = stand.fail(one(turn, fx.Dispatch), status=501, code="not_implemented")
    assert place(effects) == ("N", "hrx", "")
    again = stand.ask(
        "3", "auto", lane="asker", op="count_tokens", conversation="talk", starts=False
    )
    assert place(again) == ("N", "hrx", "")
    chat = stand.ask("4", "auto", lane="asker", conversation="talk", starts=False)
    assert place(chat) == ("P", "npu", Why.GPU_BUSY)


def test_a_probe_that_the_engine_refuses_in_good_health_bars_nobody() -> None:
    stand = stand_with()
    stand.finish(one(stand.fail(moved(stand), status=500, code="engine_failed"), fx.Dispatch))
    stand.wait(600.0, *(Peer(r, e) for r, e in stand.epochs.items()))
    sense(stand, uptime=6000.0)
    stand.run("holder", lane="other")
    probe = one(auto(stand, "probe"), fx.Dispatch)
    assert probe.worker == b"npu"
    stand.fail(probe, status=400, code="invalid_request")
    assert one(auto(stand, "next"), fx.Dispatch).worker == b"npu"


def test_after_a_crash_the_next_conversations_stay_until_the_quarantine_is_over() -> None:
    stand = stand_with()
    moved(stand)
    stand.finish(one(stand.ended(9), fx.Dispatch))
    stand.ready(b"npu", "npu", "npu0", pid=10, nonce="second")
    stand.beat(Peer(b"npu", stand.epochs[b"npu"]), P=0)
    stand.run("other", lane="other")
    assert place(auto(stand, "next")) == ("N", "hrx", "")
    assert stand.core.snapshot(stand.now)["counts"]["suppressed_npu_quarantined"] == 1  # type: ignore[index]


def test_a_worker_that_left_in_order_is_no_crash() -> None:
    stand = stand_with()
    stand.lose(b"npu")
    stand.ready(b"npu", "npu", "npu0", pid=10, nonce="second")
    stand.beat(Peer(b"npu", stand.epochs[b"npu"]), P=0)
    stand.run("other", lane="other")
    assert place(auto(stand)) == ("P", "npu", Why.GPU_BUSY)


def test_an_explicit_name_is_never_moved() -> None:
    stand = stand_with()
    stand.run("other", lane="other")
    assert of(stand.ask("r", "N", lane="asker"), fx.Place) == []


def test_rows_are_those_of_the_catalogue() -> None:
    assert row("P", "npu").device == "npu"


def test_a_heat_hold_ends_when_the_sensors_fall_silent() -> None:
    stand = stand_with(limits=Limits(stop_tctl_c=100.0))
    for _ in range(2):
        stand.now += 1.0
        sense(stand, uptime=5000.0, tctl=101.0)
    assert of(stand.ask("r"), fx.Dispatch) == []
    peers = [Peer(route, stand.epochs[route]) for route in (b"hrx", b"npu", b"scorer")]
    assert len(of(stand.wait(8.0, *peers), fx.Dispatch)) == 1


def test_a_prompt_longer_than_the_npu_rows_context_stays() -> None:
    stand = stand_with()
    stand.run("other", lane="other")
    assert place(auto(stand, prompt_bytes=4 * 5000))[0] == "N"
    assert stand.core.snapshot(stand.now)["counts"]["suppressed_capability"] == 1  # type: ignore[index]


@pytest.mark.parametrize(("state", "model"), [("ready", "P"), ("missing", "N"), ("mismatch", "N")])
def test_only_a_row_that_is_on_disk_and_checked_is_moved_to_and_none_is_pulled_for_it(
    state: str, model: str
) -> None:
    stand = stand_with()
    stand.stocked(stand.store(), P=state)
    stand.run("other", lane="other")
    effects = auto(stand)
    assert place(effects)[0] == model
    assert not of(effects, fx.Fetch)


def test_a_conversation_whose_npu_row_is_gone_goes_on_on_the_gpu() -> None:
    stand = stand_with()
    store = stand.store()
    stand.run("other", lane="other")
    stand.finish(one(auto(stand, "first", conversation="k"), fx.Dispatch))
    stand.stocked(store, P="missing")
    effects = stand.ask("next", "auto", lane="asker", conversation="k", starts=False)
    assert place(effects) == ("N", "hrx", Why.NPU_QUARANTINED)
    assert not of(effects, fx.Fetch)


def test_on_busy_is_asked_again_from_the_place_in_the_queue_and_not_while_files_come() -> None:
    stand = stand_with(OnBusy("npu", "P", wait_s=10.0, allow_interactive=True))
    store = stand.store()
    stand.stocked(store, N="missing")
    stand.run("other", lane="other", max_tokens=3000)
    assert of(auto(stand), fx.Fetch)
    peers = [Peer(route, epoch) for route, epoch in stand.epochs.items()]

    def waited(seconds: float) -> list[str]:
        effects = stand.wait(seconds, *peers)
        sense(stand, uptime=5000.0)
        return [placed.model for placed in of(effects, fx.Place)]

    assert waited(20.0) == []
    stand.pulled(store, "N")
    assert waited(9.0) == []
    assert waited(2.0) == ["P"]
