"""The fake server itself: HTTP in, an answer or a misdeed out."""

import json
import os
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from policies.shape import is_array
from workers.fake_server import words
from workers.fake_server.anthropic import Messages
from workers.fake_server.events import Door, data
from workers.fake_server.openai import Chat, Completion, embeddings
from workers.fake_server.plays import Play
from workers.fake_server.responses import Responses
from workers.fake_server.slots import Slot, Slots
from workers.fake_server.wire import Gone, Wire, die

Object = dict[str, Any]
_NOISE = (
    b": hello\n\n",
    b"id: 7\nretry: 10\n\n",
    b"data: no JSON\n\n",
    b"data\n\n",
    b"nonsense without a colon\n\n",
    b"event: ping\n\n",
    b"\r\n\r\n",
    b'data: {"half":\r\ndata: 1}\r\n\r\n',
    b"data: [1, 2]\n\n",
)
DOORS: dict[str, type[Chat | Completion | Responses | Messages]] = {
    "/v1/chat/completions": Chat,
    "/v1/completions": Completion,
    "/v1/responses": Responses,
    "/v1/messages": Messages,
}


class Nature(Struct, frozen=True, kw_only=True):
    """What this server is like. Times in seconds."""

    model: str = "fake"  # the name in its replies
    tokens: int = 9  # of an answer whose request sets no lower limit
    token_s: float = 0.0
    prompt_token_s: float = 0.0  # of a token of the prompt that no slot holds
    slots: int = 1
    ctx: int = 4096
    seconds: float = 1.0  # how long what takes its time takes
    count: str = ""  # file to which each request's path and body are appended
    key: str = ""  # the API key it wants; empty: none


class FakeServer(ThreadingHTTPServer):
    """One server."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], nature: Nature, play: Play) -> None:
        super().__init__(address, Handler)
        self.nature = nature
        self.play = play
        self.started = play.at_start()
        self.ready_at = time.monotonic() + (nature.seconds if self.started == "slow-start" else 0.0)
        self.slots = Slots(nature.slots)
        self.count_lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that leave."""
        if not isinstance(sys.exc_info()[1], ConnectionError | ValueError):
            super().handle_error(request, client_address)


