"""Log lines: what each formatter makes of a record, and the ledger of ended requests."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler import log
from scheduler.core.effects import Ended

ENDED = Ended(
    request="r", lane="lane", op="chat", model="M", device="hrx", rule="", why="", degraded="",
    outcome="answered", waited_s=0.25, ran_s=1.5, prompt_tokens=7, cached_tokens=3, output_tokens=5,
    class_="code", wanted="laya-code", pulled_s=2.5, loaded_s=0.75,
)  # fmt: skip


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Broken(io.BytesIO):
    """A stream nobody reads any more."""

    def write(self, _data: object) -> int:
        raise BrokenPipeError


@pytest.fixture
def out() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


@pytest.fixture(autouse=True)
def _same_root_afterwards() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.setLevel(logging.INFO)
    yield
    root.handlers[:], root.level = handlers, level


def lines(out: io.TextIOWrapper) -> list[str]:
    """Return what was written."""
    out.flush()
    raw = out.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode().splitlines()


def record(**more: Any) -> logging.LogRecord:
    made = logging.LogRecord("x", logging.WARNING, "f.py", 1, "The %s listens.", ("broker",), None)
    made.created = 1_700_000_000.25
    vars(made).update(more)
    return made


def test_a_json_line_holds_the_facts_of_a_record() -> None:
    text = log.JsonFormatter("broker").format(record(action="broker_up", fields={"pid": 1}))
    assert json.loads(text) == {
        "at": "2023-11-14T22:13:20.250+00:00",
        "level": "warning",
        "from": "broker",
        "action": "broker_up",
        "message": "The broker listens.",
        "pid": 1,
    }


def test_a_record_of_a_library_is_a_line_too() -> None:
    assert json.loads(log.JsonFormatter("gateway").format(record()))["action"] == "http"


@pytest.mark.parametrize("formatter", [log.JsonFormatter("p"), log.PlainFormatter("p")])
def test_an_exception_is_on_its_record(formatter: logging.Formatter) -> None:
    error = ValueError("what went wrong")
    text = formatter.format(record(exc_info=(type(error), error, None)))
    assert "ValueError: what went wrong" in text


def test_a_plain_line_is_readable_and_leaves_out_what_is_empty() -> None:
    fields = {"lane": "a", "why": "", "model": None, "ran_s": 1.5, "waited_s": 0.12345, "n": 0}
    text = log.PlainFormatter("broker").format(record(fields=fields))
    assert text[8:] == " broker   The broker listens. lane=a ran_s=1.5 waited_s=0.123 n=0"


def test_a_plain_line_has_nothing_of_a_name_that_a_terminal_would_obey() -> None:
    error = ValueError("what\x1b[31m went wrong")
    fields = {"lane": "a\x1b[2J\r\n12:00:00 broker all is well", "what": ["b\x9b2J"]}
    text = log.PlainFormatter("broker").format(
        record(fields=fields, exc_info=(type(error), error, None))
    )
    assert all(c.isprintable() or c == "\n" for c in text)
    assert [line for line in text.splitlines() if "all is well" in line] == [text.splitlines()[0]]


def test_an_ended_request_is_one_line_with_all_its_facts(out: io.TextIOWrapper) -> None:
    ledger = log.Ledger("broker", out)
    ledger.add(ENDED)
    assert lines(out) == []
    ledger.flush()
    got = json.loads(lines(out)[0])
    assert (got["action"], got["level"], got["from"]) == ("request_ended", "info", "broker")
    assert (got["request"], got["outcome"], got["ran_s"]) == ("r", "answered", 1.5)
    assert (got["class"], got["wanted"], got["pulled_s"], got["loaded_s"]) == (
        "code", "laya-code", 2.5, 0.75,
    )  # fmt: skip


def test_a_ledger_writes_in_batches(out: io.TextIOWrapper) -> None:
    ledger = log.Ledger("broker", out)
    for _ in range(300):
        ledger.add(ENDED)
    assert 0 < len(lines(out)) < 300
    ledger.flush()
    ledger.flush()
    assert len(lines(out)) == 300


def test_a_ledger_on_a_terminal_is_readable() -> None:
    out = Terminal(io.BytesIO(), encoding="utf-8")
    ledger = log.Ledger("broker", out)
    ledger.add(ENDED)
    ledger.flush()
    assert "Request ended. request=r lane=lane" in lines(out)[0]


def test_a_ledger_below_its_level_writes_nothing(out: io.TextIOWrapper) -> None:
    logging.getLogger().setLevel(logging.WARNING)
    ledger = log.Ledger("broker", out)
    ledger.add(ENDED)
    ledger.flush()
    assert lines(out) == []


def test_a_log_nobody_reads_stops_nothing() -> None:
    ledger = log.Ledger("broker", io.TextIOWrapper(Broken()))
    ledger.add(ENDED)
    ledger.flush()
    ledger.flush()


@pytest.mark.parametrize("plain", [True, False])
def test_records_go_to_the_configured_stream(plain: bool, out: io.TextIOWrapper) -> None:  # a case
    stream = Terminal(io.BytesIO(), encoding="utf-8") if plain else out
    log.configure("gateway", level="INFO", stream=stream)
    log.note(logging.getLogger("test"), "ready", {"pid": 1}, port=2)
    log.note(logging.getLogger("test"), "ready", level=logging.DEBUG)
    (line,) = lines(stream)
    assert ("pid=1 port=2" in line) if plain else (json.loads(line)["port"] == 2)


def test_the_access_log_of_the_http_server_is_quiet(out: io.TextIOWrapper) -> None:
    log.configure("gateway", stream=out)
    logging.getLogger("uvicorn.access").info("GET /")
    assert lines(out) == []


def test_a_record_outside_the_catalogue_is_a_fault_of_ours() -> None:
    with pytest.raises(KeyError):
        log.note(logging.getLogger("test"), "no such action", level=logging.CRITICAL)
