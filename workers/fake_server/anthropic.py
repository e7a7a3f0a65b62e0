"""The fake's answers at `/v1/messages`. Pure."""

import json

from workers.fake_server.events import Object, data, parts_of
from workers.fake_server.words import Counted, Said


class Messages:
    """`/v1/messages`, Anthropic's shape."""

    def __init__(self, model: str, _body: Object) -> None:
        self._model = model

    def whole(self, said: Said, counted: Counted) -> Object:
        """Return a message."""
        blocks: list[Object] = []
        if said.reasoning:
            blocks.append(
                {"type": "thinking", "thinking": "".join(said.reasoning), "signature": ""}
            )
        if said.call:
            blocks.append({**self._tool(said), "input": json.loads(said.call.arguments)})
        else:
            blocks.append({"type": "text", "text": "".join(said.text)})
        return {**self._message(counted), "content": blocks, "stop_reason": _stop(said)}

    def opening(self, counted: Counted) -> list[bytes]:
        """Return that a message began."""
        begun: Object = {**self._message(counted), "content": [], "stop_reason": None}
        began = [data({"type": "message_start", "message": begun}, "message_start")]
        return [*began, data({"type": "ping"}, "ping")]

    def pieces(self, said: Said) -> list[list[bytes]]:
        """Return block after block."""
        groups: list[list[bytes]] = []
        index = 0
        if said.reasoning:
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": text} for text in said.reasoning]
            groups += _block(index, empty, deltas)
            index += 1
        if said.call:
            parts = parts_of(said.call.arguments)
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return groups + _block(index, {**self._tool(said), "input": {}}, deltas)
        deltas = [{"type": "text_delta", "text": text} for text in said.text]
        return groups + _block(index, {"type": "text", "text": ""}, deltas)

    def closing(self, said: Said, counted: Counted) -> list[bytes]:
        """Return why it ends."""
        ends = {"stop_reason": _stop(said), "stop_sequence": None}
        usage = {"output_tokens": counted.output}
        return [
            data({"type": "message_delta", "delta": ends, "usage": usage}, "message_delta"),
            data({"type": "message_stop"}, "message_stop"),
        ]

    def _message(self, counted: Counted) -> Object:
        usage = {
            "input_tokens": counted.prompt - counted.cached,
            "cache_read_input_tokens": counted.cached,
            "output_tokens": counted.output,
        }
        return {
            "id": "msg_fake", "type": "message", "role": "assistant", "model": self._model,
            "stop_sequence": None, "usage": usage,
        }  # fmt: skip

    def _tool(self, said: Said) -> Object:
        name = said.call.name if said.call else ""
        return {"type": "tool_use", "id": "toolu_fake", "name": name}


def _block(index: int, empty: Object, deltas: list[Object]) -> list[list[bytes]]:
    """Return the events of one content block, a group a token."""
    start = {"type": "content_block_start", "index": index, "content_block": empty}
    groups = [
        [
            data(
                {"type": "content_block_delta", "index": index, "delta": delta},
                "content_block_delta",
            )
        ]
        for delta in deltas
    ]
    groups = groups or [[]]
    groups[0].insert(0, data(start, "content_block_start"))
    stop = {"type": "content_block_stop", "index": index}
    groups[-1].append(data(stop, "content_block_stop"))
    return groups


def _stop(said: Said) -> str:
    if said.call:
        return "tool_use"
    return "max_tokens" if said.cut else "end_turn"
