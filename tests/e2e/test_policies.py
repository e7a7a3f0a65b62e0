"""Policies on a real box: tried out, registered, decided with, kept; and answers that stand in."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import openai
import pytest

from support.box import Box
from support.helping import CODER, EMBEDDER, ROW, alike, judged, policy, row
from support.http import CHAT, Reply, Stream, call, chat, counting
from support.wait import at_best, until

VALIDATE = "/v1/routing/validate"
PULL = "/v1/pull"
CODE = "Write a Python function that returns the longest word in a list."
PROSE = "Write a short story about a lighthouse keeper."
SHORT = "What is the capital of Norway?"
DECIDE_S = 5.0  # a policy that calls models must decide within this
_numbers = count()


def table() -> dict[str, Any]:
    """Return a table whose code row has no file and whose prose row pins another template."""
    classes = {"short": ROW, "long_doc": ROW, "code": CODER, "prose": "reprinted"}
    rows = [
        row(ROW),
        row("second"),
        row(EMBEDDER, "cpu", type="embedding"),
        row("judge", "cpu"),
        row("reprinted", template_sha256="0" * 64),
        {**row(CODER), "package": None, "file": None, "path": "/nowhere/coder.gguf"},
    ]
    return {
        "version": "1", "default_model": ROW, "rows": rows,
        "classes": {name: {"model": model} for name, model in classes.items()},
    }  # fmt: skip


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A box with that table."""
    file = tmp_path_factory.mktemp("table") / "table.json"
    file.write_text(json.dumps(table()))
    with Box(table=file, limits__decide_slow_s=DECIDE_S) as box:
        call(box.url, CHAT, chat(model=ROW))
        yield box


@pytest.fixture(scope="module")
def openai_client(box: Box) -> Iterator[openai.OpenAI]:
    """The client of a program that knows nothing of us."""
    with openai.OpenAI(base_url=f"{box.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def fresh() -> dict[str, str]:
    """Return the header of a conversation that nobody had before."""
    return {"x-fairlane-conversation": f"policies-{next(_numbers)}"}


def ask(box: Box, text: str, model: str = "auto", **fields: object) -> Reply:
    return call(box.url, CHAT, chat(text, model=model, **fields), fresh())


def register(box: Box, document: object, path: str = PULL) -> Reply:
    return call(box.url, path, document)


def ran(box: Box, model: str) -> int:
    """Return how many requests a row has worked on, by the log."""
    records = [record for record in box.log() if record["action"] == "request_ended"]
    return sum(record["model"] == model and record["ran_s"] > 0 for record in records)


# --- trying out -----------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["/v1", "/api/v1", "/v0", "/api/v0"])
def test_a_policy_is_tried_out_under_every_prefix(box: Box, prefix: str) -> None:
    reply = call(box.url, f"{prefix}/routing/validate", {"policy": policy(), "prompt": "fix it"})
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert "x-lemonade-route" not in reply.headers
    assert reply.json["decision"]["matched_rule"] == "fix"
    assert reply.json["normalized_policy"] == policy()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "Request body is required but was empty"),
        ({}, "'policy' must be a JSON object"),
        ({"policy": {}, "prompt": 1}, "'prompt' must be a string"),
        ({"policy": {}, "has_images": 1}, "'has_images' must be a boolean"),
        ({"policy": {}, "has_tools": 1}, "'has_tools' must be a boolean"),
        ({"policy": {}, "metadata": 1}, "'metadata' must be a JSON object of string values"),
        ({"policy": {}, "metadata": {"k": 1}}, "'metadata' value for key 'k' must be a string"),
        ({"policy": {}}, "Invalid routing policy: collection is missing required key 'version'"),
    ],
)
def test_a_refused_trial_is_one_text_as_upstream_has_it(box: Box, body: Any, text: str) -> None:
    reply = call(box.url, VALIDATE, body, method="POST")
    assert (reply.status, reply.json) == (400, {"error": text})


def test_a_trial_that_is_no_json_is_told_so(box: Box) -> None:
    reply = call(box.url, VALIDATE, b"{")
    assert reply.status == 400
    assert reply.json["error"].startswith("Invalid JSON in request body: ")


