"""The canary in the box: sent once a rule wants it, beside a held GPU, and in nobody's way."""

import json

import msgspec
import pytest

from policies.row import OnBusy
from policies.why import Why
from scheduler.core import Appliance, Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.core.limits import Npu
from support.stand import Peer, Stand, catalogue, of, one

RULE = OnBusy("npu", "P", allow_interactive=True)  # the stand decides for class code
ON_DEMAND = Npu(canary="on_demand", canary_s=30.0)
VERSIONS = {"kernel": "6.19.4", "npu_firmware": "1.0.0.63", "npu_driver": "0.7"}
STAYS = ("N", "hrx", "")
MOVES = ("P", "npu", Why.GPU_BUSY)


def box(
    npu: Npu = ON_DEMAND,
    *,
    limits: Limits | None = None,
    seats: int = 1,
    memory: int | None = None,
) -> Stand:
    """Return a box whose class `code` may start on the NPU's row P, once the canary has passed."""
    stand = Stand(limits)
    known = msgspec.structs.replace(catalogue(), on_busy={"code": RULE})
    stand.core = Appliance(known, stand.limits, boot=1, at=stand.now, memory=memory, npu=npu)
    stand.worker()
    stand.scorer()
    stand.sensors(b"sensors", pid=5)
    join(stand, seats=seats)
    sense(stand)
    return stand


def join(stand: Stand, pid: int = 9, *, seats: int = 1, version: str = "1") -> Peer:
    """Let a worker of the NPU offer itself that has row P on disk."""
    stand.send(
        ev.WorkerReady(
            stand.now, b"npu", f"npu-{pid}", "npu", "npu0", pid, 1.0, f"npu {pid}", seats, "test",
            version=version,
        )
    )  # fmt: skip
    peer = Peer(b"npu", stand.epochs[b"npu"])
    stand.beat(peer, P=0)
    return peer


def sense(stand: Stand, **values: str) -> list[fx.Effect]:
    sensors = Peer(b"sensors", stand.epochs[b"sensors"])
    return stand.sense(sensors, uptime=5000.0, **(VERSIONS | values))


def busy(stand: Stand, rid: str = "other") -> fx.Dispatch:
    """Let another lane hold the GPU."""
    return one(
        [d for d in of(stand.ask(rid, lane="other"), fx.Dispatch) if d.worker == b"hrx"],
        fx.Dispatch,
    )


def auto(stand: Stand, rid: str, **fields: object) -> list[fx.Effect]:
    """Start a conversation of class code, row N."""
    return stand.decided(stand.question(rid, lane="asker", **fields))


def place(effects: list[fx.Effect]) -> tuple[str, str, str]:
    placed = one(effects, fx.Place)
    return placed.model, placed.device, placed.why


def canary_of(effects: list[fx.Effect]) -> fx.Dispatch:
    return one([d for d in of(effects, fx.Dispatch) if d.worker == b"npu"], fx.Dispatch)


def sent(stand: Stand) -> fx.Dispatch:
    """Make a canary wanted and sent; the GPU stays busy."""
    busy(stand)
    return canary_of(auto(stand, "first"))


def counts(stand: Stand) -> dict[str, int]:
    shown: dict[str, int] = stand.core.snapshot(stand.now)["counts"]  # type: ignore[assignment]
    return shown


def next_place(stand: Stand, rid: str = "next") -> tuple[str, str, str]:
    return place(auto(stand, rid))


def alive(stand: Stand) -> list[Peer]:
    return [Peer(r, stand.epochs[r]) for r in (b"hrx", b"npu", b"scorer", b"sensors")]


# --- its way ------------------------------------------------------------------------------------------


