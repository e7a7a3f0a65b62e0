"""What `/metrics` shows of the core: each metric moves, labels are bounded, unknown is no zero."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from policies.row import OnBusy
from scheduler.core import Appliance, Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.gateway.metrics.labels import AGES, IDLE_REASONS, OUTCOMES, PHASES, STATES, WINDOWS
from scheduler.gateway.metrics.table import TABLE
from support.stand import Peer, Stand, catalogue, of, one

Samples = dict[str, dict[tuple[str, ...], Any]]  # a number, or a histogram's counts and sum
Scenario = Callable[[], Iterator[Stand]]
GIB = 2**30


def seen(stand: Stand) -> Samples:
    """Return what is shown now, by metric and label values."""
    shown = stand.core.metrics(stand.now)
    found: Samples = {}
    for metric in TABLE:
        if metric.alias_of or metric.key not in shown:
            continue
        width = len(metric.labels)
        rows = shown[metric.key]
        assert all(len(line) == width + 1 + bool(metric.buckets) for line in rows), metric.name
        keyed = {tuple(map(str, line[:width])): line[width:] for line in rows}
        assert len(keyed) == len(rows), f"{metric.name} shows a series twice"
        found[metric.key] = {
            labels: figure if metric.buckets else figure[0] for labels, figure in keyed.items()
        }
    return found


def boxed(limits: Limits | None = None, *, memory: int | None = None, seats: int = 1) -> Stand:
    """Return a box with all kinds of workers, whose class `code` runs on N and may start on P."""
    stand = Stand(limits, memory=memory)
    rule = OnBusy("npu", "P", allow_interactive=True)
    known = msgspec.structs.replace(catalogue(), on_busy={"code": rule}, classes={"code": "N"})
    stand.core = Appliance(known, stand.limits, boot=1, at=stand.now, memory=memory)
    stand.worker(seats=seats, slots=1)
    stand.ready(b"npu", "npu", "npu0", pid=9)
    stand.beat(Peer(b"npu", stand.epochs[b"npu"]), P=0)
    stand.scorer()
    stand.sense(stand.sensors(), uptime=5000.0)
    return stand


def sensors(stand: Stand) -> Peer:
    return Peer(b"sensors", stand.epochs[b"sensors"])


# --- scenarios: what is before `yield` prepares, what is after it moves the metric ------------------------


def an_answer() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    stand.now += 0.5
    run = stand.run(lane="red", prompt_bytes=500)
    stand.now += 2.0
    stand.finish(run, load_s=1.0, ttft_s=1.5)
    again = stand.run("s", lane="red", starts=False, conversation="conversation of r")
    stand.now += 1.0
    stand.finish(again, ttft_s=0.5, tokens=(9, 0, 5))


def a_holder() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    stand.run(lane="red", stream=True)
    stand.now += 3.0
    stand.ask("w", lane="blue")
    stand.now += 1.0


def a_routed_one() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    asked = stand.question()
    stand.now += 0.01
    stand.decided(asked)


def a_question() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    stand.question()


def a_lost_scorer() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    stand.lose(b"scorer")


def a_full_gpu() -> Iterator[Stand]:
    """An answer that the busy GPU sends to the NPU, where how long the GPU takes was learned before."""
    stand = boxed()
    for n in range(2):
        run = one(stand.decided(stand.question(f"before{n}", lane="asker")), fx.Dispatch)
        stand.now += 1.0
        stand.finish(run, ttft_s=0.2)
    yield stand
    stand.run("other", lane="other")
    run = one(stand.decided(stand.question("moves", lane="asker")), fx.Dispatch)
    stand.now += 3.0
    stand.finish(run, ttft_s=1.0)


def a_young_box() -> Iterator[Stand]:
    stand = boxed()
    stand.sense(sensors(stand), uptime=10.0)
    yield stand
    stand.run("other", lane="other")
    stand.decided(stand.question("stays", lane="asker"))


def a_broken_row() -> Iterator[Stand]:
    stand = boxed()
    run = one(stand.decided(stand.question()), fx.Dispatch)
    yield stand
    for _ in range(2):  # a load is tried twice
        stand.now += 1.0
        effects = stand.fail(run, code="model_not_usable", cause="load_failed")
        run = one(effects, fx.Dispatch)


def a_client_that_leaves() -> Iterator[Stand]:
    stand = boxed()
    run = stand.run(stream=True)
    yield stand
    stand.cancel("r")
    stand.now += 0.2
    stand.finish(run, cancelled=True)


def a_dead_worker() -> Iterator[Stand]:
    stand = boxed()
    stand.run()
    yield stand
    stand.now += 1.0
    stand.lose(b"hrx", "its process ended")
    stand.now += 1.0
    stand.tick()
    stand.tick()


def a_dead_npu() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    stand.lose(b"npu", "its process ended")
    stand.now += 1.0


def a_late_word() -> Iterator[Stand]:
    stand = boxed()
    run = stand.run()
    stand.finish(run)
    yield stand
    stand.finish(run)
    stand.send(ev.WorkerBeat(stand.now, b"nobody", 1, []))


def two_saturating_lanes() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    for n in range(40):
        for lane in ("red", "blue"):
            stand.ask(f"{lane}{n}", lane=lane)
    for _ in range(25):
        stand.now += 3.0
        beats = [stand.beat(Peer(*one)) for one in stand.epochs.items()]
        assert beats
        stand.tick()
        (active,) = stand.core._box.devices["hrx"].active.values()
        stand.send(
            ev.Finished(
                stand.now, active.worker, stand.epochs[active.worker], active.number, active.lease,
                False, None, None, 1, 0, 1, b"",
            )
        )  # fmt: skip


def a_conversation_worth_waiting_for() -> Iterator[Stand]:
    """Its next turn is waited for, while another lane's prompt would take its slot."""
    stand = boxed()
    first = stand.run("one", lane="red", conversation="talk", starts=False, prompt_bytes=40_000)
    stand.now += 30.0
    stand.finish(first, ttft_s=25.0, tokens=(10_000, 0, 100))
    yield stand
    stand.ask("two", lane="blue", conversation="other")
    stand.now += 1.0


