"""`fairlane route`: a real child that is driven as other programs drive it, and the one-text form."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from support.asking import CRITERIA, QUESTIONS, Daemon
from support.box import TREE, Box

CODE = "Write a Rust function that reverses a linked list."
SHORT = "What is 17*23?"


@pytest.fixture(scope="module")
def home() -> Iterator[Box]:
    """Directories and an environment of this module's own; no box is started."""
    box = Box()
    yield box
    box.close()


@pytest.fixture
def daemon(home: Box) -> Iterator[Daemon]:
    with Daemon(home.environ) as daemon:
        assert daemon.read() == {"status": "ready", "model": "builtin"}
        yield daemon


# --- --serve --------------------------------------------------------------------------------------


def test_a_question_in_the_daemons_words_is_answered(daemon: Daemon) -> None:
    reply = daemon.ask({"state": CODE, "questions": QUESTIONS})
    assert reply["answers"]["cls"]["choice"] == "code"
    assert reply["answers"]["cls"]["probabilities"].keys() == CRITERIA.keys()
    assert reply["id"] == "0"


def test_a_text_gets_class_confidence_and_why(daemon: Daemon) -> None:
    reply = daemon.ask({"id": 1, "text": SHORT})
    assert (reply["id"], reply["class"], reply["why"]) == (1, "short", "scorer")
    assert 0.0 < reply["confidence"] <= 1.0


def test_the_same_text_gets_the_same_answer_a_hundred_times(daemon: Daemon) -> None:
    def steady(reply: dict[str, object]) -> str:
        return json.dumps({k: v for k, v in reply.items() if k != "usage"})

    assert len({steady(reply) for reply in daemon.ask_all([{"text": CODE}] * 100)}) == 1


def test_requests_sent_at_once_are_answered_in_order(daemon: Daemon) -> None:
    replies = daemon.ask_all({"id": n, "text": f"{n} and {n}"} for n in range(200))
    assert [reply["id"] for reply in replies] == list(range(200))


@pytest.mark.parametrize(
    "line",
    [b"hello\n", b"\0\n", b"\xff\xfe\n", b"[" * 60_000 + b"\n", b'{"id":5}\n', b"[1]\n",
     b'{"text":5}\n', b'{"text":"a","questions":{"q":{"type":"score"}}}\n', b"{}\n", b'"\n'],
    ids=["words", "NUL", "not UTF-8", "deep", "no questions", "a list", "a number", "a score",
         "nothing", "half a string"],
)  # fmt: skip
def test_a_bad_line_gets_an_error_line_and_the_next_an_answer(daemon: Daemon, line: bytes) -> None:
    assert "error" in daemon.ask(line)
    assert daemon.ask({"text": CODE})["class"] == "code"


def test_a_huge_line_is_refused_in_little_memory(daemon: Daemon) -> None:
    daemon.ask({"text": CODE})
    before = psutil.Process(daemon.process.pid).memory_info().rss
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(daemon.say, b'{"text":"' + b"x" * 200_000_000 + b'"}\n')
        assert "longer than" in daemon.read()["error"]
        sent.result()
    assert daemon.ask({"text": CODE})["class"] == "code"
    assert psutil.Process(daemon.process.pid).memory_info().rss - before < 20_000_000


def test_the_end_of_its_input_ends_it_with_status_0(daemon: Daemon) -> None:
    daemon.say(json.dumps({"id": 9, "text": CODE}).encode())  # a last line without an end
    daemon.stdin.close()
    assert daemon.read()["id"] == 9
    assert (daemon.process.wait(timeout=60), daemon.errors()) == (0, "")


def test_a_client_that_stops_reading_ends_it_quietly(daemon: Daemon) -> None:
    daemon.stdout.close()
    daemon.say({"text": CODE})
    assert (daemon.process.wait(timeout=60), daemon.errors()) == (0, "")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_a_signal_ends_it_without_a_trace(daemon: Daemon, number: int, status: int) -> None:
    daemon.ask({"text": CODE})
    daemon.process.send_signal(number)
    assert (daemon.process.wait(timeout=60), daemon.errors()) == (status, "")


# --- one text -------------------------------------------------------------------------------------


def test_classify_prints_class_confidence_and_device(home: Box) -> None:
    shown = home.cli("route", "--classify", "--state", CODE)
    class_, confidence, device = shown.stdout.split()
    assert (class_, device, shown.returncode) == ("code", "hrx", 0)
    assert confidence == f"{float(confidence):.2f}"


def test_the_device_is_the_one_of_the_table_in_force(home: Box) -> None:
    own = home.environ
    try:
        home.environ = {**own, "FAIRLANE__TABLE": "laya-first"}
        shown = home.cli("route", "--json", "--state", "a" * 1024)
    finally:
        home.environ = own
    told = json.loads(shown.stdout)
    assert (told["class"], told["confidence"], told["why"]) == ("long_doc", 1.0, "size_gate")
    assert told["model"] != "SmolLM2-135M-Instruct"


@pytest.mark.parametrize(("bytes_", "class_"), [(1023, "prose"), (1024, "long_doc")])
def test_standard_input_is_read_as_it_is(home: Box, bytes_: int, class_: str) -> None:
    text = ("Explain how vaccines train the immune system. " * 30).encode()[:bytes_]
    shown = run(home, text, "--state", "-", "--classify")
    assert shown.stdout.decode().split()[0] == class_


@pytest.mark.parametrize("text", [b"", b"\0", b"\xff\xfe"])
def test_any_bytes_are_a_text(home: Box, text: bytes) -> None:
    shown = run(home, text, "--state", "-", "--json")
    assert json.loads(shown.stdout)["class"] in CRITERIA


@pytest.mark.parametrize(
    "options",
    [[], ["--classify"], ["--json"], ["--serve", "--state", "a"], ["--serve", "--json"],
     ["--state", "a", "--backend", "nobody"]],
)  # fmt: skip
def test_other_options_are_a_usage_error(home: Box, options: list[str]) -> None:
    assert home.cli("route", *options).returncode == 2


def test_a_backend_without_its_files_is_a_refused_setting(home: Box) -> None:
    shown = home.cli("route", "--classify", "--state", "a", "--backend", "llama-cpp")
    assert (shown.returncode, "gguf" in shown.stderr) == (3, True)


def test_a_closed_standard_input_is_a_usage_error(home: Box) -> None:
    command = f'exec "{sys.executable}" -m ops.cli route --serve <&-'
    shown = subprocess.run(
        ["/bin/sh", "-c", command], env=home.environ, cwd=TREE, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (shown.returncode, b"closed" in shown.stderr) == (2, True)


def run(home: Box, text: bytes, *options: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the command with a standard input."""
    return subprocess.run(
        [sys.executable, "-m", "ops.cli", "route", *options],
        input=text, env=home.environ, cwd=TREE, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
