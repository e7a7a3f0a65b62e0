"""`GET /metrics` of a real box: its figures agree with what clients and the engine say of the same run."""

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

from ops.bench.scraping import LANES, Scraper
from scheduler.gateway.metrics.table import BY_NAME, TABLE
from scheduler.wire.codec import encode
from scheduler.wire.messages import Query
from support import debian
from support.amd_tree import K10, plant, put
from support.box import Box
from support.front import Front
from support.http import CHAT, ROW, call, chat
from support.wait import until

Page = dict[str, dict[tuple[str, ...], float]]  # a line's name -> label values by name -> figure
NPU_ROW = f"{ROW}-npu"
ASKED = ("red", "green", "blue", "grey")
EACH = 25
HOLD_S = 0.05


def scrape(url: str) -> Page:
    """Return all lines of a page."""
    reply = call(url, "/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: Page = {}
    for family in read_plain(reply.raw.decode()):
        for line in family.samples:
            labels = tuple(value for _, value in sorted(line.labels.items()))
            assert labels not in found.setdefault(line.name, {})
            found[line.name][labels] = line.value
    return found


def family(name: str) -> str:
    """Return the name of the metric that a line belongs to."""
    for end in ("_bucket", "_count", "_sum"):
        if name.removesuffix(end) in BY_NAME:
            return name.removesuffix(end)
    return name


def held_s(log: Path) -> tuple[int, float]:
    """Return how many jobs held the engine's seat and for how long in all, by its own log."""
    seen: dict[str, list[float]] = {}
    for line in log.read_text().splitlines():
        _, lease, at = line.split()
        seen.setdefault(lease, []).append(float(at))
    return len(seen), sum(max(times) - min(times) for times in seen.values())


@pytest.fixture(scope="module")
def contended(tmp_path_factory: pytest.TempPathFactory) -> "tuple[Page, Page, Counter[str], Path]":
    """A page before, one after four lanes shared one seat, their answers by lane, and the engine's log."""
    log = tmp_path_factory.mktemp("null") / "log"
    log.touch()
    settings = {"null_seats": 1, "null_hold_s": HOLD_S, "null_log": log}
    with Box(
        workers__engine="null", **{f"workers__{name}": value for name, value in settings.items()}
    ) as box:
        before = scrape(box.url)
        answered: Counter[str] = Counter()

        def ask(lane: str) -> None:
            for _ in range(EACH):
                reply = call(box.url, CHAT, chat(model=ROW), {"x-fairlane-lane": lane})
                answered[lane] += reply.status == 200

        threads = [threading.Thread(target=ask, args=(lane,)) for lane in ASKED]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        after = scrape(box.url)
        queue = call(box.url, "/v1/queue").json
        assert queue["totals"]["waiting"] == sum(after["fairlane_queue_depth"].values())
        return before, after, answered, log


def test_the_answers_are_those_that_the_clients_had(
    contended: "tuple[Page, Page, Counter[str], Path]",
) -> None:
    before, after, answered, _ = contended
    assert set(before.get("fairlane_requests_total", {})) == set()
    assert answered == dict.fromkeys(ASKED, EACH)
    for lane in ASKED:
        assert after["fairlane_requests_total"][lane, "answered"] == EACH
        assert after["fairlane_queue_wait_seconds_count"]["hrx0", lane] == EACH
        assert after["fairlane_output_tokens_total"][lane,] == EACH
    total = EACH * len(ASKED)
    assert after["fairlane_request_seconds_count"][ROW,] == total
    assert after["vllm:e2e_request_latency_seconds_count"][ROW,] == total
    assert after["vllm:num_requests_running"][ROW,] == 0.0
    assert after["fairlane_requests_waiting"][ROW,] == 0.0
    assert sum(after["fairlane_queue_wait_seconds_sum"].values()) > 0.0


def test_the_seconds_are_those_that_the_engine_wrote_down(
    contended: "tuple[Page, Page, Counter[str], Path]",
) -> None:
    _, after, _, log = contended
    jobs, logged_s = held_s(log)
    assert jobs == EACH * len(ASKED)
    served = {lane: after["fairlane_lane_service_seconds_total"]["hrx0", lane] for lane in ASKED}
    told_s = sum(served.values())
    # the engine writes each 10 ms, and a grant and an answer travel for a while on a busy machine
    assert logged_s <= told_s <= logged_s + jobs * 0.1
    busy_s = after["fairlane_device_busy_seconds_total"]["hrx0",]
    assert told_s == pytest.approx(busy_s, rel=1e-6)  # one seat, so the two are the same time
    phases = after["fairlane_device_phase_seconds_total"]
    on_hrx = [figure for (device, _), figure in phases.items() if device == "hrx0"]
    assert sum(on_hrx) == pytest.approx(told_s, rel=1e-6)
    assert after["fairlane_device_idle_waiting_seconds_total"]["hrx0", "none"] == 0.0


def test_a_page_holds_what_the_table_says_and_nothing_else(
    contended: "tuple[Page, Page, Counter[str], Path]",
) -> None:
    _, after, _, _ = contended
    assert {family(name) for name in after} <= set(BY_NAME)
    always = {m.name for m in TABLE if not m.absent and not m.labels and not m.buckets}
    assert always <= set(after)
    assert after["fairlane_up"][()] == after["fairlane_ready"][()] == 1.0
    assert after["fairlane_journal_up"][()] == 1.0
    assert after["fairlane_journal_bytes"][()] > 0.0
    uptime_s = after["fairlane_uptime_seconds"][()]
    assert uptime_s > 0.0
    assert abs(after["fairlane_start_time_seconds"][()] + uptime_s - time.time()) < 60.0
    (versions,) = after["fairlane_build_info"]
    assert all(versions)


def test_prometheus_own_form_is_given_to_who_asks_for_it(null_box: Box) -> None:
    call(null_box.url, CHAT, chat(model=ROW))
    reply = call(
        null_box.url, "/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"}
    )
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0;")
    read = read_openmetrics(reply.raw.decode())  # type: ignore[no-untyped-call]  # the library names no types
    names = {one.name for one in read}
    assert {"fairlane_up", "fairlane_requests", "vllm:num_requests_running"} <= names


