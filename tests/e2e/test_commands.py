"""The commands that ask a running box."""

import json

import pytest

from support.box import Box
from support.http import ROW


def test_ask_prints_the_answer_and_its_route_apart(box: Box) -> None:
    shown = box.cli("ask", "Hi", "--max-tokens", "4", "--url", box.url)
    assert shown.returncode == 0
    assert shown.stdout.strip()
    assert f'"model": "{ROW}"' in shown.stderr


def test_ask_json_is_one_object(box: Box) -> None:
    shown = box.cli("ask", "Hi", "--max-tokens", "2", "--url", box.url, "--json")
    assert json.loads(shown.stdout)["model"] == ROW


def test_ask_for_an_unknown_model_is_declined(box: Box) -> None:
    shown = box.cli("ask", "Hi", "--model", "nobody", "--url", box.url)
    assert (shown.returncode, shown.stdout) == (5, "")
    assert "nobody" in shown.stderr


def test_ask_without_a_gateway_says_so(box: Box) -> None:
    shown = box.cli("ask", "Hi", "--url", "http://127.0.0.1:9")
    assert (shown.returncode, "fairlane up" in shown.stderr) == (4, True)


def test_status_shows_each_device_with_its_real_backend(box: Box) -> None:
    shown = box.cli("status")
    assert shown.returncode == 0
    assert "hrx0" in shown.stdout
    assert "llama.cpp cpu" in shown.stdout


def test_status_json_is_one_object(box: Box) -> None:
    assert json.loads(box.cli("status", "--json").stdout)["ready"] is True


@pytest.mark.parametrize("kind", ["broker", "gateway"])
def test_a_single_process_beside_a_running_box_does_it_no_harm(box: Box, kind: str) -> None:
    port = box.url.rpartition(":")[2]
    own = box.environ
    try:
        box.environ = {**own, "FAIRLANE__GATEWAY__PORT": port}
        assert box.cli(kind).returncode != 0
    finally:
        box.environ = own
    assert box.cli("status").returncode == 0