def a_big_model() -> Iterator[Stand]:
    """A row that has a size, and one that must leave for the next."""
    stand = boxed(memory=3 * GIB)
    stand.beat(Peer(b"hrx", stand.epochs[b"hrx"]), M=2 * GIB, N=2 * GIB)
    stand.beat(Peer(b"npu", stand.epochs[b"npu"]), P=2 * GIB)
    yield stand
    stand.finish(stand.run("one", "M"))
    stand.now += 10.0
    stand.finish(stand.run("two", "N"))
    stand.now += 10.0
    stand.ask("three", "P")


def a_found_file() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    stand.beat(Peer(b"hrx", stand.epochs[b"hrx"]), M=0)


def a_pull() -> Iterator[Stand]:
    stand = boxed()
    store = stand.store()
    yield stand
    stand.send(ev.PullMoved(stand.now, store.route, store.epoch, "N", 5, 10))
    for model, cause in (("M", ""), ("P", "pull_failed")):
        pulled = ev.Pulled(stand.now, store.route, store.epoch, model, cause, "", 20.0)
        stand.send(pulled)


def a_budget() -> Iterator[Stand]:
    """Another box has other settings."""
    yield boxed()
    yield boxed(Limits(stop_tctl_c=95.0, queue_total=100, queue_per_lane=10), memory=2 * GIB)


def a_weight() -> Iterator[Stand]:
    yield boxed()
    stand = boxed()
    weights = {"heavy": 3.0}
    stand.core = Appliance(catalogue(), stand.limits, boot=1, at=stand.now, weights=weights)
    yield stand


def a_hold() -> Iterator[Stand]:
    stand = boxed(memory=3 * GIB)
    yield stand
    stand.held("h", memory_bytes=GIB)
    stand.now += 1.0


