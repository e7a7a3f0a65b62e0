"""The decision on an answer: header and Decision object."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.why import Reason, Why
from scheduler import route
from scheduler.wire.messages import Placed
from scheduler.wire.words import Timings

MOVED = {Why.GPU_BUSY, Why.GPU_HOT, Why.NPU_QUARANTINED}


def placed(rule: str = "laya-code", **fields: object) -> Placed:
    return msgspec.convert(
        {"id": "r", "rule": rule, "model": "M", "device": "hrx"} | fields, Placed
    )


@pytest.mark.parametrize(
    ("where", "header"),
    [
        (None, "default"),
        (placed(), "laya-code"),
        (placed("default"), "default"),
        (placed(why="gpu_busy", device="npu"), "laya-code; device=npu; why=gpu_busy"),
        (placed("default", why="scorer_down"), "default; why=scorer_down"),
        (
            placed("default", why="template_mismatch", wanted="laya-prose"),
            "default; why=template_mismatch; wanted=laya-prose",
        ),
        (
            placed("default", degraded=True, reason="pull_timeout", wanted="laya-code"),
            "default; degraded; reason=pull_timeout; wanted=laya-code",
        ),
        (placed("default", wanted="my rule"), 'default; wanted="my rule"'),
        (placed("default", wanted='a"b\\c\n'), 'default; wanted="a\\"b\\\\c"'),
        (placed("default", wanted="7up"), 'default; wanted="7up"'),
        (placed("my rule (2)"), "my rule (2)"),
    ],
)
def test_the_header_says_what_there_is_to_say(where: Placed | None, header: str) -> None:
    assert route.header(where) == header


def test_a_header_that_leaves_early_says_that_it_is_pending() -> None:
    assert route.header(None, pending=True) == "default; pending"  # nobody has decided yet
    assert route.header(placed(is_open=True), pending=True) == "laya-code; pending"


@pytest.mark.parametrize("why", list(Why))
def test_the_device_is_named_where_the_why_moved_the_request(why: Why) -> None:
    assert ("device=npu" in route.header(placed(why=why, device="npu"))) == (why in MOVED)


@pytest.mark.parametrize("why", ["", *Why])
def test_only_what_the_rule_sent_to_the_npu_may_return_from_it(why: str) -> None:
    assert route.may_return(placed(why=why)) == (why in {Why.GPU_BUSY, Why.GPU_HOT})


def test_before_it_is_placed_a_request_returns_from_nowhere() -> None:
    assert not route.may_return(None)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_a_token(reason: Reason) -> None:
    text = route.header(placed("default", degraded=True, reason=reason))
    assert text == f"default; degraded; reason={reason}"


@given(rule=st.text(max_size=256), wanted=st.text(max_size=256))
def test_no_name_can_end_the_header(rule: str, wanted: str) -> None:
    text = route.header(placed(rule, wanted=wanted)).encode("latin-1", "replace").decode("latin-1")
    assert re.search(r"[\x00-\x1f\x7f]", text) is None


def test_a_decision_keeps_what_the_policy_said_and_gets_our_outputs() -> None:
    said = b'{"version":"1","route_to":"M","outputs":{"x":1,"model":"theirs"},"trace":[]}'
    got = route.decision(
        placed(class_="code", confidence=0.5, decide_ms=1.23456), said, Timings(queue_ms=2.00049)
    )
    assert got == {
        "version": "1",
        "route_to": "M",
        "outputs": {
            "x": 1, "class": "code", "confidence": 0.5, "model": "M", "device": "hrx",
            "timings": {"decide_ms": 1.235, "queue_ms": 2.0},
        },
        "trace": [],
    }  # fmt: skip


def test_only_what_applies_is_in_the_outputs() -> None:
    got = route.decision(placed(), b'{"version":"1"}', None)
    assert got["outputs"] == {"model": "M", "device": "hrx"}


def test_a_confidence_of_nought_is_said() -> None:
    assert route.decision(placed(confidence=0.0), b"{}", None)["outputs"]["confidence"] == 0.0


def test_where_nobody_decided_the_decision_is_the_default() -> None:
    got = route.decision(placed("default", why="scorer_down"), b"", None)
    assert (got["route_to"], got["default_used"], got["matched_rule"]) == ("M", True, "")
    assert got["outputs"]["why"] == "scorer_down"


def test_a_degraded_answer_says_why_and_what_was_wanted() -> None:
    got = route.decision(
        placed("default", degraded=True, reason="load_failed", wanted="w"), b"", None
    )
    assert (
        got["outputs"] | {"degraded": True, "reason": "load_failed", "wanted": "w"}
        == got["outputs"]
    )
