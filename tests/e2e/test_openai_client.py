"""The box as the `openai` client sees it."""

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionUserMessageParam

from support.box import Box
from support.http import ROW


def said(text: str) -> list[ChatCompletionUserMessageParam]:
    return [{"role": "user", "content": text}]


def ask(client: openai.OpenAI, text: str, model: str = "auto") -> ChatCompletion:
    return client.chat.completions.create(
        model=model, messages=said(text), max_tokens=6, temperature=0
    )


def test_a_whole_answer_has_text_usage_and_a_reason_to_end(client: openai.OpenAI) -> None:
    reply = ask(client, "Hi")
    assert reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 6


def test_a_stream_says_the_same_as_a_whole_answer(client: openai.OpenAI) -> None:
    whole = ask(client, "Name a colour").choices[0].message.content
    stream = client.chat.completions.create(
        model="auto", messages=said("Name a colour"), max_tokens=6, temperature=0, stream=True
    )
    with stream:
        text = "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
    assert text == whole


@pytest.mark.parametrize("name", ["auto", "user.Laya-First", ROW])
def test_each_chunk_names_the_model_that_answers(client: openai.OpenAI, name: str) -> None:
    stream = client.chat.completions.create(
        model=name, messages=said("Hi"), max_tokens=4, temperature=0, stream=True
    )
    with stream:
        assert {chunk.model for chunk in stream} == {ROW}


@pytest.mark.parametrize("name", ["auto", "user.Laya-First", ROW])
def test_a_whole_answer_names_the_model_that_answered(client: openai.OpenAI, name: str) -> None:
    assert ask(client, "Hi", name).model == ROW


def test_a_stream_ends_with_usage_where_it_was_asked_for(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="auto", messages=said("Hi"), max_tokens=4, temperature=0, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    with stream:
        last = list(stream)[-1]
    assert last.usage is not None
    assert last.usage.completion_tokens == 4


def test_an_unknown_model_is_not_found_in_lemonades_shape(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        ask(client, "Hi", "no-such-model")
    body = caught.value.body
    assert isinstance(body, dict)
    assert (body["type"], body["code"]) == ("model_not_found", "model_not_found")
    assert body["requested_model"] == "no-such-model"
    assert "no-such-model" in body["message"]


def test_two_conversations_at_once_are_both_answered(client: openai.OpenAI) -> None:
    with ThreadPoolExecutor(2) as pool:
        texts = ("Say one", "Say two")
        one, two = pool.map(lambda text: ask(client, text), texts)
    assert one.choices[0].message.content
    assert two.choices[0].message.content
    assert one.id != two.id


def test_a_client_that_closes_a_stream_in_the_middle_can_ask_again(
    client: openai.OpenAI, box: Box
) -> None:
    stream = client.completions.create(
        model=ROW, prompt="1 2 3 4 5 6 7 8", max_tokens=2000, temperature=0, stream=True
    )
    next(iter(stream))
    stream.close()
    assert ask(client, "Hi").choices[0].finish_reason == "length"


def test_a_completion_goes_on_with_its_prompt(client: openai.OpenAI) -> None:
    reply = client.completions.create(
        model="auto", prompt="1 2 3 4 5 6 7 8 9 10 11", max_tokens=6, temperature=0
    )
    assert "12 13" in reply.choices[0].text


def test_the_clients_own_list_of_models_holds_every_name(client: openai.OpenAI) -> None:
    names = {model.id for model in client.models.list()}
    assert {"auto", "user.Laya-First", ROW} <= names
