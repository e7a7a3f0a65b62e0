"""The llama-cpp scorer with a tiny random ModernBERT, beside the same model in float64."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from scheduler.settings import Scorer
from support.box import TREE
from support.gguf import Value, write_gguf
from support.modernbert import WIDTH, TinyModel, Weights, expected, write_safetensors
from workers.backend import Answer, BackendError
from workers.encoder import load
from workers.encoder.classifier import Classifier
from workers.encoder.errors import FailedDecision, UnusableModel
from workers.encoder.loading import load_pair
from workers.encoder.model import Encoder
from workers.encoder.questions import ROUTING, Question, choice, noul, score

MODEL = TinyModel()
SPECIAL = {MODEL.vocabulary.id_of(token) for token in ("[CLS]", "[SEP]", "[MASK]")}
TEXTS = (
    "", "Hi", "What is the capital of Norway?", "the question is a choice of code",
    "Write a Python function that returns the longest word in a list.",
    "naïve 日本語 🙂 e\u0301", "x" * 1023, "word " * 5000,
)  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("encoder")
    head = MODEL.write_head(folder / "head.safetensors")
    return MODEL.write_encoder(folder / "encoder.gguf"), head


@pytest.fixture(scope="module")
def encoder(files: tuple[Path, Path]) -> Iterator[Encoder]:
    encoder = Encoder(files[0], max_len=512, threads=1)
    yield encoder
    encoder.close()


@pytest.fixture(scope="module")
def classifier(files: tuple[Path, Path]) -> Iterator[Classifier]:
    classifier = load_pair(*files, 1)
    yield classifier
    classifier.close()


def gguf_head(keys: int) -> bytes:
    """Return the beginning of a GGUF with so many keys."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, keys)


def random_ids(count: int) -> list[int]:
    drawn = np.random.default_rng(count).integers(0, len(MODEL.vocabulary.tokens), count)
    return [int(token) for token in drawn]


def reference(classifier: Classifier, question: Question, state: object) -> list[float]:
    """Return the logits of the model in float64 for the sequence that is encoded."""
    layout = classifier._layout
    sequence = layout.complete(layout.prefix(question), state)
    rows = MODEL.rows(list(sequence.ids))
    logits = MODEL.logits(rows, question.kind, list(sequence.markers))
    return [float(logit) for logit in logits]


def shares(answer: Answer) -> list[float]:
    return list(answer.probabilities.values())


# --- the encoder ---


# 130: some tokens see all others only in every third layer
@pytest.mark.parametrize("count", [1, 2, 64, 65, 66, 130, 512])
def test_rows_are_those_of_the_reference(encoder: Encoder, count: int) -> None:
    ids = random_ids(count)
    difference = np.abs(encoder.rows(ids) - MODEL.rows(ids))
    assert difference.max() <= 2e-3


