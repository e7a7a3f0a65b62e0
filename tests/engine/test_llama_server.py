"""A real model at a real server: llama-cpp-python's own, as a child."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

from policies import shipped
from policies.table import Row
from support.box import lives
from support.engines import Bench, bench, row
from support.wait import at_best, until
from workers.job import End, Error, Stage

GRACE_S = 2.0  # after which a server that works on for a cancelled job is killed
LONG: list[dict[str, Any]] = [{"role": "user", "content": "word " * 1800}]
STORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Write a very long story about the sea, with many chapters."}
]


def small(model: str) -> Row:
    """Return a row of the embedded model at its server."""
    of = json.loads(shipped.read("embedded.json"))["rows"][0]
    source = {name: of[name] for name in ("package", "file", "template_sha256", "json_schema")}
    return row(model, ctx=2048, path=None, engine="llama-cpp-server", **source)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("run"), small("m"), small("n")) as one:
        yield one


def children() -> list[psutil.Process]:
    """Return the living servers."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it ends just now
            if "llama_cpp.server" in child.cmdline():
                found.append(child)
    return [one for one in found if lives(one)]


def test_it_is_loaded_once_and_streams_what_it_says_whole(engines: Bench) -> None:
    streamed = engines.run(max_tokens=12, temperature=0)
    assert isinstance(streamed.end, End)
    whole = engines.run(max_tokens=12, temperature=0, stream=False)
    assert isinstance(whole.end, End)
    reply = json.loads(whole.end.body)
    assert streamed.stages == ["load", "prefill"]
    assert whole.stages == ["prefill"]
    assert streamed.text == reply["choices"][0]["message"]["content"]
    assert len(streamed.pieces) >= 12  # token by token
    assert {json.loads(piece.body)["model"] for piece in streamed.pieces} == {"m"}
    assert reply["model"] == "m"
    assert (whole.end.prompt_tokens, whole.end.output_tokens) == (
        reply["usage"]["prompt_tokens"],
        reply["usage"]["completion_tokens"],
    )
    assert engines.engines.backend == "llama.cpp cpu (child)"


def test_it_is_polite(engines: Bench) -> None:
    engines.run(max_tokens=1)
    (child,) = children()
    assert child.nice() >= psutil.Process().nice() + 10


def test_a_prompt_that_is_too_long_is_refused_in_the_servers_words(engines: Bench) -> None:
    error = engines.run(messages=[{"role": "user", "content": "word " * 3000}], stream=False).end
    assert isinstance(error, Error)
    assert (error.status, error.code) == (400, "context_length_exceeded")
    assert "2048" in error.message


def test_a_cancel_while_it_writes_leaves_it_loaded(engines: Bench) -> None:
    def idle_s() -> float:
        lease = engines.begin(messages=STORY, max_tokens=1500, temperature=1.5)
        engines.until_piece(lease)
        took_s = engines.cancel(lease)
        resident = engines.engines.resident()
        assert resident == (["m"] if took_s < GRACE_S else [])
        return took_s

    at_best(idle_s, GRACE_S, "seconds until a server that was writing was idle")


def test_a_cancel_while_it_reads_kills_it_after_the_grace(engines: Bench) -> None:
    """It stops for nobody while it reads a prompt: measured, it works on for 10 to 19 s."""

    def killed_s() -> float:
        engines.run(max_tokens=1)
        (child,) = children()
        lease = engines.begin(messages=LONG, max_tokens=4)
        while engines.next(lease) != Stage(lease, "prefill"):
            pass
        until(lambda: child.cpu_percent(0.2) > 5, "the prompt being read")
        took_s = engines.cancel(lease)
        assert took_s >= GRACE_S
        assert children() == []
        assert engines.run(max_tokens=1).stages == ["load", "prefill"]
        return took_s

    at_best(killed_s, 2 * GRACE_S, "seconds until a server that was reading was killed")


def test_two_rows_are_two_servers_and_one_that_crashes_takes_nothing_else_down(
    engines: Bench,
) -> None:
    for model in ("m", "n"):
        engines.run(model, max_tokens=1)
    assert sorted(engines.engines.resident()) == ["m", "n"]
    lease = engines.begin("n", messages=STORY, max_tokens=1500)
    engines.until_piece(lease)
    victim = next(one for one in children() if "n" in one.cmdline())
    victim.kill()
    broke = engines.rest(lease).end
    assert isinstance(broke, Error)
    assert broke.code == "engine_crashed"
    assert "SIGKILL" in broke.message
    assert engines.engines.resident() == ["m"]
    assert engines.run("n", max_tokens=1).stages == ["load", "prefill"]
    engines.unload("n")
    assert engines.engines.resident() == ["m"]
