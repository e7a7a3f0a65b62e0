"""Which rows stay loaded: one budget of memory for all devices of a box."""

import pytest

from ops.sentences import sentences
from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core.forecast import starts
from scheduler.core.residency import Residency, Terms
from support.stand import Peer, Stand, kinds, of, one, row

SLOW, QUICK = 20.0, 1.0  # seconds a load
AT = 1000.0


def box(**rows: tuple[int, float]) -> Residency:
    """Return a box of 100 bytes with rows on hrx0 loaded: name -> bytes and when it was used last."""
    made = Residency(100, lambda model: SLOW if model.startswith("slow") else QUICK)
    for name, (size, used_at) in rows.items():
        made.sizes["hrx0", name] = size
        made.enter("hrx0", name, used_at, pinned=False, ttl_s=None)
        made.leave("hrx0", name, used_at)
    return made


def evicts(made: Residency, size: int) -> list[str] | None:
    made.sizes["hrx0", "new"] = size
    victims = made.evicts("hrx0", "new", AT)
    return None if victims is None else [name for _, name in victims]


def test_what_fits_evicts_nobody() -> None:
    assert evicts(box(a=(50, 0.0)), 50) == []


def test_there_is_no_limit_on_the_number_of_rows() -> None:
    many = {f"r{n}": (1, float(n)) for n in range(90)}
    assert evicts(box(**many), 10) == []


def test_the_row_idle_for_longest_leaves_first() -> None:
    assert evicts(box(a=(50, 10.0), b=(50, 5.0)), 40) == ["b"]


def test_a_row_that_is_slow_to_load_stays_longer() -> None:
    assert evicts(box(slow=(50, 10.0), quick=(50, 900.0)), 40) == ["quick"]


def test_as_many_leave_as_must() -> None:
    assert evicts(box(a=(30, 1.0), b=(30, 2.0), c=(30, 3.0)), 60) == ["a", "b"]


def test_a_busy_or_loading_row_is_never_evicted() -> None:
    made = box(a=(90, 0.0))
    made.enter("hrx0", "a", AT, pinned=False, ttl_s=None)
    assert evicts(made, 50) is None
    made.leave("hrx0", "a", AT)
    assert evicts(made, 50) == ["a"]


def test_a_pinned_row_is_never_evicted() -> None:
    made = Residency(100, lambda _: QUICK)
    made.sizes["hrx0", "p"] = 80
    made.enter("hrx0", "p", 0.0, pinned=True, ttl_s=None)
    made.leave("hrx0", "p", 0.0)
    assert evicts(made, 30) is None
    assert made.never_fits("hrx0", "new")


def test_memory_is_taken_from_the_grant_on_so_two_loads_never_count_on_the_same() -> None:
    made = box()
    made.sizes |= {("hrx0", "a"): 60, ("npu0", "b"): 60}
    made.enter("hrx0", "a", AT, pinned=False, ttl_s=None)
    assert made.evicts("npu0", "b", AT) is None


def test_rows_of_another_device_are_told_to_leave_and_waited_for() -> None:
    made = box(a=(60, 0.0))
    made.sizes["npu0", "b"] = 60
    assert not made.clear_for("npu0", "b", AT)
    assert made.leaving == [("hrx0", "a")]
    assert not made.clear_for("npu0", "b", AT)
    assert made.leaving == [("hrx0", "a")]  # told once
    assert not made.confirm("hrx0", ["a"], {}, AT)  # a heartbeat that crossed it
    assert made.confirm("hrx0", [], {}, AT)
    assert made.clear_for("npu0", "b", AT)


def test_a_heartbeat_that_crossed_an_eviction_brings_nothing_back() -> None:
    made = box(a=(60, 0.0))
    made.sizes["hrx0", "b"] = 60
    assert made.enter("hrx0", "b", AT, pinned=False, ttl_s=None) == ["a"]
    made.confirm("hrx0", ["a"], {}, AT)
    assert not made.has("hrx0", "a")
    made.confirm("hrx0", ["b"], {}, AT)
    made.confirm("hrx0", ["a", "b"], {}, AT)  # and a row that is really there counts
    assert made.has("hrx0", "a")