def test_heat_and_power_of_the_machine_are_on_the_page_and_what_is_unknown_is_not(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    tree = plant(tmp_path, "hot", available="MemAvailable: 1024 kB", npu="D3cold")
    box = new_box(workers__engine="null", sensors__root=tree)
    until(
        lambda: scrape(box.url).get("fairlane_device_energy_joules_total"),
        "two readings of the power",
    )
    page = scrape(box.url)
    assert page["fairlane_tctl_celsius"][()] == 97.125
    assert page["fairlane_socket_power_watts"][()] == 120.0
    assert page["fairlane_gfx_clock_hertz"][()] == 2.1e9
    assert page["fairlane_gpu_busy_ratio"]["driver",] == 1.0
    assert page["fairlane_host_memory_available_bytes"][()] == 2.0**20
    assert page["fairlane_throttle_residency_total"]["thermal",] == 12_700.0
    assert page["fairlane_throttle_residency_total"]["power",] == 900.0
    assert page["fairlane_device_energy_joules_total"]["hrx0",] > 0.0
    assert "fairlane_kfd_processes" not in page
    assert page["fairlane_sensor_invalid_total"]["missing", "kfd_processes"] >= 1.0
    put(tree, f"{K10}/temp1_input", 0)
    until(lambda: "fairlane_tctl_celsius" not in scrape(box.url), "a temperature that is unknown")


def test_promtool_reads_the_page(null_box: Box) -> None:
    (promtool,) = debian.require("prometheus", "promtool")
    call(null_box.url, CHAT, chat(model=ROW))

    def checked(path: str) -> tuple[int, list[str]]:
        page = call(null_box.url, path).raw
        assert b"fairlane_requests_total" in page
        ran = subprocess.run(
            [promtool, "check", "metrics"], input=page, capture_output=True, timeout=60, check=False
        )
        return ran.returncode, (ran.stdout + ran.stderr).decode().splitlines()

    assert checked("/metrics?aliases=0") == (0, [])
    _, said = checked("/metrics")  # vLLM's own names have the colon that promtool minds
    assert all(line.startswith("vllm:") and line.endswith("contain ':'") for line in said), said


def test_a_message_that_nobody_understands_is_counted(null_box: Box) -> None:
    before = scrape(null_box.url)["fairlane_bus_bad_messages_total"][()]
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.connect(f"ipc://{null_box.run_dir}/clients.sock")
        stranger.send_multipart([b"nonsense", b""])
        until(
            lambda: scrape(null_box.url)["fairlane_bus_bad_messages_total"][()] == before + 1.0,
            "a bad message that is counted",
        )


def test_a_client_that_vanishes_is_counted_under_its_lane() -> None:
    with Front() as front:
        with front.ask("leaver") as stream:
            stream.first()
            page = scrape(front.url)
            assert page["fairlane_seats_held"] == {("hrx0", "leaver"): 1.0}
            assert page["fairlane_device_state"]["hrx0", "busy"] == 1.0
            assert page["fairlane_stream_silent_seconds"]["hrx0",] >= 0.0
        until(
            lambda: (
                ("leaver", "client_gone") in scrape(front.url).get("fairlane_requests_total", {})
            ),
            "a client that left",
        )
        page = scrape(front.url)
        assert page["fairlane_cancels_total"]["running",] == 1.0
        assert page["fairlane_cancel_seconds_count"][()] == 1.0


def test_a_peer_that_is_gone_is_counted(null_box: Box) -> None:
    before = scrape(null_box.url)["fairlane_bus_unroutable_total"][()]

    def ask_and_leave() -> bool:
        with zmq.Context() as context, context.socket(zmq.DEALER) as leaver:
            leaver.connect(f"ipc://{null_box.run_dir}/clients.sock")
            for number in range(50):
                leaver.send_multipart([encode(Query(str(number), "status")), b""])
        return scrape(null_box.url)["fairlane_bus_unroutable_total"][()] > before

    until(ask_and_leave, "an answer that found nobody")


def test_without_a_broker_the_page_says_so_and_invents_nothing() -> None:
    with Front() as front:
        assert scrape(front.url)["fairlane_up"] == {(): 1.0}
        broker, _ = front._parts
        broker.kill()
        broker.wait()
        began_at = time.monotonic()
        page = scrape(front.url)
        assert time.monotonic() - began_at < 5.0
        assert page["fairlane_up"] == {(): 0.0}
        own = {m.name for m in TABLE if m.source == "gateway"}
        assert set(page) == own
        front.worker.stop()


def test_a_hundred_lanes_make_no_more_than_five_thousand_series_in_ten_milliseconds(
    new_box: Callable[..., Box], capsys: pytest.CaptureFixture[str]
) -> None:
    box = new_box(workers__engine="null", limits__lanes=LANES + 10)
    for lane in range(LANES):
        for row in (ROW, NPU_ROW):
            reply = call(box.url, CHAT, chat(model=row), {"x-fairlane-lane": f"lane-{lane}"})
            assert reply.status == 200
    scraper = Scraper(int(box.url.rpartition(":")[2]))
    for _ in range(200):
        scraper.scrape()
    scraper.close()
    took_ms = sorted(scraper.took_ms)
    lines = [line for line in scraper.page.splitlines() if not line.startswith(b"#")]
    weights = {
        kind: box.processes()[kind].memory_info().rss / 1e6 for kind in ("broker", "gateway")
    }
    with capsys.disabled():
        print(
            f"\n{len(lines)} series, a scrape {took_ms[100]:.1f} ms, at best {took_ms[0]:.1f}; "
            f"broker {weights['broker']:.0f} MB, gateway {weights['gateway']:.0f} MB"
        )
    assert weights["gateway"] <= 80.0
    assert len({key[1] for key in scrape(box.url)["fairlane_queue_depth"]}) == LANES
    assert len(lines) <= 5_000
    # the best of two hundred: what else the machine does is not the page's
    assert took_ms[0] <= 10.0


def test_no_lane_name_or_prompt_reaches_the_page_but_as_a_label(null_box: Box) -> None:
    headers = {"x-fairlane-lane": 'evil"} 1\nfairlane_up 0'.replace("\n", "\t")}
    body = chat(model=ROW) | {"messages": [{"role": "user", "content": "TOP SECRET"}]}
    assert call(null_box.url, CHAT, body, headers).status == 200
    raw = call(null_box.url, "/metrics").raw
    assert b"SECRET" not in raw
    assert scrape(null_box.url)["fairlane_up"] == {(): 1.0}
    assert json.dumps(sorted(scrape(null_box.url))) != "[]"