def test_the_first_conversation_stays_and_the_next_moves_once_tokens_have_come() -> None:
    stand = box()
    busy(stand)
    effects = auto(stand, "first")
    assert place(effects) == STAYS
    assert counts(stand)["suppressed_npu_canary"] == 1
    run = canary_of(effects)
    asked = json.loads(run.body)
    assert (run.op, run.model, run.stream, asked["max_tokens"]) == ("chat", "P", False, 8)
    effects = stand.finish(run)
    told = one(effects, fx.Record)
    assert (told.action, told.fields["passed"]) == ("npu_canary", True)
    assert {k: told.fields[k] for k in ("kernel", "firmware", "driver", "engine")} == {
        "kernel": "6.19.4", "firmware": "1.0.0.63", "driver": "0.7", "engine": "test 1",
    }  # fmt: skip
    assert next_place(stand) == MOVES
    shown = counts(stand)
    assert (shown["canaries"], shown["canaries_passed"]) == (1, 1)


def test_nobody_is_told_of_it_nobody_is_charged_and_it_is_no_request() -> None:
    stand = box()
    run = sent(stand)
    assert of(stand.stage(run), fx.Tell) == []
    assert of(stand.produce(run), fx.Relay) == []
    assert stand.core.queue(stand.now)["devices"]["npu0"]["holders"][0]["lane"] == "(canary)"  # type: ignore[index]
    assert "(canary)" not in stand.core.queue(stand.now)["lanes"]  # type: ignore[operator]
    stand.now += 2.0
    effects = stand.finish(run)
    assert (of(effects, fx.Answer), of(effects, fx.Ended)) == ([], [])
    assert "(canary)" not in stand.core.queue(stand.now)["lanes"]  # type: ignore[operator]
    assert stand.core._box.devices["npu"].queue.served_s() == {}
    assert "answered" not in counts(stand)


@pytest.mark.parametrize("npu", [Npu(), Npu(canary="off")])
def test_it_is_off_unless_asked_for(npu: Npu) -> None:
    stand = box(npu)
    busy(stand)
    assert place(auto(stand, "r")) == MOVES


def test_without_a_rule_that_would_move_none_is_sent() -> None:
    stand = box()
    assert place(auto(stand, "mine")) == STAYS  # the GPU was idle, and is this lane's now
    busy_beside = stand.ask("2", "M", lane="asker")
    assert of(busy_beside, fx.Dispatch) == []
    assert "canaries" not in counts(stand)


# --- what it says -------------------------------------------------------------------------------------


def test_without_a_token_it_has_failed() -> None:
    stand = box()
    stand.finish(sent(stand), tokens=(7, 0, 0))
    assert next_place(stand) == STAYS
    assert counts(stand)["suppressed_npu_quarantined"] == 1


def test_an_error_quarantines_the_npu_as_a_crash_does() -> None:
    stand = box()
    told = one(stand.fail(sent(stand), status=500, code="engine_failed"), fx.Record)
    assert (told.fields["passed"], told.fields["cause"]) == (False, "engine_failed")
    assert next_place(stand) == STAYS
    shown = counts(stand)
    assert (shown["canaries_failed"], shown["suppressed_npu_quarantined"]) == (1, 1)


def test_a_worker_that_dies_of_it_has_failed_it() -> None:
    stand = box()
    sent(stand)
    stand.ended(9)
    join(stand, 10)
    assert next_place(stand) == STAYS
    shown = counts(stand)
    assert (shown["canaries_failed"], shown["suppressed_npu_quarantined"]) == (1, 1)
    assert stand.core._box.quarantine.crashes == 1


def test_when_the_quarantine_lets_somebody_try_it_is_the_canary() -> None:
    stand = box()
    stand.fail(sent(stand), status=500)
    stand.wait(601.0, *alive(stand))
    sense(stand)
    effects = auto(stand, "later")
    assert place(effects) == STAYS
    stand.fail(canary_of(effects), status=500)
    assert stand.core._box.quarantine.pause_s == 1200.0
    stand.wait(1201.0, *alive(stand))
    sense(stand)
    stand.finish(canary_of(auto(stand, "even later")))
    assert next_place(stand) == MOVES