def a_lost_hold() -> Iterator[Stand]:
    stand = boxed()
    stand.held("h")
    yield stand
    stand.now += 5.0
    kill = one(stand.lose_client(b"holder"), fx.Kill)
    stand.gone(kill)


def new_readings() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    for _ in range(2):
        stand.now += 1.0
        stand.sense(
            sensors(stand),
            ev.Reading("npu_state", None, "", "accel", "", 0.0, False, "missing"),
            tctl=71.0, gpu_edge=64.0, socket_power=91.0, gfx_power=61.0, npu_power=2.0,
            gfx_clock=2900.0, gpu_busy=97.0, gfx_activity=96.0, npu_activity=88.0,
            memory_used=2.0**31, gtt_used=2.0**30, memory_available=2.0**33, package_energy=1000.0,
            throttle_thermal=5.0, throttle_power=7.0, kfd_processes=2.0, uptime=6000.0,
        )  # fmt: skip


def a_beat() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    stand.now += 0.7


def a_wider_worker() -> Iterator[Stand]:
    yield boxed()
    yield boxed(seats=2)


def a_late_start() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    stand.store()


def another_start() -> Iterator[Stand]:
    yield boxed()
    stand = boxed()
    stand.core = Appliance(catalogue(), stand.limits, boot=2, at=stand.now)
    yield stand


def a_drain() -> Iterator[Stand]:
    stand = boxed()
    yield stand
    stand.send(ev.DrainAsked(stand.now, b"c", True))


MOVES: dict[str, Scenario] = {
    "ready": a_lost_scorer,
    "draining": a_drain,
    "broker_starts_total": another_start,
    "bus_fenced_total": a_late_word,
    "bus_expelled_total": a_late_word,
    "requests_total": an_answer,
    "requests_running": a_holder,
    "requests_waiting": a_holder,
    "requests_deciding": a_question,
    "request_seconds": an_answer,
    "time_to_first_token_seconds": an_answer,
    "cancels_total": a_client_that_leaves,
    "cancel_seconds": a_client_that_leaves,
    "requeues_total": a_dead_worker,
    "decisions_total": a_routed_one,
    "decision_seconds": a_routed_one,
    "scorer_up": a_lost_scorer,
    "bindings": a_routed_one,
    "fallbacks_total": a_full_gpu,
    "fallbacks_suppressed_total": a_young_box,
    "stand_ins_total": a_broken_row,
    "npu_moved_seconds_total": a_full_gpu,
    "npu_alternative_seconds_total": a_full_gpu,
    "queue_depth": a_holder,
    "queue_oldest_seconds": a_holder,
    "queue_wait_seconds": an_answer,
    "queue_limit": a_budget,
    "lane_service_seconds_total": a_holder,
    "lane_lead_seconds": a_holder,
    "lane_weight": a_weight,
    "fairness_jain": two_saturating_lanes,
    "device_state": a_holder,
    "seats": a_wider_worker,
    "seats_used": a_holder,
    "seats_held": a_holder,
    "hold_longest_seconds": a_holder,
    "stream_silent_seconds": a_holder,
    "device_busy_seconds_total": a_holder,
    "device_phase_seconds_total": an_answer,
    "device_thinking_seconds_total": a_conversation_worth_waiting_for,
    "device_idle_waiting_seconds_total": a_dead_worker,
    "device_energy_joules_total": new_readings,
    "prompt_tokens_computed_total": an_answer,
    "prompt_tokens_cached_total": an_answer,
    "output_tokens_total": an_answer,
    "prefill_tokens_per_second": an_answer,
    "decode_tokens_per_second": an_answer,
    "context_fill_ratio": an_answer,
    "estimate_error_seconds_total": an_answer,
    "estimated_seconds_total": an_answer,
    "measured_seconds_total": an_answer,
    "model_resident_bytes": a_big_model,
    "model_loads_total": an_answer,
    "model_load_seconds": an_answer,
    "swaps_total": a_big_model,
    "pulls_total": a_pull,
    "pull_seconds": a_pull,
    "pulling": a_pull,
    "row_ready": a_found_file,
    "default_model_ready": a_found_file,
    "memory_budget_bytes": a_budget,
    "memory_claimed_bytes": a_big_model,
    "memory_reserved_bytes": a_hold,
    "host_memory_available_bytes": new_readings,
    "gtt_used_bytes": new_readings,
    "gpu_memory_used_bytes": new_readings,
    "tctl_celsius": new_readings,
    "heat_stop_celsius": a_budget,
    "gpu_edge_celsius": new_readings,
    "socket_power_watts": new_readings,
    "gfx_power_watts": new_readings,
    "npu_power_watts": new_readings,
    "gfx_clock_hertz": new_readings,
    "gpu_busy_ratio": new_readings,
    "gpu_busy_disagreement_seconds_total": new_readings,
    "npu_activity_ratio": new_readings,
    "package_energy_joules_total": new_readings,
    "throttle_residency_total": new_readings,
    "kfd_processes": new_readings,
    "machine_uptime_seconds": new_readings,
    "sensor_age_seconds": new_readings,
    "sensor_invalid_total": new_readings,
    "worker_last_seen_seconds": a_beat,
    "worker_starts_total": a_late_start,
    "workers_lost_total": a_dead_npu,
    "npu_crashes_total": a_dead_npu,
    "npu_quarantine_left_seconds": a_dead_npu,
    "outside_holds": a_hold,
    "outside_hold_left_seconds": a_hold,
    "outside_holds_lost_total": a_lost_hold,
}


