"""Servers that somebody else runs: asked, never started, never ended; and several engines in one worker."""

import queue
from pathlib import Path
from typing import Any

import pytest

from policies.table import Row
from scheduler.settings import EngineConf, Settings
from support.engines import bench, fake, row, url_row
from support.ports import free_port
from support.servers import server
from support.wait import at_best, until
from workers.engines import Engines, engine_of
from workers.job import End, Error, Job, Outcome
from workers.null import NullEngine
from workers.pinned import load_pinned
from workers.upstream.call import target_of

SLOW = ("--tokens", 400, "--token-ms", 20)


def test_a_neighbour_is_asked_by_its_tag_with_its_key_and_lives_on(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret\n")
    with server(tmp_path, "well", "--key", "secret") as other:
        there = EngineConf(url=other.url, key_file=str(key))
        tagged = row(path=None, tag="qwen3:0.6b", engine="there")
        with bench(tmp_path / "run", tagged, there=there) as engines:
            assert isinstance(engines.run().end, End)
            assert engines.engines.resident() == ["m"]
            assert engines.engines.sizes() == {}
            assert engines.engines.backend == "there, backend unknown (neighbour)"
            engines.unload("m")
            assert engines.engines.resident() == []
        assert '"model":"qwen3:0.6b"' in other.asked()[0]["body"].replace(": ", ":")
        assert other.process.poll() is None


@pytest.mark.parametrize(
    ("given", "conf", "words"),
    [
        ({}, {"key_file": "/no/such/key"}, "the key file /no/such/key cannot be read"),
        ({}, {"ready": "/nothing"}, "is not well: it says 404"),
        ({"url": "http://127.0.0.1:9"}, {}, "does not answer: no connection: Connection refused"),
        ({"url": None, "tag": "t"}, {}, "neither the row nor engines.there has a url"),
        ({"url": None, "tag": "t"}, {"url": "unix:/x"}, "unix:/x is no http address"),
    ],
)
def test_a_neighbour_that_cannot_be_used_says_why(
    given: dict[str, str], conf: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with server(tmp_path, "well") as other:
        there = url_row("m", **{"url": other.url, "engine": "there", **given})
        with bench(tmp_path / "run", there, there=EngineConf(**conf)) as engines:
            error = engines.run().end
            assert isinstance(error, Error)
            assert (error.status, error.code) == (503, "model_not_usable")
            assert error.facts["cause"] == "load_failed"
            assert words in error.message


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_an_address_may_end_as_openais_clients_have_it(end: str, tmp_path: Path) -> None:
    with server(tmp_path, "no-health") as other:
        there = url_row("m", f"{other.url}{end}")
        with bench(tmp_path / "run", there) as engines:
            assert isinstance(engines.run().end, End)


@pytest.mark.parametrize(
    ("url", "address", "authority"),
    [
        ("http://[::1]:8000/api/v1", "http://[::1]:8000/api", "[::1]:8000"),
        ("https://box.local", "https://box.local:443", "box.local:443"),
        ("http://127.0.0.1/v1beta", "http://127.0.0.1:80/v1beta", "127.0.0.1:80"),
    ],
)
def test_an_address_is_read_as_a_url(url: str, address: str, authority: str) -> None:
    target = target_of(url)
    assert (str(target), target.authority) == (address, authority)


def test_a_key_that_is_refused_is_ours_to_mend_and_not_the_clients(tmp_path: Path) -> None:
    with (
        server(tmp_path, "well", "--key", "another") as other,
        bench(tmp_path / "run", url_row("m", other.url)) as engines,
    ):
        error = engines.run().end
        assert isinstance(error, Error)
        assert (error.status, error.code) == (503, "model_not_usable")
        assert error.facts["cause"] == "load_failed"  # so that another row may answer
        assert "engines.url.key_file" in error.message


@pytest.mark.parametrize("text", ["one\ntwo", "schl\u00fcssel", "a\x00b", ""])
def test_a_key_file_that_holds_no_key_is_named_and_its_words_are_not(
    text: str, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(text)
    with server(tmp_path, "well") as other:
        there = EngineConf(url=other.url, key_file=str(key))
        with bench(
            tmp_path / "run", row(path=None, tag="t", engine="there"), there=there
        ) as engines:
            error = engines.run().end
    assert isinstance(error, Error)
    assert (error.status, error.code) == (503, "model_not_usable")
    assert f"the key file {key} must hold the key on one line" in error.message
    assert not text or text not in error.message


def test_a_neighbour_that_goes_and_comes_back_is_noticed(tmp_path: Path) -> None:
    port = ("--port", free_port())  # it comes back at the same address
    with server(tmp_path, "well", *port) as other:
        url = other.url
        engines_of = bench(tmp_path / "run", url_row("m", url))
        with engines_of as engines:
            assert isinstance(engines.run().end, End)
            other.process.kill()
            other.process.wait()
            assert isinstance(engines.run().end, Error)
            with server(tmp_path, "well", *port):

                def answers() -> bool:
                    return isinstance(engines.run().end, End)

                until(answers, "an answer")


@pytest.mark.parametrize(("idle", "within_s"), [("/slots", 0.5), ("", 1.5)])
def test_a_cancelled_job_leaves_a_neighbour_alone(
    idle: str, within_s: float, tmp_path: Path
) -> None:
    with server(tmp_path, "well", *SLOW) as other:
        there = EngineConf(idle=idle, cancel_grace_s=1.0)
        with bench(
            tmp_path / "run", url_row("m", other.url, engine="there"), there=there
        ) as engines:

            def ended_s() -> float:
                lease = engines.begin()
                engines.until_piece(lease)
                took_s = engines.cancel(lease)
                assert took_s >= within_s - 0.5
                until(
                    lambda: not any(slot["is_processing"] for slot in other.slots()), "an idle slot"
                )
                return took_s

            at_best(ended_s, within_s, "seconds until a cancelled job had ended")
        assert other.process.poll() is None


@pytest.mark.parametrize(
    ("given", "default", "engine"),
    [
        ({"engine": None}, "llama", "llama-cpp-python"),
        ({"engine": None}, "mine", "mine"),
        ({"engine": "1bit"}, "mine", "1bit"),
        ({"engine": None, "path": None, "url": "http://127.0.0.1:1"}, "llama", "url"),
        ({"engine": "there", "path": None, "url": "http://127.0.0.1:1"}, "llama", "there"),
    ],
)
def test_a_rows_engine_is_its_own_or_the_settings(
    given: dict[str, str], default: str, engine: str
) -> None:
    assert engine_of(row(**given), default) == engine


def test_one_worker_has_rows_of_several_engines(tmp_path: Path) -> None:
    """And what a grant evicts has left its own engine before the other one's row is loaded."""
    rows: dict[str, Row] = {
        "child": row("child", slots=3),
        "here": row("here", engine="llama-cpp-python"),
    }
    settings = Settings(run_dir=str(tmp_path), engines={"fake": fake()})
    engines = Engines(
        "hrx", settings, rows, load_pinned("", is_strict=False), lambda: NullEngine(1)
    )
    said: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def run(model: str, *evict: str) -> End | Error:
        body = b'{"messages":[{"role":"user","content":"hi"}]}'
        engines.start(Job(1, "chat", model, False, "c", body, list(evict)), said.put)
        while not isinstance(outcome := said.get(timeout=60), End | Error):
            pass
        return outcome

    try:
        assert engines.backend == "fake, backend unknown (child), null"
        assert (engines.by_row, engines.slots) == (True, 3)
        assert isinstance(run("child"), End)
        assert engines.resident() == ["child"]
        assert isinstance(run("here", "child"), End)
        assert engines.resident() == ["here"]
        assert isinstance(run("child", "here"), End)
        assert engines.resident() == ["child"]
        assert engines.sizes()["child"] > Path(rows["child"].path or "").stat().st_size
    finally:
        engines.close()