def test_an_npu_that_is_idle_for_want_of_a_held_gpu_proves_nothing() -> None:
    stand = box()
    other = busy(stand)
    run = canary_of(auto(stand, "first"))
    mine = one(stand.finish(other), fx.Dispatch)
    stand.finish(mine)
    told = one(stand.finish(run), fx.Record)
    assert (told.fields["passed"], told.fields["cause"]) == (None, "the GPU was let go")
    again = [d for d in of(stand.ask("gpu", lane="other"), fx.Dispatch) if d.worker == b"npu"]
    stand.finish(again[0])  # sent again with the next ticket on the GPU, whoever's it is
    assert next_place(stand) == MOVES


def test_one_without_an_end_has_failed_and_its_worker_is_ended() -> None:
    stand = box()
    run = sent(stand)
    effects = stand.wait(31.0, *alive(stand))
    assert one(effects, fx.Halt).lease == run.lease
    assert one(effects, fx.Record).fields["cause"] == "no end in time"
    assert one(stand.wait(5.0, *alive(stand)), fx.Kill).pid == 9
    assert of(stand.wait(30.0, *alive(stand)), fx.Kill) == []
    stand.ended(9)
    assert stand.core._box.quarantine.crashes == 1
    assert counts(stand)["canaries_failed"] == 1


def test_a_late_end_changes_nothing_of_that() -> None:
    stand = box()
    run = sent(stand)
    stand.wait(31.0, *alive(stand))
    stand.finish(run)
    assert counts(stand)["canaries_failed"] == 1
    assert "canaries_passed" not in counts(stand)
    assert stand.core._box.proving.ticket == 0


@pytest.mark.parametrize("name", ["kernel", "npu_firmware", "npu_driver", "engine"])
def test_another_version_of_anything_is_asked_again(name: str) -> None:
    stand = box()
    stand.finish(sent(stand))
    if name == "engine":
        stand.lose(b"npu")
        join(stand, 10, version="2")
    else:
        sense(stand, **{name: "new"})
    effects = auto(stand, "again")
    assert place(effects) == STAYS
    canary_of(effects)


def test_versions_that_nobody_can_read_are_versions_too() -> None:
    stand = box()
    sensors = Peer(b"sensors", stand.epochs[b"sensors"])
    stand.sense(sensors, uptime=5000.0)
    stand.finish(sent(stand))
    assert next_place(stand) == MOVES


# --- in nobody's way ----------------------------------------------------------------------------------


def test_a_request_for_its_seat_ends_it_and_it_is_sent_again_later() -> None:
    stand = box()
    run = sent(stand)
    effects = stand.ask("real", "P", lane="asker")
    assert one(effects, fx.Halt).lease == run.lease
    real = one(stand.finish(run, cancelled=True), fx.Dispatch)
    assert real.model == "P"
    again = one(stand.finish(real), fx.Dispatch)
    assert again.lease > run.lease
    stand.finish(again)
    assert next_place(stand) == MOVES
    assert counts(stand)["canaries_broken_off"] == 1


def test_a_free_seat_beside_it_is_taken_at_once() -> None:
    stand = box(seats=2)
    sent(stand)
    effects = stand.ask("real", "P", lane="asker")
    assert one(effects, fx.Dispatch).model == "P"
    assert of(effects, fx.Halt) == []


def test_a_program_that_wants_the_npu_ends_it() -> None:
    stand = box()
    run = sent(stand)
    assert one(stand.hold("h", device="npu0"), fx.Halt).lease == run.lease
    assert one(stand.finish(run, cancelled=True), fx.Grant).rid == "h"


def test_one_that_does_not_make_way_in_time_has_failed() -> None:
    stand = box()
    sent(stand)
    stand.ask("real", "P", lane="asker")
    effects = stand.wait(6.0, *alive(stand))
    assert one(effects, fx.Kill).pid == 9
    assert counts(stand)["canaries_failed"] == 1