def test_a_trial_of_similarity_really_embeds(box: Box) -> None:
    before = ran(box, EMBEDDER)
    reply = call(box.url, VALIDATE, {"policy": alike(), "prompt": "rain"})
    (entry,) = reply.json["decision"]["trace"]
    assert entry["score"] == pytest.approx(1.0, abs=1e-3)
    assert reply.json["decision"]["matched_rule"] == "wet"
    until(lambda: ran(box, EMBEDDER) >= before + 2, "two embeddings in the log")


def test_a_trial_of_a_judge_really_asks_its_model(box: Box) -> None:
    before = ran(box, "judge")
    made = judged("Say yes.") | {"components": [ROW, CODER, "judge"]}
    made["routing"]["classifiers"][0]["model"] = "judge"
    reply = call(box.url, VALIDATE, {"policy": made, "prompt": "hi"})
    assert reply.status == 200
    (entry,) = reply.json["decision"]["trace"]
    assert entry["condition"] == "classifier:j"
    assert entry["score"] in {0.0, 1.0}  # only a call that succeeded has one
    until(lambda: ran(box, "judge") > before, "the judge's answer in the log")


def test_a_trial_of_a_model_that_is_not_there_is_an_answer(box: Box) -> None:
    made = alike("nobody") | {"components": [ROW, CODER, "nobody"]}
    reply = call(box.url, VALIDATE, {"policy": made})
    assert (reply.status, reply.json["decision"]["default_used"]) == (200, True)


@pytest.mark.parametrize("path", [VALIDATE, PULL, "/v1/models/register"])
def test_only_post_is_taken(box: Box, path: str) -> None:
    if path != "/v1/models/register":
        assert call(box.url, path).status == 405
    assert call(box.url, path, b"{}", method="PUT").status == 405


# --- registering ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [PULL, "/api/v1/pull", "/v1/models/register"])
def test_a_registered_policy_routes_at_once(box: Box, path: str) -> None:
    name = f"user.Routes{next(_numbers)}"
    rule = {"id": "fix", "match": {"keywords_any": ["fix"]}, "route_to": "second"}
    made = policy(name, [rule], candidates=[ROW, "second"]) | {"components": [ROW, "second"]}
    assert register(box, made, path).status == 200
    reply = ask(box, "fix it", name)
    assert (reply.headers["x-lemonade-route"], reply.json["model"]) == ("fix", "second")
    assert reply.json["x_lemonade_route"]["route_to"] == "second"


def test_a_registered_policy_is_listed(box: Box) -> None:
    register(box, policy("user.Listed"))
    listed = call(box.url, "/v1/models").json["data"]
    assert [one["routes"] for one in listed if one["id"] == "user.Listed"] == [True]


def test_only_names_of_users_are_registered(box: Box) -> None:
    reply = register(box, policy("mine"))
    assert (reply.status, reply.json) == (
        400,
        {
            "error": "Registered model definitions must use a non-empty `user.*` name, for example "
            "`user.Phi-4-Mini-GGUF`. Received: mine"
        },
    )
    assert ask(box, "fix", "mine").status == 404


def test_a_faulty_policy_is_refused_and_not_known(box: Box) -> None:
    reply = register(box, policy("user.Faulty", rules=[]))
    text = "Invalid collection.router routing policy: routing.rules must be a non-empty array"
    assert (reply.status, reply.json) == (400, {"error": text})
    assert ask(box, "fix", "user.Faulty").status == 404


def test_a_name_that_was_unknown_routes_once_it_is_registered(box: Box) -> None:
    assert ask(box, "hi", "user.Later").status == 404
    register(box, policy("user.Later"))
    assert ask(box, "hi", "user.Later").headers["x-lemonade-route"] == "default"


def test_a_trace_is_there_where_it_is_asked_for_and_nowhere_else(box: Box) -> None:
    register(box, policy("user.Traced"))
    with_trace = ask(box, "hi", "user.Traced", route_trace=True).json["x_lemonade_route"]
    assert with_trace["trace"] == [{"condition": "keywords_any", "result": False}]
    assert "trace" not in ask(box, "hi", "user.Traced").json["x_lemonade_route"]


