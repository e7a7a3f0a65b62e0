"""The seam to models over the bus: what is asked under which name, and how failures show."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.errors import Refused
from scheduler.wire import messages as wire
from support.helping import BUILTIN, Bus, chat_reply, embedding_reply, refused
from workers.circuit import InPlace
from workers.models import Models
from workers.payloads import PayloadError


def models(bus: Bus, within_s: float = 5.0) -> Models:
    return Models(bus.endpoint, "a lane", time.monotonic() + within_s, InPlace(BUILTIN))


def says(text: str) -> Callable[[wire.Ask, dict[str, Any]], bytes]:
    return lambda _ask, _body: chat_reply(text)


def test_a_chat_is_an_ordinary_request_of_the_asking_lane(tmp_path: Path) -> None:
    with Bus(tmp_path, says("chosen")) as bus:
        seam = models(bus)
        assert seam.chat("m", "be brief", "hello") == "chosen"
        seam.close()
    ask, body = bus.asked[0]
    assert (ask.op, ask.name, ask.lane, ask.stream) == ("chat", "m", "a lane", False)
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == "/no_think\nhello"


def test_a_chat_is_asked_with_upstreams_parameters(tmp_path: Path) -> None:
    with Bus(tmp_path, says("{}")) as bus:
        seam = models(bus)
        seam.chat("m", "s", "u")
        seam.close()
    _, body = bus.asked[0]
    assert (body["temperature"], body["max_tokens"]) == (0, 256)
    assert body["response_format"] == {"type": "json_object"}
    assert body["reasoning_effort"] == "none"
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_the_call_expires_with_the_decision(tmp_path: Path) -> None:
    with Bus(tmp_path, says("{}")) as bus:
        before = time.monotonic()
        seam = models(bus, 30.0)
        after = time.monotonic()
        seam.chat("m", "s", "u")
        seam.close()
    assert before + 30.0 <= bus.asks[0].expires_at <= after + 30.0


def test_an_embedding_is_the_rows_vector(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda _ask, _body: embedding_reply(0.5, -1.0)) as bus:
        seam = models(bus)
        assert list(seam.embed("e", "")) == [0.5, -1.0]
        seam.close()
    ask, body = bus.asked[0]
    assert (ask.op, ask.name, body["input"]) == ("embed", "e", "")


def test_a_classifier_is_a_chat_model_asked_for_scores(tmp_path: Path) -> None:
    with Bus(tmp_path, says('{"spam": 0.75}')) as bus:
        seam = models(bus)
        assert seam.run_classifier("m", "buy") == {"spam": 0.75}
        seam.close()
    assert "buy" in bus.asked[0][1]["messages"][1]["content"]


def test_scores_that_cannot_be_read_are_a_failure(tmp_path: Path) -> None:
    with Bus(tmp_path, says("I think it is spam.")) as bus:
        seam = models(bus)
        with pytest.raises(PayloadError):
            seam.run_classifier("m", "buy")
        seam.close()


def test_a_refusal_is_a_failure(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda ask, _body: refused(ask)) as bus:
        seam = models(bus)
        with pytest.raises(Refused):
            seam.chat("m", "s", "u")
        seam.close()


def test_laya_is_the_backends_word_and_asks_nobody(tmp_path: Path) -> None:
    with Bus(tmp_path, says("")) as bus:
        seam = models(bus)
        label, confidence = seam.classify_laya("What is the capital of Norway?")
        seam.close()
    assert label == "short"
    assert 0.0 <= confidence <= 1.0
    assert bus.asked == []


def test_a_call_of_a_decision_that_is_due_is_asked_as_expired(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda ask, _body: refused(ask)) as bus:
        seam = models(bus, -1.0)
        with pytest.raises(Refused):
            seam.chat("m", "s", "u")
        seam.close()
        assert bus.asks[0].expires_at <= time.monotonic()


def test_a_call_is_withdrawn_when_the_decision_is_due(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda ask, _body: wire.Ack(ask.id)) as bus:
        # a daemon, so that a call which never returns is a failure and no hang
        waiting = threading.Thread(target=give_up, args=(models(bus, 1.0),), daemon=True)
        waiting.start()
        waiting.join(30.0)
        assert not waiting.is_alive()
        bus.hear_cancel(bus.asks[0].id)


def give_up(seam: Models) -> None:
    with pytest.raises((Refused, TimeoutError)):
        seam.chat("m", "s", "u")
    seam.close()
