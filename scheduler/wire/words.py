"""The types of fields, and the values that are no message of their own. Part of protocol version 1."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Id = Annotated[str, Meta(min_length=1, max_length=128)]
Name = Annotated[str, Meta(max_length=256)]
Text = Annotated[str, Meta(max_length=4096)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]
Fact = str | int | float | bool | None
Op = Literal[
    "chat", "completion", "embed", "decide", "validate", "register", "pull", "responses", "messages",
    "count_tokens", "rerank", "tokenize",
]  # fmt: skip
Judging = Literal["decide", "validate", "register"]
Stage = Literal["queue", "hot", "pull", "load", "prefill"]
Kind = Literal["scorer", "store", "sensors", "hrx", "npu", "cpu"]
Word = Annotated[str, Meta(max_length=128)]
StockState = Literal["ready", "missing", "mismatch", "failed"]
View = Literal[
    "status", "models", "queue", "outside", "live", "pulse", "metrics", "story", "explain"
]
PullCause = Literal["", "pull_failed", "template_mismatch"]


class Timings(Struct, frozen=True, omit_defaults=True, gc=False):
    """Milliseconds spent in each stage; a stage that did not happen is absent."""

    decide_ms: float | None = None
    queue_ms: float | None = None
    load_ms: float | None = None
    ttft_ms: float | None = None
    pull_ms: float | None = None  # waited for files to be pulled


class Reading(Struct, frozen=True, omit_defaults=True, gc=False):
    """One sensor at one instant; without a value it is unknown, and `reason` says why."""

    name: Annotated[str, Meta(min_length=1, max_length=32)]
    value: Annotated[float, Meta(ge=-1e18, le=1e18)] | Word | None = None
    unit: Annotated[str, Meta(max_length=16)] = ""
    source: Word = ""  # what was read, such as "k10temp" or "proc/uptime"
    label: Word = ""  # what the source itself calls it, such as "Tctl"
    age_s: Seconds = 0.0  # when it was sent: since it was read
    valid: bool = False
    reason: Word = ""  # why it is not valid


class RowStock(Struct, frozen=True, omit_defaults=True, gc=False):
    """Whether a row's files are on this machine and may be used."""

    state: StockState  # missing: never here whole; mismatch: here, with a template the row does not name
    reason: Word = ""  # for people, where it is not ready
    bytes: Count = 0  # of all its files; 0: not known