def test_a_streams_first_event_has_the_trace(box: Box) -> None:
    register(box, policy("user.Traced"))
    with Stream(box.url, CHAT, chat(model="user.Traced", route_trace=True), fresh()) as stream:
        assert json.loads(stream.first())["x_lemonade_route"]["trace"]


def test_a_similarity_of_the_workers_embeddings_routes(box: Box) -> None:
    made = alike() | {"model_name": "user.Wet"}
    made["routing"]["rules"][0]["route_to"] = ROW
    register(box, made)
    reply = ask(box, "rain", "user.Wet")
    assert reply.headers["x-lemonade-route"] == "wet"
    assert reply.outputs["timings"]["decide_ms"] < DECIDE_S * 1e3


def test_an_llm_router_asks_its_model_and_answers_whatever_that_says(box: Box) -> None:
    made = policy("user.Router") | {"components": [ROW, "second", "judge"]}
    router = {"type": "llm", "model": "judge", "prompt": "Pick."}
    candidates = {"candidates": [ROW, "second"], "default_model": ROW}
    made["routing"] = candidates | {"router": router}
    assert register(box, made).status == 200
    before = ran(box, "judge")
    reply = ask(box, "hi", "user.Router")
    assert reply.status == 200
    assert reply.json["model"] in {ROW, "second"}
    until(lambda: ran(box, "judge") > before, "the router's call in the log")


def test_a_classifier_condition_asks_its_model(box: Box) -> None:
    scores = {"id": "s", "type": "classifier", "model": "judge", "labels": ["spam"]}
    rules = [{"id": "spam", "match": {"classifier": "s", "label": "spam"}, "route_to": ROW}]
    made = policy("user.Scored", rules, classifiers=[scores])
    register(box, made | {"components": [ROW, CODER, "judge"]})
    before = ran(box, "judge")
    assert ask(box, "buy now", "user.Scored", route_trace=True).status == 200
    until(lambda: ran(box, "judge") > before, "the classifier's call in the log")


def test_a_decision_behind_a_busy_device_falls_open_within_its_deadline(box: Box) -> None:
    made = judged() | {"model_name": "user.Busy"}
    register(box, made)

    def decided_ms() -> float:
        with Stream(box.url, "/v1/completions", counting(1900)) as busy:  # what its context holds
            busy.first()
            with box.bus() as bus:
                decided = bus.decide([{"role": "user", "content": "hi"}], model="user.Busy")
        assert decided["outputs"]["why"] == "scorer_down"
        return float(decided["outputs"]["timings"]["decide_ms"])

    at_best(decided_ms, DECIDE_S * 1e3 + 500, "ms until it fell open")


# --- answers that stand in ------------------------------------------------------------------------

DEGRADED = [
    (CODE, "default; degraded; reason=pull_failed; wanted=laya-code"),
    (PROSE, "default; why=template_mismatch; wanted=laya-prose"),
    (SHORT, "laya-short"),
]


@pytest.mark.parametrize(("text", "header"), DEGRADED)
def test_an_openai_client_sees_who_answered_and_why(
    openai_client: openai.OpenAI, text: str, header: str
) -> None:
    answered = openai_client.chat.completions.with_raw_response.create(
        model="auto", messages=[{"role": "user", "content": text}], max_tokens=2,
        extra_headers=fresh(),
    )  # fmt: skip
    assert answered.headers["x-lemonade-route"] == header
    reply = answered.parse()
    assert (reply.model, bool(reply.choices[0].message.content)) == (ROW, True)
    assert (reply.model_extra or {})["x_lemonade_route"]["outputs"]["model"] == ROW


@pytest.mark.parametrize(("text", "header"), DEGRADED)
def test_a_streams_header_and_first_event_say_the_same(box: Box, text: str, header: str) -> None:
    with Stream(box.url, CHAT, chat(text), fresh()) as stream:
        events = [json.loads(data) for data in stream.data() if data != "[DONE]"]
        assert stream.headers["x-lemonade-route"] in {header, _pending(header)}
    outputs = events[0]["x_lemonade_route"]["outputs"]
    assert {event["model"] for event in events} == {ROW}
    said = [outputs.get(key) for key in ("degraded", "reason", "why", "wanted")]
    assert said == _said(header)