# Counters whose label sets are known before anything is counted.
CLOSED_COUNTERS = (
    "gpu_busy_disagreement_seconds_total",
    "cancels_total", "fallbacks_suppressed_total", "fallbacks_total", "pulls_total", "requeues_total",
    "stand_ins_total", "swaps_total", "worker_starts_total", "workers_lost_total",
)  # fmt: skip


@pytest.mark.parametrize("key", CLOSED_COUNTERS)
def test_a_counter_of_a_closed_set_is_there_before_its_first_one(key: str) -> None:
    """One that came with its first count would have grown by nothing, for whoever asks how much it grew."""
    scenario = MOVES[key]()
    stand = next(scenario)
    before = seen(stand)[key]
    after = seen(next(scenario, stand))[key]
    assert before.keys() == after.keys()


def test_a_known_lane_has_a_count_of_refusals_and_of_clients_that_left_from_the_first() -> None:
    stand = boxed()
    stand.finish(stand.run(lane="red"))
    ends = seen(stand)["requests_total"]
    assert ends == {("red", "answered"): 1, ("red", "queue_full"): 0, ("red", "client_gone"): 0}


def test_the_lane_whose_lead_is_smallest_goes_next() -> None:
    stand = boxed()
    run = stand.run(lane="red")
    for lane in ("red", "blue"):
        stand.ask(f"{lane} waits", lane=lane)
    lead = seen(stand)["lane_lead_seconds"]
    assert lead["hrx0", "red"] > lead["hrx0", "blue"] >= 0.0
    stand.now += 5.0
    stand.finish(run)
    assert {lane for _, lane in seen(stand)["seats_held"]} == {"blue"}


def test_every_metric_of_the_core_has_a_scenario() -> None:
    own = {m.key for m in TABLE if m.source in {"core", "sensors"} and not m.alias_of}
    assert own == set(MOVES)


@pytest.mark.parametrize("key", MOVES)
def test_a_metric_moves(key: str) -> None:
    scenario = MOVES[key]()
    stand = next(scenario)
    before = seen(stand)
    after = seen(next(scenario, stand))
    assert after.get(key), key
    assert after[key] != before.get(key), key


CLOSED = {
    "age": AGES,
    "outcome": (*OUTCOMES, "decided", "kept", "fell_open"),
    "phase": PHASES,
    "state": STATES,
    "window": WINDOWS,
}


