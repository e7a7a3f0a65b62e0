"""Pulling with the real `huggingface_hub` client from a hub that is well, and from one that is not."""

import hashlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from support.fakehub import FakeHub, Fault
from support.pulling import (
    DIGEST,
    FILE,
    REPO,
    Puller,
    downloads,
    gguf,
    hub_row,
    noise,
    reachable,
    row_of,
    tokenizer_config,
)
from support.wait import until
from workers import rows
from workers.helper import Pulled
from workers.job import JobError
from workers.store.records import read


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as made, reachable(made.url, monkeypatch, tmp_path):
        yield made


@pytest.fixture(autouse=True)
def _models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_models", tmp_path / "models")


# --- a hub that is well -----------------------------------------------------------------------------


def test_a_cold_row_is_pulled_checked_recorded_and_found(hub: FakeHub, tmp_path: Path) -> None:
    content = gguf(tmp_path)
    hub.put(REPO, FILE, content)
    puller = Puller(tmp_path, hub_row())
    assert puller.state() == "missing"
    ended = puller.pull()
    assert (ended.cause, ended.message) == ("", "")
    assert ended.seconds > 0
    assert (puller.stock["M"].state, puller.stock["M"].bytes) == ("ready", len(content))
    assert puller.file().read_bytes() == content
    record = read(puller.file())
    assert record is not None
    assert record.sha256 == record.etag == hashlib.sha256(content).hexdigest()
    assert (record.templates, record.origin, record.model) == ({"default": DIGEST}, hub.url, "M")
    assert rows.file_of(row_of(hub_row())) == puller.file()
    assert sorted(p.name for p in puller.file().parent.iterdir()) == [f".{FILE}.json", FILE]


def test_the_second_fetch_asks_the_hub_nothing(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path))
    Puller(tmp_path, hub_row()).pull()
    asked = len(hub.asked)
    for puller in (Puller(tmp_path, hub_row()), Puller(tmp_path, hub_row())):  # of the next start
        assert puller.state() == "ready"
        assert puller.pull().cause == ""
    assert len(hub.asked) == asked


def test_ten_fetches_are_one_download_and_one_end(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path), Fault(rate=600_000))
    puller = Puller(tmp_path, hub_row())
    for _ in range(10):
        puller.ask()
        time.sleep(0.01)
    puller.ear.hear(Pulled)
    assert downloads(hub) == [f"/{REPO}/resolve/{_commit(hub)}/{FILE}"]
    assert len(puller.ended) == 1
    asked = len(hub.asked)
    puller.pull()  # it is ready
    assert (len(puller.ended), len(hub.asked)) == (2, asked)


def _commit(hub: FakeHub) -> str:
    repo = hub.repo(REPO)
    assert repo is not None
    return repo.commit(REPO)


def test_two_rows_of_one_file_share_its_download(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path), Fault(rate=600_000))
    puller = Puller(tmp_path, hub_row("A"), hub_row("B", ctx=64))
    puller.ask("A")
    puller.ask("B")
    until(lambda: len(puller.ended) == 2, "both end")
    assert [one.cause for one in puller.ended] == ["", ""]
    assert len(downloads(hub)) == 1


def test_progress_is_told_by_bytes(hub: FakeHub, tmp_path: Path) -> None:
    content = gguf(tmp_path)
    hub.put(REPO, FILE, content, Fault(rate=150_000))
    puller = Puller(tmp_path, hub_row())
    puller.pull()
    done = [move.done_bytes for move in puller.moves]
    assert len(done) >= 3
    assert done == sorted(done)
    assert {move.total_bytes for move in puller.moves} == {len(content)}


def test_a_length_that_only_the_download_tells_is_told_then(hub: FakeHub, tmp_path: Path) -> None:
    content = gguf(tmp_path)
    hub.put(REPO, FILE, content, Fault(no_size=True, rate=300_000))
    puller = Puller(tmp_path, hub_row())
    assert puller.pull().cause == ""
    assert puller.moves[-1].total_bytes == len(content)