def _pending(header: str) -> str:
    """Return the header that leaves where the row is not loaded, or the box not quick, within two seconds."""
    rule, mark, rest = header.partition("; ")
    return f"{rule}; pending{mark}{rest}"


def _said(header: str) -> list[object]:
    parts = dict(part.partition("=")[::2] for part in header.split("; ")[1:])
    degraded = True if "degraded" in parts else None
    return [degraded, parts.get("reason"), parts.get("why"), parts.get("wanted")]


def test_a_header_that_may_still_change_says_pending(box: Box) -> None:
    with Stream(box.url, "/v1/completions", counting(120)) as busy:
        busy.first()
        with Stream(box.url, CHAT, chat(CODE), fresh()) as stream:
            assert stream.headers["x-lemonade-route"] == (
                "default; pending; degraded; reason=pull_failed; wanted=laya-code"
            )
            busy.close()
            outputs = json.loads(stream.first())["x_lemonade_route"]["outputs"]
    assert (outputs["model"], outputs["degraded"]) == (ROW, True)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", [CODER, "reprinted"])
def test_an_explicit_name_never_degrades(box: Box, name: str, *, stream: bool) -> None:
    reply = ask(box, "hi", name, stream=stream)
    assert (reply.status, reply.error["code"]) == (503, "model_not_usable")
    assert "x-lemonade-route" not in reply.headers
    assert "x_lemonade_route" not in reply.json


def test_a_row_that_pins_another_template_names_both_digests(box: Box) -> None:
    message = ask(box, "hi", "reprinted").error["message"]
    assert "0" * 10 in message  # the first digits of both, and how to see all of them
    assert str(row(ROW)["template_sha256"])[:10] in message
    assert "fairlane template show" in message


# --- embeddings and JSON --------------------------------------------------------------------------


def test_the_openai_client_gets_embeddings(openai_client: openai.OpenAI) -> None:
    texts = ["rain", "rain", "sun"]
    reply = openai_client.embeddings.create(
        model=EMBEDDER, input=texts
    )  # in base64, as it likes it
    one, same, other = [entry.embedding for entry in reply.data]
    plain = openai_client.embeddings.create(model=EMBEDDER, input=texts, encoding_format="float")
    assert plain.data[0].embedding == pytest.approx(one, abs=1e-4)
    raw = {"model": EMBEDDER, "input": "rain", "encoding_format": "base64"}
    said = call(str(openai_client.base_url).removesuffix("/v1/"), "/v1/embeddings", raw)
    assert isinstance(said.json["data"][0]["embedding"], str)
    assert one == pytest.approx(same, abs=1e-4)
    assert one != pytest.approx(other, abs=1e-2)
    assert reply.model == EMBEDDER
    assert reply.usage.prompt_tokens > 0


def test_an_embedding_does_not_depend_on_what_else_is_asked(box: Box) -> None:
    texts = ["rain", "", "sun"]
    body = {"model": EMBEDDER, "input": texts}
    together = [one["embedding"] for one in call(box.url, "/v1/embeddings", body).json["data"]]
    for text, vector in zip(texts, together, strict=True):
        alone = call(box.url, "/v1/embeddings", {"model": EMBEDDER, "input": text})
        assert alone.json["data"][0]["embedding"] == pytest.approx(vector, abs=1e-4)


def test_a_chat_row_embeds_nothing_and_an_embedding_row_does_not_chat(box: Box) -> None:
    wrong = call(box.url, "/v1/embeddings", {"model": ROW, "input": "x"})
    assert wrong.status == 400
    assert ask(box, "hi", EMBEDDER).status == 400


