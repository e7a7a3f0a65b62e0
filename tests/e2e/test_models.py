"""What the box says of itself: models and health."""

from typing import Any

import pytest

from support.box import Box
from support.http import CHAT, NPU_ROW, ROW, call, chat
from support.wait import until


def model(url: str, name: str) -> dict[str, Any]:
    listed: list[dict[str, Any]] = call(url, "/v1/models").json["data"]
    return next(one for one in listed if one["id"] == name)


@pytest.mark.parametrize("name", [ROW, NPU_ROW, "auto", "user.Laya-First"])
def test_each_name_gives_its_context_length(box: Box, name: str) -> None:
    assert model(box.url, name)["context_length"] == 8192


@pytest.mark.parametrize(("name", "device"), [(ROW, "hrx"), (NPU_ROW, "npu")])
def test_a_stand_in_says_what_really_computes(box: Box, name: str, device: str) -> None:
    one = model(box.url, name)
    assert (one["backend"], one["device"]) == ("llama.cpp cpu", device)


def test_one_model_can_be_looked_up(box: Box) -> None:
    assert call(box.url, f"/v1/models/{ROW}").json == model(box.url, ROW)


def test_a_model_that_is_not_there_is_404(box: Box) -> None:
    reply = call(box.url, "/v1/models/nobody")
    assert (reply.status, reply.error["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("prefix", ["/v1", "/api/v1"])
def test_health_is_ok_and_names_each_devices_backend(box: Box, prefix: str) -> None:
    health = call(box.url, f"{prefix}/health").json
    assert health["status"] == "ok"
    backends = {name: device["backend"] for name, device in health["devices"].items()}
    assert backends == {"hrx0": "llama.cpp cpu", "npu0": "llama.cpp cpu"}


def test_health_names_the_loaded_model_by_the_next_heartbeat(box: Box) -> None:
    call(box.url, CHAT, chat(model=ROW))  # a heartbeat comes each second

    def loaded() -> bool:
        health = call(box.url, "/v1/health").json
        return ROW in [one["model_name"] for one in health["all_models_loaded"]]

    until(loaded, "the model shown as loaded", within_s=10.0)
