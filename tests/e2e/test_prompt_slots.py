"""Two conversations that alternate on one row find their prompts again, seen as a client sees it."""

from support.box import Box
from support.http import ROW, call

Messages = list[dict[str, str]]
FILLER = {
    "tide": "The tide comes in at noon and the boats leave the harbour. ",
    "bread": "Every winter the village bakes bread with rye and honey. ",
}


def turn(box: Box, messages: Messages, text: str) -> float:
    """Say something, take the answer in, and return the part of the prompt that was there already."""
    messages.append({"role": "user", "content": text})
    body = {"model": ROW, "messages": messages, "max_tokens": 4, "temperature": 0}
    reply = call(box.url, body=body)
    assert reply.status == 200
    messages.append(reply.json["choices"][0]["message"])
    usage = reply.json["usage"]
    share: float = usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"]
    return share


def test_each_of_two_conversations_keeps_its_prompt(box: Box) -> None:
    talks: dict[str, Messages] = {name: [] for name in FILLER}
    for name, messages in talks.items():
        assert turn(box, messages, FILLER[name] * 20) < 0.5
    for _ in range(2):
        for messages in talks.values():
            assert turn(box, messages, "And then?") >= 0.9
