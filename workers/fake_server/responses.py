"""The fake's answers at `/v1/responses`. Pure."""

from typing import Any

from workers.fake_server.events import Object, data, parts_of
from workers.fake_server.words import Counted, Said


class Responses:
    """`/v1/responses`, OpenAI's newer shape."""

    def __init__(self, model: str, body: Object) -> None:
        self._model = model
        self._body = body
        self._seq = 0

    def whole(self, said: Said, counted: Counted) -> Object:
        """Return a response."""
        return self._response("completed", [self._item(said)], counted)

    def opening(self, counted: Counted) -> list[bytes]:
        """Return that a response began."""
        response = self._response("in_progress", [], None)
        return [self._event("response.created", response=response),
                self._event("response.in_progress", response=response)]  # fmt: skip

    def pieces(self, said: Said) -> list[list[bytes]]:
        """Return the item's beginning with its first token, then an event a token."""
        call = said.call
        place: Object = {"item_id": "item_fake", "output_index": 0}
        if call:
            call_item = {**self._item(said), "arguments": "", "status": "in_progress"}
            groups = [[self._event("response.output_item.added", output_index=0, item=call_item)]]
            kind = "response.function_call_arguments.delta"
            groups += [
                [self._event(kind, **place, delta=part)] for part in parts_of(call.arguments)
            ]
            return groups
        empty: Object = {**self._item(said), "content": [], "status": "in_progress"}
        part: Object = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        place["content_index"] = 0
        head = [self._event("response.output_item.added", output_index=0, item=empty),
                self._event("response.content_part.added", **place, part=part)]  # fmt: skip
        kind = "response.output_text.delta"
        groups = [[self._event(kind, **place, delta=text, logprobs=[])] for text in said.text]
        return [[*head, *(groups[0] if groups else [])], *groups[1:]]

    def closing(self, said: Said, counted: Counted) -> list[bytes]:
        """Return that all of it is done."""
        item = self._item(said)
        place: Object = {"item_id": "item_fake", "output_index": 0}
        if said.call:
            kind, told = "response.function_call_arguments.done", said.call
            done = [self._event(kind, **place, name=told.name, arguments=told.arguments)]
        else:
            place["content_index"] = 0
            text = "".join(said.text)
            done = [
                self._event("response.output_text.done", **place, text=text, logprobs=[]),
                self._event("response.content_part.done", **place, part=item["content"][0]),
            ]
        response = self._response("completed", [item], counted)
        return [
            *done,
            self._event("response.output_item.done", output_index=0, item=item),
            self._event("response.completed", response=response),
        ]

    def _item(self, said: Said) -> Object:
        if said.call:
            return {
                "id": "item_fake", "type": "function_call", "status": "completed", "call_id": "call_fake",
                "name": said.call.name, "arguments": said.call.arguments,
            }  # fmt: skip
        part: Object = {
            "type": "output_text",
            "text": "".join(said.text),
            "annotations": [],
            "logprobs": [],
        }
        return {
            "id": "item_fake", "type": "message", "status": "completed", "role": "assistant",
            "content": [part],
        }  # fmt: skip

    def _response(self, status: str, output: list[Object], counted: Counted | None) -> Object:
        usage = counted and {
            "input_tokens": counted.prompt,
            "input_tokens_details": {"cached_tokens": counted.cached},
            "output_tokens": counted.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counted.prompt + counted.output,
        }
        return {
            "id": "resp_fake", "object": "response", "created_at": 1, "status": status, "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {}, "model": self._model,
            "output": output, "parallel_tool_calls": False, "temperature": 1.0, "top_p": 1.0,
            "tool_choice": "auto", "tools": self._body.get("tools", []), "usage": usage,
        }  # fmt: skip

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._seq += 1
        return data({"type": kind, "sequence_number": self._seq - 1, **fields}, kind)