def test_what_was_loaded_before_the_brokers_restart_counts() -> None:
    made = box()
    made.confirm("hrx0", ["a"], {"a": 70}, AT)
    assert made.used() == 70


def test_a_row_of_unknown_size_is_not_counted() -> None:
    made = box()
    made.enter("hrx0", "url", AT, pinned=False, ttl_s=None)
    assert made.used() == 0
    assert evicts(made, 100) == []


# --- in the box ---------------------------------------------------------------------------------------


def stand_with(ttl_s: float | None = None, *, pinned: bool = False) -> tuple[Stand, Peer]:
    rows = (row("M", ttl_s=ttl_s, pinned=pinned), row("N"), row("P", "npu"))
    stand = Stand(Limits(collate_s=0.0), memory=100, rows=rows)
    peer = stand.worker()
    stand.beat(peer, M=60, N=60)
    return stand, peer


def test_a_grant_says_what_must_leave_before_it_is_loaded() -> None:
    stand, _ = stand_with()
    stand.finish(stand.run("a", "M"))
    assert stand.run("b", "N").evict == ["M"]


def test_rows_that_fit_together_are_both_kept() -> None:
    stand, peer = stand_with()
    stand.beat(peer, M=50, N=50)
    for rid, name in (("a", "M"), ("b", "N"), ("c", "M")):
        run = stand.run(rid, name)
        assert run.evict == []
        stand.finish(run)


def test_a_row_that_never_fits_is_refused_at_once_with_the_reason() -> None:
    stand, peer = stand_with()
    stand.beat(peer, M=101)
    refusal = one(stand.ask("r", "M"), fx.Refuse)
    assert (refusal.status, refusal.code) == (503, "model_not_usable")
    assert "memory" in refusal.message


def test_a_row_unused_for_its_time_is_let_go() -> None:
    stand, peer = stand_with(ttl_s=30.0)
    stand.finish(stand.run("a", "M"))
    assert of(stand.wait(29.0, peer), fx.Unload) == []
    assert one(stand.wait(2.0, peer), fx.Unload) == fx.Unload(b"hrx", "M")
    assert of(stand.wait(60.0, peer), fx.Unload) == []


def idle_box(**fields: object) -> tuple[Stand, Peer]:
    """A box whose rows leave after 30 s unless they say otherwise."""
    rows = (row("M", **fields), row("N"), row("P", "npu"))  # type: ignore[arg-type]  # a test's shorthand
    stand = Stand(Limits(idle_unload_s=30.0), memory=100, rows=rows)
    peer = stand.worker()
    stand.beat(peer, M=40, N=40)
    return stand, peer


def test_the_settings_say_when_a_row_is_let_go_that_names_no_time_itself() -> None:
    stand, peer = idle_box()
    stand.finish(stand.run("a", "M"))
    assert of(stand.wait(29.0, peer), fx.Unload) == []
    assert one(stand.wait(2.0, peer), fx.Unload) == fx.Unload(b"hrx", "M")


def test_a_rows_own_time_counts_and_a_pinned_row_stays() -> None:
    stand, peer = idle_box(ttl_s=90.0)
    stand.finish(stand.run("a", "M"))
    assert of(stand.wait(80.0, peer), fx.Unload) == []
    assert of(stand.wait(20.0, peer), fx.Unload) != []
    stand, peer = idle_box(pinned=True)
    stand.finish(stand.run("a", "M"))
    assert of(stand.wait(100.0, peer), fx.Unload) == []


def test_a_row_that_was_loaded_before_the_brokers_restart_is_let_go_in_its_time_too() -> None:
    made = box()
    made.confirm("hrx0", ["a", "p"], {"a": 10, "p": 10}, AT, lambda m: Terms(m == "p", 30.0))
    made.expire(AT + 31.0)
    assert made.leaving == [("hrx0", "a")]