def test_a_window_wrong_by_one_would_be_noticed(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = random_ids(130)
    rows = encoder.rows(ids)
    for name, wrong in (("WINDOW", 63), ("WINDOW", 65), ("THETA_NEAR", 16e4), ("THETA_ALL", 1e4)):
        with monkeypatch.context() as patch:
            patch.setattr(f"support.modernbert.{name}", wrong)
            assert np.abs(rows - MODEL.rows(ids)).max() > 2e-2, (name, wrong)


def test_a_long_text_leaves_nothing_behind_for_a_short_one(encoder: Encoder) -> None:
    short = random_ids(20)
    alone = encoder.rows(short)
    encoder.rows(random_ids(512))
    assert (encoder.rows(short) == alone).all()


@pytest.mark.parametrize("count", [0, 513])
def test_a_batch_that_would_end_the_process_never_reaches_it(encoder: Encoder, count: int) -> None:
    with pytest.raises(FailedDecision, match=f"{count} tokens do not fit into 512"):
        encoder.rows([1] * count)


def test_the_special_tokens_are_those_the_file_names(encoder: Encoder) -> None:
    id_of = MODEL.vocabulary.id_of
    special = encoder.special
    assert (special.cls, special.sep) == (id_of("[CLS]"), id_of("[SEP]"))
    assert (special.mask, special.mask_text) == (id_of("[MASK]"), "[MASK]")


@pytest.mark.parametrize("text", ["[CLS]", "a[SEP]b", "[MASK]", " [PAD] "])
def test_no_special_token_is_read_out_of_a_text(encoder: Encoder, text: str) -> None:
    ids = encoder.tokenize(text)
    assert "".join(MODEL.vocabulary.tokens[token] for token in ids).replace("Ġ", " ") == text
    assert not SPECIAL & set(ids)


def test_nothing_is_added_to_a_text(encoder: Encoder) -> None:
    assert encoder.tokenize("") == []
    assert encoder.tokenize(" question") == [MODEL.vocabulary.id_of("Ġquestion")]
    assert encoder.tokenize("\ud800") == encoder.tokenize("?")


# --- end to end ---


@pytest.mark.parametrize("text", TEXTS)
def test_a_decision_is_the_references(classifier: Classifier, text: str) -> None:
    answer = classifier.classify(text)
    probabilities, confidence = expected(np.array(reference(classifier, ROUTING, text)), 1.760)
    assert shares(answer) == pytest.approx(probabilities.tolist(), abs=2e-3)
    assert answer.confidence == pytest.approx(confidence, abs=2e-3)
    assert answer.label == ROUTING.labels[int(probabilities.argmax())]


def test_the_texts_of_these_tests_are_told_apart(classifier: Classifier) -> None:
    assert len({classifier.classify(text).label for text in TEXTS}) > 1


@pytest.mark.parametrize(
    ("question", "temperature"),
    [
        (choice("Which?", {"a": "first", "b": None}), 1.906),
        (choice("Which?", {f"label {number}": "some words" for number in range(16)}), 0.5),
        (score("How much?", ["none", "some", "all"]), 1.2514),
        (noul("It rains."), 1.9834),
    ],
)
def test_other_questions_are_the_references_too(
    classifier: Classifier, question: Question, temperature: float
) -> None:
    state = {"weather": ["rain", "über"]}
    answer = classifier.ask(question, state)
    probabilities, _ = expected(np.array(reference(classifier, question, state)), temperature)
    assert tuple(answer.probabilities) == question.labels
    assert shares(answer) == pytest.approx(probabilities.tolist(), abs=4e-3)


@pytest.mark.slow
def test_the_same_text_is_decided_the_same_100_times(classifier: Classifier) -> None:
    first = classifier.classify(TEXTS[3])
    for number in range(100):
        if number % 10 == 0:
            classifier.classify(f"another {number}")
        assert classifier.classify(TEXTS[3]) == first


def test_a_second_load_decides_the_same(files: tuple[Path, Path], classifier: Classifier) -> None:
    second = load_pair(*files, 1)
    assert second.classify(TEXTS[4]) == classifier.classify(TEXTS[4])
    second.close()


@pytest.mark.parametrize("text", ["y" * 10**6, "\0" * 10**5, "\ud800" * 10**5, "[MASK]" * 10**5])
def test_no_text_is_too_long_or_too_odd(classifier: Classifier, text: str) -> None:
    assert sum(shares(classifier.classify(text))) == pytest.approx(1.0)


def test_options_that_do_not_fit_fail_one_question_and_not_the_next(classifier: Classifier) -> None:
    with pytest.raises(BackendError, match="of the question's 300 options fit"):
        classifier.ask(choice("?", {f"label {number}": None for number in range(300)}), "")
    assert classifier.classify("Hi") == classifier.classify("Hi")


def test_a_closed_model_fails_and_closes_once_more(files: tuple[Path, Path]) -> None:
    classifier = load_pair(*files, 1)
    classifier.close()
    classifier.close()
    with pytest.raises(BackendError, match="closed"):
        classifier.classify("Hi")


# --- files that do not fit ---


def test_the_settings_name_the_pair(files: tuple[Path, Path], classifier: Classifier) -> None:
    gguf, head = map(str, files)
    backend = load(Scorer(backend="llama-cpp", gguf=gguf, head=head))
    assert backend.name == "llama-cpp cpu"
    assert backend.classify("Hi").label == classifier.classify("Hi").label
    backend.close()


def test_no_library_of_its_takes_a_thread_for_each_processor(files: tuple[Path, Path]) -> None:
    program = """
import os, sys
from scheduler.settings import Scorer
from workers.encoder import load
assert "numpy" not in sys.modules
load(Scorer(backend="llama-cpp", gguf=sys.argv[1], head=sys.argv[2])).classify("Hi")
print(len(os.listdir("/proc/self/task")))
"""
    environ = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    shown = subprocess.run(
        [sys.executable, "-c", program, *map(str, files)],
        env=environ | {"PYTHONPATH": str(TREE)},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    half = max(1, (os.cpu_count() or 2) // 2)
    assert int(shown.stdout) <= 2 * half - 1  # numpy's and llama.cpp's share the first


def test_a_device_it_has_not_is_refused(files: tuple[Path, Path]) -> None:
    gguf, head = map(str, files)
    with pytest.raises(BackendError, match=r"scorer\.device is 'cuda:0'"):
        load(Scorer(backend="llama-cpp", gguf=gguf, head=head, device="cuda:0"))


@pytest.mark.parametrize("architecture", ["ggmlc", "laya", "llama", "bert"])
def test_another_architecture_is_refused_and_what_can_read_it_is_named(
    tmp_path: Path, architecture: str
) -> None:
    values: dict[str, Value] = {
        "general.name": "x",
        "tokenizer.ggml.tokens": ["a", "b"],
        "x.ids": [1, 2],
    }
    path = write_gguf(tmp_path / "m.gguf", {**values, "general.architecture": architecture}, {})
    with pytest.raises(UnusableModel) as caught:
        Encoder(path, max_len=512, threads=1)
    assert f"its architecture is '{architecture}'" in str(caught.value)
    assert 'set scorer.backend = "laya-daemon"' in str(caught.value)


def test_llama_cpps_own_reason_is_in_the_error_and_not_on_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"general.architecture": "modern-bert"}, {})
    with pytest.raises(UnusableModel, match=r"llama\.cpp cannot load it: .*key not found"):
        Encoder(path, max_len=512, threads=1)
    assert capfd.readouterr() == ("", "")


def test_an_encoder_that_lacks_a_tensor_is_refused(tmp_path: Path) -> None:
    model = TinyModel()
    del model.encoder["blk.3.attn_qkv.weight"]
    with pytest.raises(UnusableModel, match=r"'blk\.3\.attn_qkv\.weight' not found"):
        Encoder(model.write_encoder(tmp_path / "m.gguf"), max_len=512, threads=1)


@pytest.mark.parametrize("kept", [4, 23, 40, 200, 6000])
def test_a_file_cut_off_is_refused(files: tuple[Path, Path], tmp_path: Path, kept: int) -> None:
    (tmp_path / "m.gguf").write_bytes(files[0].read_bytes()[:kept])
    with pytest.raises(UnusableModel):
        Encoder(tmp_path / "m.gguf", max_len=512, threads=1)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"no model at all" * 9, b"GGUF" + b"\xff" * 60,
        gguf_head(2**60) + struct.pack("<Q", 2**60),
        gguf_head(1) + struct.pack("<Q1sIQ", 1, b"x", 8, 2**60),
        gguf_head(1) + struct.pack("<Q1sIIQ", 1, b"x", 9, 8, 2**60),
        gguf_head(1) + struct.pack("<Q1sIIQ", 1, b"x", 9, 4, 2**60),
        gguf_head(1) + struct.pack("<Q1sI", 1, b"x", 77),
    ],
)  # fmt: skip
def test_what_is_no_gguf_never_reaches_llama_cpp(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(UnusableModel, match="not a whole GGUF file"):
        Encoder(tmp_path / "m.gguf", max_len=512, threads=1)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableModel, match="there is no such file"):
        Encoder(tmp_path / "m.gguf", max_len=512, threads=1)


