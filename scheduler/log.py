"""Log records: one JSON object a line, or a readable line on a terminal.

Rules of this file: prompt text never; a record's message is a constant, its facts are fields. ACTIONS is
the catalogue: every record names one of them.
"""

import logging
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from scheduler.harmless import harmless, readable

ACTIONS: dict[str, str] = {
    "broker_up": "The broker listens.",
    "broker_down": "The broker stopped.",
    "worker_up": "A worker is registered.",
    "worker_down": "A worker is gone; `reason` says why.",
    "request_ended": "A request ended, all facts on it; `device` is the kind, `instance` whose seat it held.",
    "bad_message": "A peer sent bytes that are no message; they were dropped and counted.",
    "gateway_up": "The HTTP front listens.",
    "process_up": "The supervisor started a process.",
    "process_down": "A process of the supervisor ended.",
    "ready": "All parts of the appliance are up.",
    "stopping": "The appliance stops.",
    "registered": "This worker is registered at the broker.",
    "dismissed": "The broker dismissed this worker; it registers again.",
    "stuck": "Work that the broker took back goes on and on: this process leaves, another takes its place.",
    "pulled": "A pull of a row's files ended; `cause` is empty where it ended well.",
    "model_loaded": "A model was loaded; `template_sha256` is its template, `pin` what the pins say.",
    "template_mismatch": "A file's chat template is another than its row or a pin says.",
    "extra_unused": "A row is served without its extra files: the in-process engine cannot use them.",
    "model_unloaded": "A model was let go of, to make room or because nobody used it.",
    "model_failed": "A model could not be loaded.",
    "engine_up": "A server of ours was started to serve a model.",
    "engine_down": "A server of ours has ended; `status` says how, negative: the signal.",
    "engine_said": "A line of that server's own output.",
    "engine_killed": "A server worked on for a request that was cancelled, or hung: its group is killed.",
    "orphan_reaped": "A server that a killed worker left behind is ended.",
    "eviction_late": "A model that was to leave first has not left yet; the next one does not wait longer.",
    "state_unwritable": "The boot counter cannot be kept; the wall clock stands in for it.",
    "restored": "The state of the broker before this one was taken over.",
    "journal_lost": "The journal cannot be written; the box serves on without one and tries again.",
    "journal_back": "The journal is written again.",
    "journal_bad": "A segment of the journal could not be used; it was moved aside.",
    "helper_failed": "A helper failed at a question; the default answers, or the client is told.",
    "backend_up": "The model that tells classes apart is warm.",
    "backend_down": "The model that tells classes apart is gone; it is started again.",
    "backend_said": "A line from that model's own log.",
    "circuit_open": "That model is not asked for a while; `instead` says who decides.",
    "circuit_closed": "That model is asked again.",
    "policy_unreadable": "A registered policy cannot be read any more; its file is left alone.",
    "record_unreadable": "The record of a pulled file was damaged; it was moved aside and is made anew.",
    "model_found": "A file of the models directory had no record; it was read and has one now.",
    "model_removed": "A file that no row of the table names was removed to make room.",
    "pull_resumed": "A pull goes on from what an earlier one has left.",
    "pull_restarted": "What an earlier pull has left was damaged; the pull starts again from nothing.",
    "pull_interrupted": "A download was interrupted; the hub is asked again.",
    "pull_ended": "A pull has ended; `cause` says how, if not well.",
    "hold_began": "A program of an outside lane holds a device.",
    "hold_lost": "An outside holder lost its lease; `reason` says why, and its group is ended.",
    "process_ending": "A process or group is being ended, because its lease is over.",
    "reading_unknown": "A sensor's value cannot be believed; `reason` says why, `count` how often so far.",
    "sensors_blind": "Nothing can be read, `error` says why; readings stay unknown, a tree is tried again.",
    "trace_over": "The trace has been played: from here on readings are unknown.",
    "npu_canary": "The NPU's canary ended; `passed` is null where it says nothing, and `cause` says why.",
    "http": "A message of the HTTP server.",
}


class JsonFormatter(logging.Formatter):
    """One JSON object a record."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        line: dict[str, object] = {
            "at": _utc(record.created),
            "level": record.levelname.lower(),
            "from": self._process,
            "action": getattr(record, "action", "http"),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class PlainFormatter(logging.Formatter):
    """A readable line for a terminal."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        line = _plain(
            self._process, record.created, record.getMessage(), getattr(record, "fields", {})
        )
        if record.exc_info:
            line += "\n" + readable(self.formatException(record.exc_info))
        return line


_LINES = 256  # records written at once at the latest


class Ledger:
    """The records of ended requests, written in batches.

    The stdlib path costs 10 us a record, half of what the broker spends on a whole request; this one
    costs about 1 us: one encode, one append, and a write a batch.
    """

    def __init__(self, process: str, stream: TextIO | None = None) -> None:
        self._process = process
        self._stream = stream or sys.stderr
        self._is_plain = self._stream.isatty()
        self._is_on = logging.getLogger().isEnabledFor(logging.INFO)
        self._lines: list[bytes] = []
        self._stamp = (0, b"")  # milliseconds, and their text: a burst shares it
        self._encoder = msgspec.json.Encoder()
        self._head = b'","level":"info","from":"%s","action":"request_ended",' % process.encode()

    def add(self, record: msgspec.Struct) -> None:
        """Take one record; `flush` writes it."""
        if not self._is_on:
            return
        if self._is_plain:
            line = _plain(
                self._process, time.time(), "Request ended.", msgspec.structs.asdict(record)
            )
            self._lines.append(line.encode())
        else:
            now_ms = time.time_ns() // 1_000_000
            if self._stamp[0] != now_ms:
                self._stamp = (now_ms, b'{"at":"' + _utc(now_ms / 1e3).encode() + self._head)
            self._lines.append(self._stamp[1] + self._encoder.encode(record)[1:])
        if len(self._lines) >= _LINES:
            self.flush()

    def flush(self) -> None:
        """Write what was added. A log nobody reads any more must not stop the box."""
        if self._lines:
            text = b"\n".join(self._lines) + b"\n"
            self._lines.clear()
            try:
                self._stream.flush()
                self._stream.buffer.write(text)
                self._stream.buffer.flush()
            except OSError:
                return


def configure(process: str, *, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send this process's records to `stream`, standard error by default."""
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(PlainFormatter(process) if target.isatty() else JsonFormatter(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("uvicorn.access", "uvicorn.error", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def note(
    log: logging.Logger,
    action: str,
    facts: Mapping[str, object] | None = None,
    /,
    *,
    level: int = logging.INFO,
    **more: object,
) -> None:
    """Write one record of the catalogue."""
    if log.isEnabledFor(level):
        fields = {**(facts or {}), **more}
        log.log(level, ACTIONS[action], extra={"action": action, "fields": fields})


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _plain(process: str, at: float, message: str, fields: dict[str, object]) -> str:
    clock = datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")
    facts = " ".join(f"{k}={_short(v)}" for k, v in fields.items() if v not in ("", None))
    return str(harmless(f"{clock} {process:8} {message} {facts}")).rstrip()


def _short(value: object) -> object:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