@pytest.mark.parametrize("scenario", dict.fromkeys(MOVES.values()))
def test_counters_never_fall_and_closed_labels_are_closed(scenario: Scenario) -> None:
    running = scenario()
    stand = next(running)
    before, other = seen(stand), next(running, stand)
    after = seen(other)
    for metric in TABLE:
        rows = after.get(metric.key, {})
        for labels in rows:
            for label, value in zip(metric.labels, labels, strict=True):
                assert value in CLOSED.get(label, (value,)), (metric.name, label)
        if metric.kind == "counter" and other is stand:
            for labels, figure in before.get(metric.key, {}).items():
                assert rows[labels] >= figure, (metric.name, labels)


def test_the_service_of_a_lane_goes_on_while_it_holds_a_seat_and_does_not_jump_at_its_end() -> None:
    stand = boxed()
    run = stand.run(lane="red")
    stand.now += 4.0
    key = ("hrx0", "red")
    assert seen(stand)["lane_service_seconds_total"][key] == pytest.approx(4.0)
    stand.now += 1.0
    stand.finish(run)
    assert seen(stand)["lane_service_seconds_total"][key] == pytest.approx(5.0)


def test_time_on_a_seat_that_was_lost_is_service_too_though_nobody_pays_for_it() -> None:
    stand = boxed()
    stand.run(lane="red")
    stand.now += 4.0
    stand.lose(b"hrx")
    now = seen(stand)
    assert now["lane_service_seconds_total"]["hrx0", "red"] == pytest.approx(4.0)
    assert now["device_phase_seconds_total"]["hrx0", "lost"] == pytest.approx(4.0)


def test_the_phases_of_a_device_are_its_service() -> None:
    stand = boxed()
    for scenario in (an_answer, a_client_that_leaves, a_dead_worker, a_lost_hold):
        running = scenario()
        stand = next(running)
        next(running, None)
        now = seen(stand)
        phases = {k: v for k, v in now["device_phase_seconds_total"].items() if k[0] == "hrx0"}
        served = now.get("lane_service_seconds_total", {})
        held = sum(v for k, v in served.items() if k[0] == "hrx0")
        assert sum(phases.values()) == pytest.approx(held), scenario.__name__


def test_a_prompt_of_a_conversation_that_goes_on_and_was_not_kept_is_computed_again() -> None:
    running = an_answer()
    stand = next(running)
    next(running, None)
    phases = seen(stand)["device_phase_seconds_total"]
    assert phases["hrx0", "load"] == pytest.approx(1.0)
    assert phases["hrx0", "prefill"] == pytest.approx(0.5)
    assert phases["hrx0", "reprefill"] == pytest.approx(0.5)
    assert phases["hrx0", "decode"] == pytest.approx(1.0)


def test_no_time_is_idle_without_a_reason() -> None:
    for scenario in dict.fromkeys(MOVES.values()):
        running = scenario()
        stand = next(running)
        other = next(running, stand)
        for (_, reason), idle_s in seen(other)["device_idle_waiting_seconds_total"].items():
            assert reason in IDLE_REASONS
            assert reason != "none" or idle_s == 0.0, scenario.__name__


def test_a_device_that_forgets_a_ticket_would_be_seen() -> None:
    stand = boxed()
    device = stand.core._box.devices["hrx"]
    forgotten = one(stand.ask("r"), fx.Dispatch)
    stand.finish(forgotten)
    ticket = stand.core._box.accept(
        ev.Asked(
            stand.now, b"c", "lost", "chat", "M", "red", "c", True, False, False, stand.now + 600.0,
            0, None, False, False, False, b"",
        ),
        "red",
    )  # fmt: skip
    ticket.model, ticket.device, ticket.queued_at = "M", "hrx", stand.now
    device.queue.push(ticket)
    stand.now += 1.0
    stand.core._watch.look(stand.now)
    idle = seen(stand)["device_idle_waiting_seconds_total"]
    assert idle["hrx0", "none"] == pytest.approx(1.0)


