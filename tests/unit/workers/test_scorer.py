"""The scorer: what it says of a request, that it never fails to say it, and what it never says."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from scheduler.wire import messages as wire
from support.helping import (
    BUILTIN,
    CODER,
    ROW,
    Bus,
    Desk,
    alike,
    chat_reply,
    embedding_reply,
    judged,
    policy,
    refused,
)
from workers.backend import Answer, BackendError
from workers.helper import Judgement

CODE = "Write a Python function that returns the longest word in a list."
SHORT = "What is the capital of Norway?"
YES = chat_reply('{"model": "yes", "rationale": "so it is"}')


def turns(*said: tuple[str, str], **fields: object) -> dict[str, Any]:
    """Return a request of several turns."""
    return {"messages": [{"role": role, "content": text} for role, text in said], **fields}


def shown(judgement: Judgement) -> dict[str, Any]:
    decision: dict[str, Any] = json.loads(judgement.decision)
    return decision


# --- the table's policy ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "class_", "model"), [(CODE, "code", CODER), (SHORT, "short", ROW)]
)
def test_a_class_is_the_backends_with_its_confidence(text: str, class_: str, model: str) -> None:
    said = Desk().said(text)
    assert (said.rule, said.class_, said.model) == (f"laya-{class_}", class_, model)
    assert said.confidence == pytest.approx(BUILTIN.classify(text).confidence)
    assert not said.scorer_down


def test_a_text_of_1024_bytes_is_a_document_for_certain() -> None:
    desk = Desk()
    said = desk.said("é" * 512)
    assert (said.rule, said.class_, said.confidence) == ("laya-long_doc", "long_doc", 1.0)
    assert desk.said("e" * 1023).class_ != "long_doc"


def test_a_request_with_tools_goes_to_the_tables_class_for_them() -> None:
    said = Desk().said(SHORT, tools=[{"type": "function"}])
    assert (said.rule, said.class_, said.model, said.confidence) == (
        "agent-tools", "code", CODER, None,
    )  # fmt: skip


def test_the_decision_is_upstreams_object() -> None:
    assert shown(Desk().said(CODE)) == {
        "version": "1", "route_to": CODER, "matched_rule": "laya-code", "default_used": False,
        "outputs": {},
    }  # fmt: skip


def test_a_trace_is_there_where_it_is_asked_for() -> None:
    decision = shown(Desk().said(CODE, route_trace=True))
    assert [(entry["condition"], entry["result"]) for entry in decision["trace"]] == [
        ("has_tools", False), ("classifier:laya", True),
    ]  # fmt: skip


def test_only_the_head_of_a_conversation_counts() -> None:
    long = turns(("system", "x" * 2000), ("user", SHORT), ("assistant", "Oslo"), ("user", CODE))
    assert Desk().decide(long).class_ == "short"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff", b"[" * 5000, b'{"messages":[{"role":1}]}',
     b'{"route_trace":null}', b'{"messages":[{"role":"user","content":[{"type":1}]}]}'],
)  # fmt: skip
@pytest.mark.parametrize("name", ["user.Laya-First", "user.Mine"])
def test_a_body_that_cannot_be_looked_at_gets_the_default_model(body: bytes, name: str) -> None:
    said = Desk(policy()).decide(body, name)
    assert (said.rule, said.model, said.class_, said.scorer_down) == ("default", ROW, "", False)
    assert shown(said)["default_used"]


@pytest.mark.parametrize("body", [b"{}", b'{"messages":[]}', b'{"messages":5}', b'{"prompt":null}'])
def test_a_body_without_a_text_is_decided_all_the_same(body: bytes) -> None:
    assert Desk().decide(body).model in {ROW, CODER}


# --- the policies of users ------------------------------------------------------------------------


def test_a_users_policy_decides_for_its_name() -> None:
    desk = Desk(policy())
    assert desk.said("please fix", "user.Mine").rule == "fix"
    assert desk.said("hello", "user.Mine").rule == "default"


def test_a_rules_outputs_come_with_the_decision() -> None:
    rule = {"id": "fix", "match": {"keywords_any": ["fix"]}, "route_to": CODER}
    desk = Desk(policy(rules=[rule | {"outputs": {"a": {"b": [1, None]}}}]))
    assert shown(desk.said("fix", "user.Mine"))["outputs"] == {"a": {"b": [1, None]}}


def test_a_changed_catalogue_decides_at_once() -> None:
    desk = Desk(policy())
    assert desk.said("fix", "user.Mine").model == CODER
    desk.learn(policy(rules=[{"id": "new", "match": {"max_chars": 99}, "route_to": ROW}]))
    said = desk.said("fix", "user.Mine")
    assert (said.rule, said.model) == ("new", ROW)


def test_a_policy_that_is_no_longer_in_the_catalogue_says_nothing() -> None:
    desk = Desk(policy(), policy("user.Other"))
    desk.learn(policy("user.Other"))
    silent = desk.ask("decide", turns(("user", "fix")), "user.Mine")
    assert desk.said("fix", "user.Other").rule == "fix"
    assert silent.said == []


def test_a_users_policy_that_does_not_parse_any_more_hurts_no_other() -> None:
    desk = Desk(policy("user.Old") | {"version": "9"}, policy())
    silent = desk.ask("decide", turns(("user", "fix")), "user.Old")
    assert desk.said("fix", "user.Mine").rule == "fix"
    assert desk.said(CODE).class_ == "code"
    assert silent.said == []


def test_nobody_takes_the_name_of_the_tables_policy() -> None:
    assert Desk(policy("user.Laya-First")).said(CODE).rule == "laya-code"


@pytest.mark.parametrize("name", ["user.Nobody", "", "auto"])
def test_an_unknown_collection_gets_no_answer(name: str) -> None:
    desk = Desk()
    silent = desk.ask("decide", turns(("user", "fix")), name)
    desk.said(SHORT)
    assert silent.said == []


@pytest.mark.parametrize("name", ["user.Laya-First", "user.Mine"])
def test_an_expired_question_gets_no_answer(name: str) -> None:
    desk = Desk(policy())
    silent = desk.ask("decide", turns(("user", "fix")), name, due_in=-0.001)
    desk.said("fix", "user.Mine")
    assert silent.said == []


def test_a_laya_rule_of_a_user_tells_the_class_too() -> None:
    laya = {"id": "mine", "type": "laya", "labels": ["code", "prose", "short"]}
    match = {"classifier": "mine", "label": "code", "min_score": 0.01}
    rules = [{"id": "c", "match": match, "route_to": CODER}]
    for classifier in (laya, laya | {"model": ROW}):
        said = Desk(policy(rules=rules, classifiers=[classifier])).said(CODE, "user.Mine")
        assert (said.rule, said.class_) == ("c", "code")


# --- a backend that may be slow or gone ------------------------------------------------------------


class Gate:
    """A classifier that may wait: it answers when the gate opens, or fails."""

    def __init__(self, *, fails: bool = False, waits: bool = True) -> None:
        self.name = "gate"
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)
        self._fails = fails
        self._waits = waits

    def may_wait(self) -> bool:
        return self._waits

    def classify(self, text: str, due_at: float) -> Answer:
        self.entered.release()
        if self._waits:
            assert self.opened.wait(20)
        if self._fails:
            raise BackendError("it is down")
        return Answer("code", 0.5, {})

    def close(self) -> None:
        self.opened.set()


def test_a_decision_that_waits_for_the_backend_holds_up_nobody() -> None:
    gate = Gate()
    desk = Desk(policy(), classifier=gate)
    waiting = desk.ask(
        "decide", turns(("user", "fix")), "user.Laya-First"
    )  # comes back at once, or this hangs
    assert gate.entered.acquire(timeout=20)
    assert desk.said("fix", "user.Mine").rule == "fix"
    assert waiting.said == []
    gate.close()
    assert waiting.hear(Judgement)[0].class_ == "code"


def test_one_of_the_others_policies_does_not_wait_for_the_backends_threads(tmp_path: Path) -> None:
    gate = Gate()
    desk = Desk(policy(), classifier=gate)
    asked = [turns(("user", f"fix {n}")) for n in range(8)]
    waiting = [desk.ask("decide", body, "user.Laya-First") for body in asked]
    assert desk.said("fix", "user.Mine").rule == "fix"
    gate.close()
    assert {ear.hear(Judgement)[0].class_ for ear in waiting} == {"code"}


def test_an_answer_that_comes_too_late_is_not_given() -> None:
    gate = Gate()
    desk = Desk(policy(), classifier=gate)
    late = desk.ask("decide", turns(("user", "fix")), "user.Laya-First", due_in=0.5)
    assert gate.entered.acquire(timeout=20)
    time.sleep(0.55)
    gate.close()
    assert desk.said("fix").class_ == "code"
    assert late.said == []


@pytest.mark.parametrize("waits", [True, False])
def test_a_backend_that_fails_leaves_the_default_model_and_says_so(*, waits: bool) -> None:
    gate = Gate(fails=True, waits=waits)
    gate.close()
    said = Desk(classifier=gate).said(CODE)
    assert (said.rule, said.model, said.class_, said.scorer_down) == ("default", ROW, "", True)


def test_a_backend_that_is_down_is_not_asked_for_what_needs_no_model() -> None:
    gate = Gate(fails=True, waits=False)
    desk = Desk(classifier=gate)
    assert desk.said("e" * 1024).class_ == "long_doc"
    assert desk.said(SHORT, tools=[{"type": "function"}]).rule == "agent-tools"
    assert not gate.entered.acquire(blocking=False)


@pytest.mark.parametrize(("on_error", "rule"), [("match_true", "c"), ("match_false", "default")])
def test_on_error_says_what_a_failed_backend_counts_as(on_error: str, rule: str) -> None:
    gate = Gate(fails=True, waits=False)
    laya = {"id": "mine", "type": "laya", "labels": ["code", "prose", "short"]}
    match = {"classifier": "mine", "label": "code", "min_score": 0.01}
    rules = [{"id": "c", "match": match, "route_to": CODER}]
    made = policy(rules=rules, classifiers=[laya | {"on_error": on_error}])
    said = Desk(made, classifier=gate).said(CODE, "user.Mine")
    assert (said.rule, said.scorer_down) == (rule, rule == "default")


def test_the_scorer_says_who_decides() -> None:
    assert Desk().scorer.backend() == "builtin"
    assert Desk(classifier=Gate()).scorer.backend() == "gate"


# --- conditions that call models ------------------------------------------------------------------


def test_a_chat_model_chooses_the_rule(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda _ask, _body: YES) as bus:
        said = Desk(judged(), bus=bus.endpoint).said("hi", "user.Judged", route_trace=True)
    assert (said.rule, said.model, said.scorer_down) == ("said-yes", CODER, False)
    (entry,) = shown(said)["trace"]
    assert entry == {
        "condition": "classifier:j", "result": True, "score": 1.0, "label": "yes",
        "rationale": "so it is",
    }  # fmt: skip
    assert [(ask.op, ask.name, ask.lane) for ask in bus.asks] == [("chat", ROW, "lane")]


def test_a_model_that_fails_costs_the_rule_and_is_said(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda ask, _body: refused(ask)) as bus:
        said = Desk(judged(), bus=bus.endpoint).said("hi", "user.Judged")
    assert (said.rule, said.model, said.scorer_down) == ("default", ROW, True)


def test_a_model_that_says_something_odd_has_not_failed(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda _ask, _body: chat_reply("yes")) as bus:
        said = Desk(judged(), bus=bus.endpoint).said("hi", "user.Judged")
    assert (said.rule, said.scorer_down) == ("default", False)


def test_a_failed_model_may_count_as_a_match(tmp_path: Path) -> None:
    made = judged()
    made["routing"]["classifiers"][0]["on_error"] = "match_true"
    with Bus(tmp_path, lambda ask, _body: refused(ask)) as bus:
        said = Desk(made, bus=bus.endpoint).said("hi", "user.Judged")
    assert (said.rule, said.scorer_down) == ("said-yes", False)


def by_word(_ask: wire.Ask, body: dict[str, Any]) -> bytes:
    return embedding_reply(1.0, 0.0) if body["input"] == "rain" else embedding_reply(0.8, 0.6)


def test_similarity_is_the_cosine_of_the_workers_vectors(tmp_path: Path) -> None:
    with Bus(tmp_path, by_word) as bus:
        said = Desk(alike(), bus=bus.endpoint).said("wet?", "user.Alike", route_trace=True)
    assert said.rule == "wet"
    assert shown(said)["trace"][0]["score"] == pytest.approx(0.8, abs=1e-6)
    assert [ask.op for ask in bus.asks] == ["embed", "embed"]


def test_a_thread_embeds_the_phrases_of_a_policy_once(tmp_path: Path) -> None:
    with Bus(tmp_path, by_word) as bus:
        desk = Desk(alike(), bus=bus.endpoint)
        for _ in range(12):
            desk.said("wet?", "user.Alike")
        asked = [body["input"] for _, body in bus.asked]
    assert asked.count("wet?") == 12
    assert 1 <= asked.count("rain") <= 4  # one a thread, and each keeps its copy


def test_a_changed_policy_embeds_its_new_phrases(tmp_path: Path) -> None:
    with Bus(tmp_path, by_word) as bus:
        desk = Desk(alike(), bus=bus.endpoint)
        desk.said("wet?", "user.Alike")
        desk.learn(alike(reference_phrases={"weather": ["snow"]}))
        said = desk.said("wet?", "user.Alike")
        assert "snow" in [body["input"] for _, body in bus.asked]
    assert said.rule == "wet"


def test_a_decision_that_waits_for_a_model_delays_no_other(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda _ask, _body: None) as bus:
        desk = Desk(judged(), bus=bus.endpoint)
        slow = desk.ask("decide", turns(("user", "hi")), "user.Judged", due_in=0.2)
        bus.hear(1)
        assert desk.said(CODE).class_ == "code"
        assert slow.said == []


def test_four_decisions_wait_for_models_at_once(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda _ask, _body: None) as bus:
        desk = Desk(judged(), bus=bus.endpoint)
        for number in range(4):
            desk.ask("decide", turns(("user", f"hi {number}")), "user.Judged", due_in=0.2)
        bus.hear(4)


def test_trying_a_policy_out_really_asks_its_model(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda _ask, _body: YES) as bus:
        desk = Desk(bus=bus.endpoint)
        status, reply = desk.validate({"policy": judged(), "prompt": "hi"})
    assert (status, reply["decision"]["matched_rule"]) == (200, "said-yes")
    assert len(bus.asks) == 1


def test_trying_a_policy_out_whose_model_fails_is_an_answer(tmp_path: Path) -> None:
    with Bus(tmp_path, lambda ask, _body: refused(ask)) as bus:
        status, reply = Desk(bus=bus.endpoint).validate({"policy": judged(), "prompt": "hi"})
    assert (status, reply["decision"]["matched_rule"]) == (200, "")
    assert reply["decision"]["default_used"]