def test_a_worker_that_leaves_says_nothing_of_it() -> None:
    stand = box()
    sent(stand)
    stand.lose(b"npu")
    assert counts(stand)["canaries_broken_off"] == 1
    assert stand.core._box.quarantine.crashes == 0


def test_none_is_sent_beside_work_of_the_npu() -> None:
    stand = box()
    real = one(stand.ask("real", "P", lane="asker"), fx.Dispatch)
    busy(stand)
    assert of(auto(stand, "first"), fx.Dispatch) == []
    assert canary_of(stand.finish(real)).lease


def waits_for(stand: Stand) -> object:
    return stand.core.snapshot(stand.now)["npu"]["canary_waits_for"]  # type: ignore[index]  # a view


def test_the_status_says_what_it_waits_for() -> None:
    stand = box()
    told = [waits_for(stand)]  # nobody wants it yet
    real = one(stand.ask("real", "P", lane="asker"), fx.Dispatch)
    run = busy(stand)
    auto(stand, "first")
    told.append(waits_for(stand))
    stand.cancel("first")
    stand.finish(run)
    stand.finish(real)
    told.append(waits_for(stand))
    busy(stand, "more")
    told.append(waits_for(stand))  # it runs
    stand.ended(9)
    told.append(waits_for(stand))
    assert told == [None, "npu", "gpu", None, None]


@pytest.mark.parametrize(
    ("bytes_", "ends_as"), [(60, "memory"), (40, None)], ids=["too large", "fits"]
)
def test_it_takes_no_other_devices_memory_and_says_that_it_waits_for_it(
    bytes_: int, ends_as: str | None
) -> None:
    """Row N lies idle on the GPU beside M, which runs: a request would have had its room, a proof has not."""
    stand = box(memory=100)
    stand.beat(Peer(b"hrx", stand.epochs[b"hrx"]), N=30, M=30)
    stand.beat(Peer(b"npu", stand.epochs[b"npu"]), P=bytes_)
    stand.finish(one(stand.ask("n", "N", lane="other"), fx.Dispatch))
    busy(stand)
    ran = [run for run in of(auto(stand, "first"), fx.Dispatch) if run.worker == b"npu"]
    assert (waits_for(stand), len(ran)) == (ends_as, 0 if ends_as else 1)


def test_a_full_queue_is_not_fuller_for_it() -> None:
    stand = box(limits=Limits(queue_total=1, queue_per_lane=1))
    sent(stand)
    assert stand.core._box.waiting_total == 1  # the conversation that stayed
    stand.cancel("first")
    assert of(stand.ask("more", lane="asker"), fx.Refuse) == []


# --- kept ---------------------------------------------------------------------------------------------


def restart(stand: Stand, **fields: object) -> None:
    known = msgspec.structs.replace(catalogue(), on_busy={"code": RULE})
    stand.send(
        ev.Restarted(
            stand.now, stand.core.boot + 1, True, 0.0, known, stand.limits, {}, npu=ON_DEMAND
        )
    )
    stand.worker()
    stand.scorer()
    stand.sensors(b"sensors", pid=5)
    join(stand)
    sense(stand)


def test_its_answer_outlives_the_broker() -> None:
    stand = box()
    stand.finish(sent(stand))
    restart(stand)
    busy(stand)
    assert next_place(stand) == MOVES


def test_one_in_hand_is_dropped_with_the_broker_and_sent_by_the_next() -> None:
    stand = box()
    sent(stand)
    restart(stand)
    busy(stand)
    effects = auto(stand, "again")
    assert place(effects) == STAYS
    canary_of(effects)


def test_a_checkpoint_taken_while_it_runs_goes_on_with_it() -> None:
    stand = box()
    run = sent(stand)
    frozen = msgspec.msgpack.encode(stand.core.freeze())
    kind = type(stand.core.freeze())
    stand.core = Appliance.restored(msgspec.msgpack.decode(frozen, type=kind))
    stand.finish(run)
    assert next_place(stand) == MOVES