def test_a_json_object_is_one(box: Box) -> None:
    shape = {"response_format": {"type": "json_schema", "json_schema": {"schema": {
        "type": "object", "properties": {"c": {"enum": ["red", "blue"]}}, "required": ["c"],
        "additionalProperties": False,
    }}}}  # fmt: skip
    reply = ask(box, "A colour", ROW, max_tokens=40, **shape)
    assert json.loads(reply.json["choices"][0]["message"]["content"])["c"] in {"red", "blue"}


def test_an_answer_to_json_object_begins_an_object(box: Box) -> None:
    reply = ask(box, "A colour", ROW, max_tokens=8, response_format={"type": "json_object"})
    assert reply.json["choices"][0]["message"]["content"].lstrip().startswith("{")


# --- what hurts -----------------------------------------------------------------------------------


def test_registering_while_requests_run_hurts_none(box: Box) -> None:
    register(box, policy("user.Moving"))
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask, box, "hi", "user.Moving") for _ in range(6)]
        for number in range(12):
            assert register(box, policy("user.Moving", outputs_of(number))).status == 200
        assert [reply.result().status for reply in asked] == [200] * 6


def outputs_of(number: int) -> list[dict[str, object]]:
    """Return rules that differ from one number to the next."""
    return [{"id": f"r{number}", "match": {"max_chars": 99}, "route_to": ROW}]


def test_many_at_once_register_one_name_and_one_of_them_is_kept(box: Box) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = [policy("user.Same", outputs_of(number)) for number in range(24)]
        replies = list(pool.map(lambda one: register(box, one), made))
    assert [reply.status for reply in replies] == [200] * 24
    rule = ask(box, "hi", "user.Same").headers["x-lemonade-route"]
    assert rule in {f"r{number}" for number in range(24)}


@pytest.mark.parametrize("kind", ["scorer", "store"])
def test_a_helper_killed_while_it_is_asked_is_asked_again_when_it_is_back(
    box: Box, kind: str
) -> None:
    old = box.kill(kind, signal.SIGSTOP)
    body: object = policy("user.Killed") if kind == "store" else {"policy": policy()}
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(call, box.url, PULL if kind == "store" else VALIDATE, body)
        os.kill(old, signal.SIGKILL)
        assert reply.result(timeout=60).status == 200
    assert box.wait_for_new(kind, old)
    assert ask(box, "hi").status == 200


def test_a_killed_store_comes_back_with_all_policies(box: Box) -> None:
    register(box, policy("user.Stays"))
    old = box.kill("store")
    box.wait_for_new("store", old)
    assert register(box, policy("user.After")).status == 200
    for name in ("user.Stays", "user.After"):
        assert ask(box, "hi", name).headers["x-lemonade-route"] == "default"


def test_a_killed_broker_forgets_no_policy(box: Box) -> None:
    register(box, policy("user.Remembered"))
    old = box.kill("broker")
    assert ask(box, "hi", "user.Remembered").status in {200, 503}
    box.wait_for_new("broker", old)
    until(lambda: ask(box, "hi", "user.Remembered").status == 200, "the policy routes again")


def test_a_body_too_long_is_refused_and_hurts_nobody(box: Box) -> None:
    body = b'{"policy":"' + b"x" * 20_000_000
    with ThreadPoolExecutor(2) as pool:
        sent = [pool.submit(call, box.url, path, body) for path in (PULL, VALIDATE)]
        assert [reply.result().status for reply in sent] == [413, 413]
    assert ask(box, "hi").status == 200


def test_policies_are_there_again_when_the_box_is(tmp_path: Path) -> None:
    state = {"state_dir": tmp_path / "state", "workers__engine": "null"}
    with Box(**state) as first:
        assert register(first, policy_of_embedded("user.Kept")).status == 200
        first.stop()
    with Box(**state) as second:
        reply = ask(second, "fix it", "user.Kept")
        assert (reply.status, reply.headers["x-lemonade-route"]) == (200, "fix")


def policy_of_embedded(name: str) -> dict[str, Any]:
    """Return a policy on the rows of the table that comes with the package."""
    npu = "SmolLM2-135M-Instruct-npu"
    made: dict[str, Any] = json.loads(json.dumps(policy(name)).replace(f'"{CODER}"', f'"{npu}"'))
    return made | {"components": [ROW, npu]}