def test_ten_thousand_names_of_lanes_make_no_more_series_than_the_flows() -> None:
    stand = boxed(Limits(queue_total=10))
    run = stand.run("first")
    for n in range(10_000):  # ten wait, the others are refused: their names are never known
        stand.core.handle(
            ev.Asked(
                stand.now, b"c", f"r{n}", "chat", "M", f"lane {n}", f"c{n}", True, False, False,
                stand.now + 600.0, 0, None, False, False, False, b"",
            )
        )  # fmt: skip
    lanes = {k[0] for k in seen(stand)["requests_total"]}
    assert lanes == {"default"}
    assert seen(stand)["requests_total"]["default", "queue_full"] == 9_990
    assert run.ticket == 1
    for n in range(10_000):  # one after the other, and all are answered
        (dispatch,) = of(
            stand.core.handle(
                ev.Finished(
                    stand.now, b"hrx", stand.epochs[b"hrx"], run.ticket, run.lease, False, None,
                    None, 1, 0, 1, b"",
                )
            ),
            fx.Dispatch,
        )  # fmt: skip
        run = dispatch
        stand.core.handle(
            ev.Asked(
                stand.now, b"c", f"s{n}", "chat", "M", f"more {n}", f"d{n}", True, False, False,
                stand.now + 600.0, 0, None, False, False, False, b"",
            )
        )  # fmt: skip
    shown = stand.core.metrics(stand.now)
    assert len({labels[1] for labels in seen(stand)["queue_depth"]}) == stand.limits.lanes + 1
    series = sum(len(rows) for rows in shown.values())
    assert series < 20 * stand.limits.lanes


def test_a_reading_that_is_unknown_or_old_is_no_series() -> None:
    stand = boxed()
    stand.sense(
        sensors(stand), ev.Reading("tctl", None, "C", "k10temp", "Tctl", 0.0, False, "zero"),
        gpu_edge=64.0,
    )  # fmt: skip
    now = seen(stand)
    assert "tctl_celsius" not in now
    assert now["sensor_invalid_total"]["tctl", "zero"] == 1
    assert now["gpu_edge_celsius"] == {(): 64.0}
    stand.now += 6.0
    assert "gpu_edge_celsius" not in seen(stand)
    assert seen(stand)["sensor_age_seconds"]["gpu_edge",] == pytest.approx(6.0)


def test_a_device_whose_power_was_never_read_has_no_energy() -> None:
    stand = boxed()
    for _ in range(3):
        stand.now += 1.0
        stand.sense(sensors(stand), gfx_power=50.0)
    assert seen(stand)["device_energy_joules_total"] == {("hrx0",): pytest.approx(150.0)}
    stand.now += 60.0  # nothing was said meanwhile, so nothing is known of it
    stand.sense(sensors(stand), gfx_power=50.0)
    assert seen(stand)["device_energy_joules_total"] == {("hrx0",): pytest.approx(150.0)}


def test_a_class_of_a_users_policy_is_no_label() -> None:
    stand = boxed()
    asked = stand.question()
    epoch = stand.epochs[asked.worker]
    stand.send(
        ev.Decided(
            stand.now, asked.worker, epoch, asked.ticket, "mine", "N", "secret", 1.0, False, b"{}"
        )
    )
    assert set(seen(stand)["decisions_total"]) == {("other", "hrx0", "none", "decided")}


def test_counters_begin_anew_with_the_broker_and_nothing_falls_below_zero() -> None:
    stand = boxed()
    run = stand.run()
    stand.now += 5.0
    stand.finish(run)
    stand.send(
        ev.Restarted(
            stand.now, 2, True, 0.0, catalogue(), stand.limits, {}, None,
        )
    )  # fmt: skip
    now = seen(stand)
    assert now["device_busy_seconds_total"]["hrx0",] == 0.0
    assert "lane_service_seconds_total" not in now or not now["lane_service_seconds_total"]