def test_further_files_come_with_the_row(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path))
    hub.put(REPO, "MTP/head.gguf", gguf(tmp_path, seed=2))
    hub.put(REPO, "proj.gguf", gguf(tmp_path, None, seed=3))
    extra = [
        {"file": "MTP/head.gguf", "role": "mtp", "template_sha256": DIGEST},
        {"file": "proj.gguf", "role": "mmproj"},
    ]
    puller = Puller(tmp_path, hub_row(extra_files=extra))
    assert puller.pull().cause == ""
    row = row_of(hub_row(extra_files=extra))
    assert [path for _, path in rows.extras_of(row)] == [
        puller.file("MTP/head.gguf"), puller.file("proj.gguf"),
    ]  # fmt: skip
    puller.file("proj.gguf").unlink()
    with pytest.raises(JobError, match=r"proj.gguf of .* is not on disk; `fairlane pull M`"):
        rows.extras_of(row)


def test_an_npu_row_is_its_whole_repository(hub: FakeHub, tmp_path: Path) -> None:
    hub.put("org/npu", "model.q4nx", noise(50_000))
    hub.put("org/npu", "tokenizer_config.json", tokenizer_config(), is_large=False)
    hub.put("org/npu", "sub/config.json", b"{}", is_large=False)
    hub.put("org/npu", ".gitattributes", b"x", is_large=False)
    raw = hub_row("N", "org/npu", None, device="npu")
    puller = Puller(tmp_path, raw)
    assert puller.pull("N").cause == ""
    folder = tmp_path / "models" / "org" / "npu"
    assert rows.file_of(row_of(raw)) == folder
    assert (folder / "sub" / "config.json").read_bytes() == b"{}"
    assert not (folder / ".gitattributes").exists()
    assert Puller(tmp_path, raw).state("N") == "ready"


def test_a_listing_cannot_write_outside_its_repository(hub: FakeHub, tmp_path: Path) -> None:
    hub.put("org/npu", "tokenizer_config.json", tokenizer_config(), is_large=False)
    for name in ("../../../escaped", "/etc/escaped", "a\\..\\escaped", "a/../../escaped", "nul"):
        hub.put("org/npu", name, b"x", is_large=False)
    puller = Puller(tmp_path, hub_row("N", "org/npu", None, device="npu"))
    assert puller.pull("N").cause == ""
    assert list(tmp_path.rglob("*escaped*")) == []
    assert not any("escaped" in path for path in hub.paths("GET"))