class Handler(Wire):
    """One connection's requests."""

    server: FakeServer  # type: ignore[mutable-override]  # pyright: ignore[reportIncompatibleVariableOverride]  # always this one
    _posts: ClassVar[dict[str, str]] = {
        "/v1/embeddings": "_embed",
        "/v1/rerank": "_rerank",
        "/rerank": "_rerank",
        "/tokenize": "_tokenize",
        "/v1/messages/count_tokens": "_count_tokens",
    }

    def do_GET(self) -> None:  # noqa: N802  # the base's name
        """Answer what asks how it is."""
        server = self.server
        if server.started == "mute":
            threading.Event().wait()
        if self.path in {"/health", "/v1/health"} and server.started != "no-health":
            waits = server.started == "never-ready" or time.monotonic() < server.ready_at
            loading = {
                "error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}
            }
            self.reply(*((503, loading) if waits else (200, {"status": "ok"})))
        elif self.path == "/slots":
            self.reply(200, server.slots.view(server.nature.ctx))
        elif self.path == "/v1/models":
            one = {"id": server.nature.model, "object": "model", "owned_by": "fake"}
            self.reply(200, {"object": "list", "data": [one]})
        else:
            self.reply(404, _error(404, "not_found_error", "File Not Found"))

    def do_POST(self) -> None:  # noqa: N802
        """Answer a request, or misbehave."""
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        self._write_down(raw)
        key = self.server.nature.key
        if key and self.headers.get("authorization") != f"Bearer {key}":
            self.reply(401, _error(401, "authentication_error", "Invalid API Key"))
            return
        try:
            body = json.loads(raw)
        except ValueError as error:
            self.reply(400, _error(400, "invalid_request_error", str(error)))
            return
        play = self.server.play.at_answer()
        try:
            self._answer(body, play)
        except (Gone, ConnectionError):
            self.close_connection = True

    def _answer(self, body: Object, play: str) -> None:
        if self._misbehaves_at_once(play, body):
            return
        plain = self._posts.get(self.path)
        if plain is not None:
            getattr(self, plain)(body)
            return
        shape = DOORS.get(self.path)
        if shape is None:
            self.reply(404, _error(404, "not_found_error", "File Not Found"))
            return
        self._speak(body, shape(self.server.nature.model, body), play)

    # --- answers that are made of tokens ---

    def _speak(self, body: Object, door: Door, play: str) -> None:
        nature, prompt = self.server.nature, words.prompt_of(body)
        if len(prompt) >= nature.ctx:
            told = _error(400, "exceed_context_size_error", "the request exceeds the context size")
            told["error"] |= {"n_prompt_tokens": len(prompt), "n_ctx": nature.ctx}
            self.reply(400, told)
            return
        said = words.answer_to(body, nature.tokens)
        stubborn = play == "ignores-cancel"
        with self.server.slots.taken(prompt, int(body.get("id_slot", -1))) as slot:
            try:
                counted = self._read(prompt, slot, said, body)
                if body.get("stream"):
                    self._stream(door, said, counted, play)
                else:
                    for _ in door.pieces(said):
                        self.work(nature.token_s)
                    self.reply(200, door.whole(said, counted), play)
            except (Gone, ConnectionError):
                time.sleep(nature.seconds if stubborn else 0.0)
                raise
            slot.tokens = [*prompt, "<assistant>", *words.tokens_of("".join(said.text))]

    def _read(self, prompt: list[str], slot: Slot, said: words.Said, body: Object) -> words.Counted:
        """Take the prompt in and return what that and the answer count."""
        began_at = time.monotonic()
        cached = slot.shares(prompt) if body.get("cache_prompt", True) else 0
        nature = self.server.nature
        slot.tokens = prompt[:cached]
        for token in prompt[cached:]:
            self.work(nature.prompt_token_s)
            slot.tokens.append(token)
        output = len(said.reasoning) + len(said.text) + (1 if said.call else 0)
        read_ms = (time.monotonic() - began_at) * 1e3
        return words.Counted(len(prompt), cached, output, read_ms, output * nature.token_s * 1e3)

    def _stream(self, door: Door, said: words.Said, counted: words.Counted, play: str) -> None:
        self.begin("text/event-stream")
        for event in door.opening(counted):
            self.chunk(event)
        for number, group in enumerate(door.pieces(said)):
            self.work(self.server.nature.token_s)
            if self._misbehaves(play, number):
                return
            for event in group:
                self.chunk(event)
        if play != "no-done":
            closing = b"".join(door.closing(said, counted))
            cut = {"no-line-end": closing.rstrip(), "no-last-line": closing.rstrip()[:-3]}
            self.chunk(cut.get(play, closing))
        self.chunk(b"")

    # --- answers that are not ---

    def _embed(self, body: Object) -> None:
        given = body.get("input", "")
        texts = [str(text) for text in given] if is_array(given) else [str(given)]
        vectors = [words.vector_of(text) for text in texts]
        self.reply(200, embeddings(self.server.nature.model, texts, vectors))

    def _rerank(self, body: Object) -> None:
        query, documents = str(body.get("query", "")), body.get("documents", [])
        scores = [words.relevance(query, str(document)) for document in documents]
        ranks = sorted(range(len(scores)), key=lambda n: -scores[n])[
            : body.get("top_n", len(scores))
        ]
        results = [{"index": n, "relevance_score": scores[n]} for n in ranks]
        model = self.server.nature.model
        self.reply(200, {"model": model, "object": "list", "results": results})

    def _tokenize(self, body: Object) -> None:
        tokens = words.tokens_of(str(body.get("content", "")))
        self.reply(200, {"tokens": [len(token) for token in tokens]})

    def _count_tokens(self, body: Object) -> None:
        self.reply(200, {"input_tokens": len(words.prompt_of(body))})

    # --- misdeeds ---

    def _misbehaves_at_once(self, play: str, body: Object) -> bool:  # noqa: C901  # a play each
        """Do what is done before the first byte of an answer; return whether that was all."""
        match play:
            case "dies-early":
                die()
            case "hangs-early":
                self.wait_for_the_client()
            case "wrong-type":
                self.send(200, "text/html", b"<html><body>It works!</body></html>")
            case "not-json":
                self.send(200, "application/json", b'{"choices": [')
            case "no-http":
                self.wfile.write(b"SSH-2.0-fake\r\n\r\n")
                self.close_connection = True
            case "error-400":
                told = _error(
                    400, "exceed_context_size_error", "the request exceeds the context size"
                )
                told["error"] |= {"n_prompt_tokens": 9000, "n_ctx": 4096}
                self.reply(400, told)
            case "error-500":
                self.reply(500, _error(500, "server_error", "out of memory"))
            case "error-detail":
                self.reply(
                    422, {"detail": [{"loc": ["body", "top_k"], "msg": "must be an integer"}]}
                )
            case "error-html":
                self.send(502, "text/html", b"<html><h1>502 Bad Gateway</h1></html>")
            case "no-model":
                name = str(body.get("model"))
                said = f"model '{name}' not found, try pulling it first"
                self.reply(404, _error(404, "api_error", said))
            case "error-busy":
                self.reply(503, _error(503, "unavailable_error", "no slot is free"))
            case _:
                return False
        return True

    def _misbehaves(self, play: str, number: int) -> bool:
        """Do what is done within a stream, before piece `number`; return whether that was all."""
        if play == "garbage":
            for event in _NOISE:
                self.chunk(event)
        if number != 1:
            return False
        match play:
            case "dies":
                die()
            case "hangs":
                self.wait_for_the_client()
            case "cuts":
                self.close_connection = True
            case "error-stream":
                self.chunk(data(_error(500, "server_error", "out of memory")))
                self.chunk(b"")
            case "huge-line":
                self.chunk(b'data: {"x": "' + b"x" * 64 * 1024 * 1024 + b'"}\n\n')
                return False
            case "endless-line":
                self._say_for_ever()
            case _:
                return False
        return True

    def _say_for_ever(self) -> None:
        self.chunk(b'data: {"x": "')
        while True:
            self.chunk(b"x" * 1024 * 1024)

    def _write_down(self, raw: bytes) -> None:
        name = self.server.nature.count
        if not name:
            return
        told: Object = {"path": self.path, "pid": os.getpid(), "body": raw.decode(errors="replace")}
        told["headers"] = {key.lower(): value for key, value in self.headers.items()}
        line = json.dumps(told)
        with self.server.count_lock, Path(name).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _error(code: int, kind: str, message: str) -> Object:
    return {"error": {"code": code, "message": message, "type": kind}}
