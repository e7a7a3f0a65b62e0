"""The builtin classifier: its answers, that they never change, and that damage is told."""

import math
import re
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import pytest

from workers.builtin.features import feature_names
from workers.builtin.model import LABELS, Builtin, confidence
from workers.builtin.portable import exp, ln
from workers.builtin.report import read_cases, tally
from workers.builtin.templates import expand
from workers.builtin.weights import WeightsDamagedError, unpack

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "laya"
BUILTIN = Builtin.load()
BLOB = (files("workers.builtin") / "weights.bin").read_bytes()
DEVELOPMENT = Path(__file__).with_name("prompts") / "dev.jsonl"

PLAIN = [
    ("code", "Write a Python function that returns the longest word in a list."),
    ("code", "fix the failing test in src/foo.py"),
    ("code", "SELECT * FROM users WHERE id = 5; why does this query do a full table scan?"),
    ("code", "I'm working on a Flask app and get KeyError: 'user'. Can you help me fix it?"),
    ("prose", "Write a short story about a lighthouse keeper who finds a letter."),
    ("prose", "Explain the causes and consequences of the French Revolution."),
    ("prose", "Draft a polite email to my landlord about the broken heating."),
    ("prose", "I keep putting off my thesis. What can I do to get back into a routine?"),
    ("short", "What is the capital of Norway?"),
    ("short", "17 * 23"),
    ("short", "Translate 'good night' to Italian."),
    ("short", "thanks!"),
    ("short", "How many ounces are in a pound?"),
]
# The same ask stays what it is, whoever asks and whatever is told around it.
ASKS = [
    ("code", "Write a script that renames all pictures in a folder."),
    ("prose", "Could you explain why the Roman Empire fell?"),
    ("short", "What is the capital of Peru?"),
]
TALK = [
    ("I'm a nurse and new to all of this. ", ""),
    ("I work as a backend developer, mostly with Postgres. ", ""),
    ("My colleague told me to ask you, he is on holiday. ", " Thanks a lot, Kay"),
    ("", " I've got a meeting about it tomorrow, so it is a bit urgent."),
]
EDGES = {
    "nothing": "",
    "blank": " \t\r\n",
    "nul": "\0" * 40,
    "lone surrogate": "write \ud800 code \udfff",
    "emoji": "\N{GRINNING FACE}" * 200,
    "one long word": "a" * 1023,
    "marks only": "{" * 1023,
    "slashes": "/" * 1023,
    "dots": "a." * 511,
    "another script": "напиши функцию, 素数を判定する",
    "over the gate": "explain this " * 2000,
}


@pytest.mark.parametrize(("label", "text"), PLAIN)
def test_a_plain_request_gets_its_class(label: str, text: str) -> None:
    assert BUILTIN.classify(text).label == label


@pytest.mark.parametrize(("before", "after"), TALK)
@pytest.mark.parametrize(("label", "ask"), ASKS)
def test_talk_around_an_ask_does_not_change_its_class(
    label: str, ask: str, before: str, after: str
) -> None:
    assert BUILTIN.classify(before + ask + after).label == label


def test_what_is_asked_after_a_long_paste_is_read() -> None:
    paste = "{[(;" * 200
    assert b"Atotal" in feature_names(f"{paste} what is the total?")
    assert b"Aexplain" in feature_names(f"explain this: {paste}")


def test_no_sentence_after_the_ask_counts_as_asking() -> None:
    names = feature_names("The harbour was cold. What is the total? It rained.")
    assert {b"Atotal", b"asking 1"} <= names
    assert not {b"Aharbour", b"Arained"} & names


def test_every_slot_and_alternative_of_our_own_prompts_is_filled() -> None:
    texts = [prompt.text for prompt in expand(seed=1, per_template=3)]
    slots = re.compile(r"\{[a-z_]{2,}\}|\[\[[^\[\]]*\|")
    assert len(texts) > 1000
    assert [text for text in texts if slots.search(text)] == []


def test_the_same_text_gets_the_same_verdict_every_time() -> None:
    verdicts = [Builtin.load().classify(PLAIN[3][1]) for _ in range(3)]
    verdicts += [BUILTIN.classify(PLAIN[3][1]) for _ in range(100)]
    assert all(verdict == verdicts[0] for verdict in verdicts)


@pytest.mark.slow
def test_the_verdict_does_not_depend_on_the_process_hash_seed() -> None:
    script = (
        "from workers.builtin.model import Builtin;"
        f"print(repr(Builtin.load().classify({PLAIN[3][1]!r})))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[3])},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("0", "1", "4711")
    }
    assert answers == {repr(BUILTIN.classify(PLAIN[3][1]))}


@pytest.mark.parametrize("text", EDGES.values(), ids=EDGES.keys())
def test_any_string_gets_a_whole_verdict(text: str) -> None:
    verdict = BUILTIN.classify(text)
    assert list(verdict.probabilities) == list(LABELS)
    assert sum(verdict.probabilities.values()) == pytest.approx(1.0)
    assert verdict.probabilities[verdict.label] == max(verdict.probabilities.values())
    assert 0.0 <= verdict.confidence <= 1.0