def test_a_small_file_is_checked_by_gits_digest(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(
        "org/npu", "tokenizer_config.json", tokenizer_config(), Fault(corrupt=3), is_large=False
    )
    puller = Puller(tmp_path, hub_row("N", "org/npu", None, device="npu"))
    ended = puller.pull("N")
    assert ended.cause == "pull_failed"
    assert "git digest" in ended.message


def test_nothing_is_asked_for_what_the_table_does_not_name(hub: FakeHub, tmp_path: Path) -> None:
    for name in ("org/named", "org/other", "org/third"):
        for file in (FILE, "second.gguf"):
            hub.put(name, file, gguf(tmp_path))
    puller = Puller(tmp_path, hub_row("M", "org/named"))
    assert puller.pull("M").cause == ""
    for model in ("org/other", "other", "", "../M", FILE, "org/named/second.gguf"):
        ended = puller.pull(model)
        assert ended.cause == "pull_failed"
        assert "the table in force has no such row" in ended.message
    puller.learn()  # a table without the row
    assert puller.pull("M").cause == "pull_failed"
    assert {path.split("/resolve/")[0] for path in hub.paths()} == {"/org/named"}
    assert {path.rpartition("/")[2] for path in hub.paths()} == {FILE}


def test_a_row_that_changes_while_it_is_pulled_is_not_called_ready(
    hub: FakeHub, tmp_path: Path
) -> None:
    slow = Fault(rate=20_000)
    hub.put(REPO, FILE, gguf(tmp_path), slow)
    hub.put("org/new", FILE, gguf(tmp_path, seed=2))
    puller = Puller(tmp_path, hub_row())
    puller.ask()
    until(lambda: downloads(hub), "it is on its way")
    puller.learn(hub_row("M", "org/new"))
    slow.rate = 0
    (ended,) = puller.ear.hear(Pulled)
    assert ended.cause == "pull_failed"
    assert "the table changed; try again" in ended.message
    assert puller.pull().cause == ""
    assert puller.file(repo="org/new").exists()


def test_the_token_goes_to_the_hub_and_not_to_its_storage(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.put(REPO, FILE, gguf(tmp_path))
    hub.gate(REPO, "hf_secret")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert Puller(tmp_path, hub_row()).pull().cause == ""
    assert [(a.status, a.token) for a in hub.asked] == [
        (302, "hf_secret"), (302, "hf_secret"), (200, ""),
    ]  # fmt: skip


def test_the_token_file_counts(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path))
    hub.gate(REPO, "hf_filed")
    (tmp_path / "token").write_text("hf_filed\n")
    assert Puller(tmp_path, hub_row()).pull().cause == ""


# --- a hub that is not ------------------------------------------------------------------------------

# what goes wrong -> words of the message; the repository, the file and the hub are in all of them
IMPATIENT: dict[str, object] = {"timeout_s": 0.6}  # for a hub that says nothing, and for no other
FAULTS: dict[str, tuple[Fault, str]] = {
    "404": (Fault(status=404), "it has no file small.gguf (status 404); correct the row"),
    "500": (Fault(status=500), "answered with status 500; try again later"),
    "429": (Fault(status=429), "answered with status 429; try again later"),
    "storage 500": (Fault(storage=500), "answered with status 500; try again later"),
    "storage 403": (Fault(storage=403), "it is refused (status 403); set HF_TOKEN"),
    "storage 404": (Fault(storage=404), "it has no file small.gguf (status 404)"),
    "gated": (Fault(status=401), "it is gated (status 401): accept its terms at"),
    "forbidden": (Fault(status=403), "it is gated (status 403): accept its terms at"),
    "half": (Fault(cut=150_000), "the connection failed"),
    "nothing": (Fault(cut=0), "the connection failed"),
    "short": (Fault(extra=-1000), "bytes and sends"),
    "long": (Fault(extra=1000), "bytes and sends"),
    "changed": (Fault(corrupt=200_000), "its sha256 is"),
    "stall": (Fault(stall=100_000), "nothing came for 0.6 s"),
    "silent": (Fault(silent_head=True), "nothing came for 0.6 s"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_hub_ends_the_pull_with_cause_and_remedy_and_the_next_one_is_well(
    hub: FakeHub, tmp_path: Path, fault: str
) -> None:
    content = gguf(tmp_path)
    hub.put(REPO, FILE, content, FAULTS[fault][0])
    is_silent = fault in {"stall", "silent"}
    puller = Puller(tmp_path, hub_row(), **(IMPATIENT if is_silent else {}))
    ended = puller.pull()
    assert ended.cause == "pull_failed"
    assert f"Model 'M' cannot be pulled: {FILE} of {REPO} from {hub.url}: " in ended.message
    assert FAULTS[fault][1] in ended.message
    assert not puller.file().exists()
    assert puller.state() == "failed"
    with pytest.raises(JobError):
        rows.file_of(row_of(hub_row()))
    hub.fault(REPO, FILE)
    if is_silent:
        puller = Puller(tmp_path, hub_row())  # of the next start, with more patience
    assert puller.pull().cause == ""
    assert puller.file().read_bytes() == content
    assert puller.state() == "ready"


@pytest.mark.parametrize(
    "fault",
    [Fault(cut=100_000, times=1), Fault(stall=100_000, times=1), Fault(status=503, times=1),
     Fault(storage=503, times=1), Fault(no_range=True), Fault(gzip=True, rate=2_000_000),
     Fault(cut=200_000, times=1, no_range=True)],
    ids=["cut", "stall", "503", "storage 503", "no ranges", "gzip", "cut without ranges"],
)  # fmt: skip
def test_a_fault_that_passes_is_got_over(hub: FakeHub, tmp_path: Path, fault: Fault) -> None:
    content = gguf(tmp_path)
    hub.put(REPO, FILE, content, fault)
    puller = Puller(tmp_path, hub_row(), attempts=9, **(IMPATIENT if fault.stall else {}))
    assert puller.pull().cause == ""
    assert puller.file().read_bytes() == content


def test_a_hub_that_asks_for_time_gets_it(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path), Fault(status=429, after=2, times=1))
    assert Puller(tmp_path, hub_row()).pull().cause == ""
    first, second, *_ = hub.asked
    assert first.status == 429
    assert second.at - first.at >= 2.0  # its own pause would be 0.5 s


def test_a_part_that_is_not_the_one_asked_for_is_not_taken(hub: FakeHub, tmp_path: Path) -> None:
    content = gguf(tmp_path)
    hub.put(REPO, FILE, content, Fault(cut=100_000, shift=7, times=2))
    puller = Puller(tmp_path, hub_row(), attempts=4)
    assert puller.pull().cause == ""
    assert puller.file().read_bytes() == content
    assert hub.sent() < len(content) + 100_000  # what had come was kept


def test_what_came_before_a_fault_is_not_asked_again(hub: FakeHub, tmp_path: Path) -> None:
    content = gguf(tmp_path)
    hub.put(REPO, FILE, content, Fault(cut=150_000))
    puller = Puller(tmp_path, hub_row())
    assert puller.pull().cause == "pull_failed"
    hub.fault(REPO, FILE)
    assert puller.pull().cause == ""
    assert hub.sent() == len(content)
    assert [a.range for a in hub.asked if a.status == 206][-1] == "bytes=150000-"


def test_what_was_left_of_another_content_is_not_used(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path), Fault(cut=150_000))
    puller = Puller(tmp_path, hub_row())
    puller.pull()
    newer = gguf(tmp_path, seed=9)
    hub.put(REPO, FILE, newer)
    assert puller.pull().cause == ""
    assert puller.file().read_bytes() == newer
    assert [p.name for p in puller.file().parent.glob("*.part")] == []


@pytest.mark.parametrize("damage", ["changed", "longer"])
def test_a_partial_file_that_was_damaged_is_begun_anew(
    hub: FakeHub, tmp_path: Path, damage: str
) -> None:
    content = gguf(tmp_path)
    hub.put(REPO, FILE, content, Fault(cut=150_000))
    puller = Puller(tmp_path, hub_row())
    puller.pull()
    (left,) = puller.file().parent.glob(".*.part")
    assert left.read_bytes() == content[:150_000]
    left.write_bytes(b"x" * (150_000 if damage == "changed" else len(content) + 9))
    hub.fault(REPO, FILE)
    assert puller.pull().cause == ""
    assert puller.file().read_bytes() == content


def test_a_repository_that_is_not_there_is_told(hub: FakeHub, tmp_path: Path) -> None:
    ended = Puller(tmp_path, hub_row("M", "org/none")).pull()
    assert ended.cause == "pull_failed"
    assert f"{FILE} of org/none from {hub.url}: there is no such repository" in ended.message
    assert "correct the row's hf_repo or set HF_TOKEN" in ended.message


def test_a_hub_that_refuses_connections_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with reachable(url, monkeypatch, tmp_path):
            ended = Puller(tmp_path, hub_row()).pull()
    assert ended.cause == "pull_failed"
    assert f"{FILE} of {REPO} from {url}: the connection failed" in ended.message
    assert "that HF_ENDPOINT is right" in ended.message


def test_offline_nothing_is_asked(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.put(REPO, FILE, gguf(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    ended = Puller(tmp_path, hub_row()).pull()
    assert ended.cause == "pull_failed"
    assert "HF_HUB_OFFLINE is set; unset it" in ended.message
    assert hub.asked == []


def test_a_password_in_the_address_is_never_shown(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = hub.url.replace("http://", "http://me:secret@")
    with reachable(secret, monkeypatch, tmp_path):
        hub.put(REPO, FILE, gguf(tmp_path))
        puller = Puller(tmp_path, hub_row("M"), hub_row("N", "org/none"))
        assert puller.pull().cause == ""
        ended = puller.pull("N")
    assert ended.cause == "pull_failed"
    assert "secret" not in ended.message
    record = read(puller.file())
    assert record is not None
    assert record.origin == hub.url


def test_a_server_that_is_no_hub_is_told(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.put(REPO, FILE, gguf(tmp_path))
    monkeypatch.setattr(constants, "HUGGINGFACE_HEADER_X_REPO_COMMIT", "X-Other")
    ended = Puller(tmp_path, hub_row()).pull()
    assert "names no commit or no etag; correct HF_ENDPOINT" in ended.message


# --- templates --------------------------------------------------------------------------------------


def test_another_template_is_a_mismatch_and_the_file_is_left_alone(
    hub: FakeHub, tmp_path: Path
) -> None:
    content = gguf(tmp_path, "another")
    hub.put(REPO, FILE, content)
    puller = Puller(tmp_path, hub_row())
    ended = puller.pull()
    assert ended.cause == "template_mismatch"
    found = hashlib.sha256(b"another").hexdigest()
    assert f"{FILE} has the template {found}, and the row pins {DIGEST}" in ended.message
    assert puller.file().read_bytes() == content
    state = puller.stock["M"]
    assert (state.state, state.bytes) == ("mismatch", len(content))
    assert found[:10] in state.reason
    assert Puller(tmp_path, hub_row()).state() == "mismatch"  # of the next start
    asked = hub.sent()
    assert puller.pull().cause == "template_mismatch"
    assert hub.sent() == asked  # the hub was looked at, and has nothing else
    hub.put(REPO, FILE, gguf(tmp_path))
    assert puller.pull().cause == ""
    assert puller.state() == "ready"


@pytest.mark.parametrize("template", [None, ""])
def test_no_template_is_a_mismatch(hub: FakeHub, tmp_path: Path, template: str | None) -> None:
    hub.put(REPO, FILE, gguf(tmp_path, template))
    assert Puller(tmp_path, hub_row()).pull().cause == "template_mismatch"


def test_a_file_that_is_no_model_is_a_mismatch(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, b"<html>" + noise(5000))
    ended = Puller(tmp_path, hub_row()).pull()
    assert ended.cause == "template_mismatch"
    assert "cannot be read" in ended.message


def test_a_further_file_that_is_served_must_match_too(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path))
    hub.put(REPO, "draft.gguf", gguf(tmp_path, "other", seed=2))
    extra = [{"file": "draft.gguf", "role": "draft", "template_sha256": DIGEST}]
    ended = Puller(tmp_path, hub_row(extra_files=extra)).pull()
    assert ended.cause == "template_mismatch"
    assert "draft.gguf has the template" in ended.message


def test_a_mismatch_stays_one_where_the_hub_is_gone(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path, "another"))
    puller = Puller(tmp_path, hub_row())
    puller.pull()
    hub.fault(REPO, FILE, Fault(status=500))
    assert puller.pull().cause == "template_mismatch"


def test_a_row_that_pins_nothing_takes_any_file(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, noise(9000))
    raw = hub_row(type="embedding")
    del raw["template_sha256"]
    assert Puller(tmp_path, raw).pull().cause == ""


# --- sources that are here already -------------------------------------------------------------------


def test_a_package_is_ready_and_asks_nobody(hub: FakeHub, tmp_path: Path) -> None:
    puller = Puller(tmp_path)
    assert puller.pull("SmolLM2-135M-Instruct").cause == ""
    assert {state.state for state in puller.stock.values()} == {"ready"}
    assert hub.asked == []


def test_a_path_is_checked_like_a_pulled_file(hub: FakeHub, tmp_path: Path) -> None:
    def at(name: str, template: str | None) -> dict[str, object]:
        raw = hub_row(name)
        del raw["hf_repo"], raw["file"]
        (tmp_path / name).write_bytes(gguf(tmp_path, template))
        return {**raw, "path": str(tmp_path / name)}

    good, bad, gone = at("good", "{{ messages }} €"), at("bad", "x"), at("gone", None)
    (tmp_path / "gone").unlink()
    puller = Puller(tmp_path, good, bad, gone)
    assert [puller.state(m) for m in ("good", "bad", "gone")] == [
        "ready",
        "mismatch",
        "missing",
    ]
    causes = [puller.pull(model).cause for model in ("good", "bad", "gone")]
    assert causes == ["", "template_mismatch", "pull_failed"]
    assert hub.asked == []


@pytest.mark.parametrize("source", [{"url": "http://127.0.0.1:1"}, {"tag": "small:1b"}])
def test_what_another_program_serves_is_its_affair(
    hub: FakeHub, tmp_path: Path, source: dict[str, str]
) -> None:
    raw = hub_row()
    del raw["hf_repo"], raw["file"]
    puller = Puller(tmp_path, raw | source)
    assert puller.state() == "ready"
    assert puller.pull().cause == ""
    assert hub.asked == []