@pytest.mark.parametrize("key", ["mask", "seperator"])
def test_a_vocabulary_without_a_token_it_needs_is_refused(tmp_path: Path, key: str) -> None:
    dropped: dict[str, None] = {f"tokenizer__ggml__{key}_token_id": None}
    if key == "seperator":
        dropped["tokenizer__ggml__eos_token_id"] = None
    path = MODEL.write_encoder(tmp_path / "m.gguf", **dropped)
    with pytest.raises(UnusableModel, match=rf"its vocabulary has no tokenizer\.ggml\.{key}"):
        Encoder(path, max_len=512, threads=1)


def test_an_encoder_shorter_than_its_head_is_refused(tmp_path: Path) -> None:
    path = MODEL.write_encoder(tmp_path / "m.gguf", **{"modern-bert__context_length": 256})
    with pytest.raises(UnusableModel, match="it reads 256 tokens and its head 512"):
        Encoder(path, max_len=512, threads=1)


def test_a_head_of_another_width_is_refused(tmp_path: Path, files: tuple[Path, Path]) -> None:
    narrow: dict[str, Weights] = {"type_emb.weight": np.ones((3, 64))}
    names = {"scorer.0": (64,), "scorer.1": (64, 64), "scorer.3": (1, 64)}
    for name, shape in names.items():
        narrow |= {f"{name}.weight": np.ones(shape), f"{name}.bias": np.ones(shape[0])}
    config = '{"head_layers": 0}'
    path = write_safetensors(tmp_path / "h", narrow, {"laya.config": config})
    with pytest.raises(UnusableModel, match=f"rows of 64 numbers; those of .* have {WIDTH}"):
        load_pair(files[0], path, 1)


def test_what_a_load_took_is_given_back(files: tuple[Path, Path]) -> None:
    load_pair(*files, 1).close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        load_pair(*files, 1).close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
