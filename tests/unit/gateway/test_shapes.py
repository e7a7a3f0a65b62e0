"""HTTP bodies: errors, models, health; and the comments of a stream."""

from typing import Any

import msgspec
import pytest

from scheduler.gateway import shapes
from scheduler.gateway.answer import comment
from scheduler.wire.messages import Note, Refused
from support.stand import ROUTER, Stand


def error(raw: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(raw)["error"]
    return found


@pytest.mark.parametrize(("status", "code", "kind"), [
    (400, "c", "invalid_request_error"), (401, "c", "authentication_error"),
    (403, "c", "permission_error"), (404, "not_found", "invalid_request_error"),
    (404, "model_not_found", "model_not_found"), (429, "queue_full", "rate_limit_error"),
    (500, "c", "server_error"), (503, "c", "server_error"),
])  # fmt: skip
def test_an_errors_type_follows_its_status(status: int, code: str, kind: str) -> None:
    assert error(shapes.error_body(status, "m", code)) == {
        "message": "m", "type": kind, "param": None, "code": code,
    }  # fmt: skip


def test_facts_stand_beside_the_four_fields_and_param_among_them() -> None:
    facts = {"param": "model", "n_ctx": 4096}
    got = error(shapes.error_body(400, "m", "c", facts))
    assert (got["param"], got["n_ctx"]) == ("model", 4096)
    assert facts == {"param": "model", "n_ctx": 4096}


@pytest.mark.parametrize(("retry_s", "header"), [(1.0, "1"), (1.01, "2"), (60.0, "60")])
def test_retry_after_is_whole_seconds_and_never_too_early(retry_s: float, header: str) -> None:
    refused = Refused("r", 429, "queue_full", "m", {}, retry_s)
    assert shapes.refusal(refused)[2] == {"retry-after": header}


def test_a_refusal_without_a_time_has_no_such_header() -> None:
    status, body, headers = shapes.refusal(Refused("r", 503, "c", "m", {"retryable": True}))
    assert (status, headers, error(body)["retryable"]) == (503, {}, True)


def views() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the status and models views of a box with one loaded model."""
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M"])
    stand.run(lane="one")
    stand.ask("waits")
    return stand.core.snapshot(stand.now) | {"version": "1"}, stand.core.models()


def test_the_model_list_holds_rows_collections_and_aliases() -> None:
    listed = shapes.model_list(views()[1])
    by_id = {one["id"]: one for one in listed["data"]}
    assert listed["object"] == "list"
    assert by_id.keys() == {"M", "N", "P", "plain", ROUTER, "auto", "em"}
    assert (by_id["M"]["loaded"], by_id["M"]["backend"], by_id["N"]["loaded"]) == (
        True,
        "test",
        False,
    )
    assert (by_id[ROUTER]["routes"], by_id[ROUTER]["context_length"]) == (True, 4096)
    assert (by_id["auto"]["alias_of"], by_id["auto"]["context_length"]) == (ROUTER, 4096)


def test_every_listed_model_has_openais_fields() -> None:
    for one in shapes.model_list(views()[1])["data"]:
        assert one.keys() >= {"id", "object", "created", "owned_by"}
        assert one["object"] == "model"


def test_health_names_what_is_loaded_and_who_waits() -> None:
    health = shapes.health(*views())
    assert (health["status"], health["model_loaded"]) == ("starting", "M")
    assert health["devices"]["hrx0"] == {"backend": "test", "waiting": 1, "held": 1}
    assert health["devices"]["npu0"]["backend"] is None


def test_health_is_ok_once_everything_is_up() -> None:
    status, models = views()
    assert shapes.health(status | {"ready": True}, models)["status"] == "ok"
    draining = status | {"ready": True, "draining": True}
    assert shapes.health(draining, models)["status"] == "draining"


@pytest.mark.parametrize(("note", "text"), [
    (Note("r", "queue", 3, 12.4), b": queue 3 12\n\n"),
    (Note("r", "queue", 1, 0.0), b": queue 1 0\n\n"),
    (Note("r", "queue", 1), b": queue 1 ?\n\n"),
    (Note("r", "load"), b": load\n\n"),
    (Note("r", "prefill"), b": prefill\n\n"),
    (Note("r", "pull", model="M", done_bytes=1, total_bytes=3), b": pull 33\n\n"),
    (Note("r", "pull", model="M", done_bytes=3, total_bytes=3), b": pull 100\n\n"),
    (Note("r", "pull", model="M", total_bytes=3), b": pull 0\n\n"),
    (Note("r", "pull", model="M", done_bytes=1), b": pull ?\n\n"),
])  # fmt: skip
def test_a_comment_says_where_a_request_stands(note: Note, text: bytes) -> None:
    assert comment(note) == text


@pytest.mark.parametrize(("body", "wanted"), [
    (b'{"model": "M"}', ("M", False)),
    (b'{"model_name": "M", "stream": false}', ("M", False)),
    (b'{"model_name": "M", "stream": true}', ("M", True)),
    (b'{"model_name": "M", "stream": "yes"}', ("M", False)),
    (b'{"model_name": "user.X", "checkpoint": "org/repo:Q4"}', None),
    (b'{"model_name": ""}', None),
    (b'{"model_name": "%s"}' % (b"x" * 257), None),
    (b'{"model_name": "user.X", "recipe": "collection.router", "routing": {}}', None),
    (b'{"model_name": "M", "routing": {}}', None),
    (b'{"model": 5}', None),
    (b'{}', None),
    (b"[" * 100_000, None),
    (b"\xff", None),
])  # fmt: skip
def test_a_pull_names_a_model_unless_it_brings_a_definition(
    body: bytes, wanted: tuple[str, bool] | None
) -> None:
    found = shapes.wanted_pull(body)
    assert (found and (found.model, found.stream)) == wanted