def test_curly_and_straight_quotes_are_the_same_to_it() -> None:
    curly, straight = "what\u2019s the capital of \u201cPeru\u201d", 'what\'s the capital of "Peru"'
    assert BUILTIN.classify(curly) == BUILTIN.classify(straight)


@pytest.mark.parametrize("text", [text[:1023] for text in EDGES.values()], ids=EDGES.keys())
def test_no_text_below_the_gate_takes_long(text: str) -> None:
    spent: list[float] = []
    for _ in range(5):
        started = time.process_time()
        BUILTIN.classify(text)
        spent.append(time.process_time() - started)
    # Generous, for a slow machine; MODEL_CARD.md has the measured time.
    assert min(spent) < 0.02


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ((0.8, 0.15, 0.05), 0.4421),
        ((0.9, 0.05, 0.05), 0.6410),
        ((0.6, 0.3, 0.1), 0.1827),
        ((1 / 3, 1 / 3, 1 / 3), 0.0),
        ((1.0, 0.0, 0.0), 1.0),
    ],
)
def test_confidence_is_one_minus_the_normalised_entropy(
    probabilities: tuple[float, ...], expected: float
) -> None:
    assert confidence(probabilities) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("x", [1e-300, 1e-9, 0.05, 1 / 3, 0.7071, 0.9999999, 1.0, 3.0, 1e9])
def test_the_portable_logarithm_is_the_logarithm(x: float) -> None:
    assert ln(x) == pytest.approx(math.log(x), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("x", [0.0, -1e-9, -0.5, -1.0, -17.3, -300.0, -744.0, -1e6])
def test_the_portable_exponential_is_the_exponential(x: float) -> None:
    assert exp(x) == pytest.approx(math.exp(x), rel=1e-13)


def test_the_verdict_carries_the_confidence_of_its_probabilities() -> None:
    verdict = BUILTIN.classify(PLAIN[0][1])
    assert verdict.confidence == confidence(verdict.probabilities.values())


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (b"", "not a weights file"),
        (b"PK\x03\x04" + BLOB, "not a weights file"),
        (BLOB[:8] + b"\x63" + BLOB[9:], "version 99"),
        (BLOB[:-1], "checksum"),
        (BLOB[:5000] + bytes([BLOB[5000] ^ 1]) + BLOB[5001:], "checksum"),
    ],
    ids=["empty", "another file", "newer version", "cut short", "one bit"],
)
def test_damaged_weights_are_refused_with_the_reason(blob: bytes, reason: str) -> None:
    with pytest.raises(WeightsDamagedError, match=reason):
        unpack(blob)


def test_the_weights_stay_small() -> None:
    assert len(BLOB) <= 300 * 1024


@pytest.mark.slow
def test_deciding_loads_neither_numpy_nor_the_training_modules() -> None:
    script = (
        "import sys; from workers.builtin.model import Builtin; Builtin.load().classify('hi');"
        "unwanted = {'numpy', *('workers.builtin.' + m for m in ('templates', 'fit', 'train'))};"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]"


def test_the_public_routing_cases_are_answered_with_at_most_one_in_twenty_wrong() -> None:
    cases = SHARED / "route_cases.json"
    if not cases.exists():
        pytest.skip(f"the labelled cases are not beside this checkout: {cases}")
    score = tally(read_cases(cases), BUILTIN)
    everything = (*LABELS, "long_doc")
    assert score.right(*everything) >= 0.95 * score.total(*everything)


def test_the_development_prompts_are_answered_with_at_most_one_in_twelve_wrong() -> None:
    cases = read_cases(DEVELOPMENT)
    score = tally(cases, BUILTIN)
    assert score.total(*LABELS) == len(cases) == 414
    for label in LABELS:
        assert score.right(label) >= 11 / 12 * score.total(label), label


def test_no_prompt_kept_for_scoring_is_a_training_prompt() -> None:
    pytest.importorskip("numpy", reason="numpy is a training dependency")
    from workers.builtin.train import PER_TEMPLATE, SEED

    trained = {prompt.text.lower() for prompt in expand(seed=SEED, per_template=PER_TEMPLATE)}
    for name in ("dev", "final"):
        cases = read_cases(DEVELOPMENT.with_name(f"{name}.jsonl"))
        assert [case.text for case in cases if case.text.lower() in trained] == []


@pytest.mark.slow
def test_training_again_gives_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="numpy is a training dependency")
    if not (SHARED / "train").is_dir():
        pytest.skip(f"the training prompts are not beside this checkout: {SHARED / 'train'}")
    from workers.builtin.train import main

    again = tmp_path / "weights.bin"
    assert main(["fit", str(SHARED / "train"), "--out", str(again)]) == 0
    assert again.read_bytes() == BLOB
