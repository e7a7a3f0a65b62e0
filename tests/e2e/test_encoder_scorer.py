"""The llama-cpp backend in the scorer of a real box, with a tiny random model: what the gateway says is what
the same model says in float64."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from support.asking import Daemon
from support.box import Box
from support.http import CHAT, Reply, call, chat
from support.modernbert import TinyModel, expected
from support.wait import until
from workers.encoder.layout import Layout, Limits, Special
from workers.encoder.model import Encoder
from workers.encoder.questions import ROUTING

MODEL = TinyModel()
TEXTS = ("What is the capital of Norway?", "Fix this loop.", "the is in a", "é" * 400)
_numbers = count()


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return MODEL.write_encoder(tmp_path_factory.mktemp("model") / "encoder.gguf")


@pytest.fixture(scope="module")
def encoder_box(gguf: Path) -> Iterator[Box]:
    """A box that decides with the pair; its processor may be busy, so no answer is too slow for it."""
    with Box(**settings(gguf, MODEL.write_head(gguf.with_name("head.safetensors")))) as box:
        yield box


def settings(gguf: Path, head: Path) -> dict[str, object]:
    return {
        "workers__engine": "null",
        "scorer__backend": "llama-cpp",
        "scorer__gguf": gguf,
        "scorer__head": head,
        "scorer__slow_ms": 0,
    }


def ask(box: Box, text: str, key: str = "") -> Reply:
    own = {"x-fairlane-conversation": key or f"encoder-{next(_numbers)}"}
    return call(box.url, CHAT, chat(text), own)


def decided(box: Box, text: str) -> Reply:
    """Ask until the scorer answered in time, which a busy machine may not at first."""
    return until(
        lambda: reply if "why" not in (reply := ask(box, text)).outputs else None, "a decision"
    )


def reference(gguf: Path, text: str) -> tuple[str, float]:
    """Return the class and the confidence in float64; only the tokenizer is llama.cpp's."""
    encoder = Encoder(gguf, max_len=512, threads=1)
    id_of = MODEL.vocabulary.id_of
    special = Special(id_of("[CLS]"), id_of("[SEP]"), id_of("[MASK]"))
    layout = Layout(encoder.tokenize, special, Limits(512, 192))
    sequence = layout.complete(layout.prefix(ROUTING), text)
    encoder.close()
    logits = MODEL.logits(MODEL.rows(list(sequence.ids)), "choice", list(sequence.markers))
    shares, confidence = expected(np.array(logits), 1.760)
    return ROUTING.labels[int(shares.argmax())], confidence


@pytest.mark.parametrize("text", TEXTS)
def test_header_class_and_confidence_are_the_references(
    encoder_box: Box, gguf: Path, text: str
) -> None:
    class_, confidence = reference(gguf, text)
    reply = decided(encoder_box, text)
    assert reply.headers["x-lemonade-route"] == f"laya-{class_}"
    assert reply.outputs["class"] == class_
    assert reply.outputs["confidence"] == pytest.approx(confidence, abs=2e-3)


def test_the_texts_are_told_apart(gguf: Path) -> None:
    assert len({reference(gguf, text)[0] for text in TEXTS}) > 1


def test_status_names_who_decides(encoder_box: Box) -> None:
    (scorer,) = encoder_box.status()["scorers"]
    assert scorer["backend"] == "llama-cpp cpu"


def test_a_document_is_none_of_its_business(encoder_box: Box) -> None:
    outputs = ask(encoder_box, "é" * 512).outputs
    assert (outputs["class"], outputs["confidence"]) == ("long_doc", 1.0)


def test_a_pair_that_does_not_fit_leaves_a_box_that_serves_and_says_why(
    tmp_path: Path, gguf: Path
) -> None:
    head = tmp_path / "head.safetensors"
    head.write_bytes(b"no head")
    with Box(**settings(gguf, head)) as box:
        assert ask(box, "Hi").headers["x-lemonade-route"] == "default; why=scorer_down"
        said = [record for record in box.log() if record["action"] == "backend_down"]
    assert said
    assert "not a whole safetensors file" in said[0]["reason"]


def test_route_serve_answers_with_the_pair(gguf: Path) -> None:
    head = MODEL.write_head(gguf.with_name("served.safetensors"))
    home = Box(**settings(gguf, head))
    with Daemon(home.environ) as daemon:
        assert daemon.read() == {"status": "ready", "model": "llama-cpp cpu"}
        for text in TEXTS:
            class_, confidence = reference(gguf, text)
            reply = daemon.ask({"text": text})
            assert reply["class"] == reply["answers"]["cls"]["choice"] == class_
            assert reply["confidence"] == pytest.approx(confidence, abs=2e-3)
            assert sum(reply["answers"]["cls"]["probabilities"].values()) == pytest.approx(
                1.0, abs=2e-4
            )
        assert daemon.ask({"text": "a" * 1024})["class"] == "long_doc"
        assert daemon.end() == 0
    home.close()
