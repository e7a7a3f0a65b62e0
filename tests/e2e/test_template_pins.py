"""Pins of chat templates in a box: a mismatch is told, and refused where they are strict."""

import json
from collections.abc import Callable
from pathlib import Path

from support.box import Box
from support.http import ROW, call, chat

FILE = "smollm2-135m-instruct.q4_1.gguf"
DIGEST = "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"


def pins(folder: Path) -> Path:
    """Write a document that pins the embedded model to another template."""
    file = folder / "pins.json"
    file.write_text(json.dumps({"version": "1", "pins": {FILE: {"sha256": "0" * 64}}}))
    return file


def records(box: Box, action: str) -> list[dict[str, object]]:
    return [record for record in box.log() if record["action"] == action]


def test_a_mismatch_is_a_warning(new_box: Callable[..., Box], tmp_path: Path) -> None:
    box = new_box(workers__template_pins=pins(tmp_path))
    assert call(box.url, body=chat(model=ROW)).status == 200
    (told,) = records(box, "template_mismatch")
    assert (told["level"], told["differs_from"], told["refused"]) == ("warning", "pin", False)
    (loaded,) = records(box, "model_loaded")
    assert (loaded["template_sha256"], loaded["pin"]) == (DIGEST, "mismatch")


def test_the_flag_of_up_makes_it_a_refusal(prepared: Callable[..., Box], tmp_path: Path) -> None:
    box = prepared(workers__template_pins=pins(tmp_path))
    box.flags = ["--template-pin-strict"]
    box.start()
    reply = call(box.url, body=chat(model=ROW))
    assert (reply.status, reply.error["code"]) == (503, "model_not_usable")
    assert DIGEST in reply.error["message"]
    assert records(box, "model_loaded") == []
    assert records(box, "template_mismatch")[0]["refused"] is True


def test_pins_that_cannot_be_read_keep_the_box_from_starting(
    prepared: Callable[..., Box], tmp_path: Path
) -> None:
    box = prepared(workers__template_pins=tmp_path / "none.json")
    assert box.spawn().wait(timeout=60) == 3
    assert "cannot read workers.template_pins" in box.log_file.read_text()