def test_a_row_of_an_engine_that_keeps_its_own_house_is_not_told_to_leave() -> None:
    made = box()
    made.enter("hrx0", "url", AT, pinned=False, ttl_s=1.0)
    made.leave("hrx0", "url", AT)
    made.expire(AT + 99.0)  # it would never be gone, and nobody could use it
    assert made.leaving == []
    assert made.has("hrx0", "url")


def test_a_row_in_use_is_not_let_go_however_old() -> None:
    stand, peer = stand_with(ttl_s=30.0)
    stand.run("a", "M")
    assert of(stand.wait(100.0, peer), fx.Unload) == []


def test_another_devices_row_leaves_before_ours_is_loaded() -> None:
    stand, peer = stand_with()
    stand.ready(b"npu", "npu", "npu0", pid=9)
    npu = Peer(b"npu", stand.epochs[b"npu"])
    stand.beat(npu, P=60)
    stand.finish(stand.run("a", "M"))
    effects = stand.ask("p", "P")
    assert kinds(effects) == ["Unload"]
    assert one(stand.beat(peer), fx.Dispatch).model == "P"


def test_an_outside_lane_gets_its_memory_before_it_begins() -> None:
    stand, peer = stand_with()
    stand.finish(stand.run("a", "M"))
    effects = stand.hold("h", memory_bytes=50)
    assert kinds(effects) == ["Unload"]
    assert len(of(stand.beat(peer), fx.Grant)) == 1
    assert stand.core.snapshot(stand.now)["memory"]["used_bytes"] == 50  # type: ignore[index]  # a view


def test_an_outside_lane_that_asks_for_more_than_there_can_be_is_refused_at_once() -> None:
    stand, _ = stand_with()
    refusal = one(stand.hold("h", memory_bytes=101), fx.Refuse)
    assert (refusal.status, refusal.code, refusal.facts["retryable"]) == (
        400,
        "memory_exceeded",
        False,
    )
    assert "memory.budget_gib" in refusal.message
    assert len(of(stand.ask("a", "M"), fx.Dispatch)) == 1


def test_a_head_that_waits_for_memory_in_vain_keeps_nobody_waiting() -> None:
    stand, peer = stand_with(pinned=True)
    stand.beat(peer, M=50, N=40)
    run = stand.run("a", "M")
    assert stand.hold("h", memory_bytes=50) == []
    stand.ask("b", "N")
    stand.wait(1.0, peer)
    stand.beat(peer, M=60)  # it took more than it had said, and it is pinned
    effects = stand.finish(run)
    assert one(effects, fx.Refuse).code == "memory_exceeded"
    assert one(effects, fx.Dispatch).model == "N"


def test_nobody_is_promised_a_start_behind_a_head_that_waits_for_memory() -> None:
    stand, peer = stand_with()
    stand.beat(peer, M=60)
    stand.ready(b"npu", "npu", "npu0", pid=9)
    stand.finish(stand.run("a", "M"))
    stand.hold("h", memory_bytes=50)
    device = stand.core._box.devices["hrx"]
    assert [eta for _, eta in starts(stand.core._box, device, stand.now)] == [None]
    assert "waits until enough memory is free" in "\n".join(
        sentences(stand.core.explain("h", stand.now))
    )


def test_a_lost_worker_leaves_no_memory_taken() -> None:
    stand, _ = stand_with()
    stand.finish(stand.run("a", "M"))
    stand.lose(b"hrx")
    assert stand.core.snapshot(stand.now)["memory"]["used_bytes"] == 0  # type: ignore[index]


@pytest.mark.parametrize("code", ["model_not_usable", "broken"])
def test_a_load_that_failed_is_forgotten_with_the_next_heartbeat(code: str) -> None:
    stand, peer = stand_with()
    for again in of(stand.fail(stand.run("a", "M"), code=code), fx.Dispatch):
        stand.fail(again, code=code)
    stand.resident[b"hrx"] = []
    stand.beat(peer)
    assert stand.core.snapshot(stand.now)["memory"]["used_bytes"] == 0  # type: ignore[index]
