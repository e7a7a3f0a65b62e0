"""The core with helpers beside its devices; its invariants are checked after every event."""

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple, TypeVar

from msgspec import Raw

from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.core.appliance import Appliance
from scheduler.core.catalogue import Catalogue, RowFacts
from scheduler.core.limits import Limits

CLIENT = b"client"
COLLECTION = "user.Laya-First"
E = TypeVar("E")


def facts(model: str, device: str = "hrx", **other: object) -> RowFacts:
    """Return what the core knows of a row."""
    known: dict[str, object] = {"model": model, "device": device, "ctx": 4096, **other}
    return RowFacts(**known)  # type: ignore[arg-type]  # a test's shorthand


class Peer(NamedTuple):
    """A registered worker."""

    route: bytes
    epoch: int


class Helped:
    """One box: rows M (default), N, S (code's fallback) and P on the NPU; both devices served."""

    def __init__(
        self, limits: Limits | None = None, rows: Iterable[RowFacts] = (), fallback: str = "S"
    ) -> None:
        self.now = 100.0
        self.limits = limits or Limits()
        self._numbers = count(1)
        known = [facts("M"), facts("N"), facts("S"), facts("P", "npu"), *rows]
        catalogue = Catalogue(
            rows={row.model: row for row in known},
            collections={COLLECTION: "M"},
            aliases={"auto": COLLECTION},
            fallbacks={"code": fallback} if fallback else {},
            shipped=frozenset({COLLECTION}),
        )
        self.core = Appliance(catalogue, self.limits, boot=1, at=self.now)
        self.epochs: dict[bytes, int] = {}  # route -> epoch
        self._asked: dict[bytes, int] = {}  # route -> the last question it was asked
        self.hrx = self.join("hrx", "hrx0")
        self.npu = self.join("npu", "npu0")

    def send(self, event: ev.Event) -> list[fx.Effect]:
        """Hand one event in."""
        effects = self.core.handle(event)
        self.core.check_invariants()
        self.epochs |= {admitted.worker: admitted.epoch for admitted in of(effects, fx.Admit)}
        for asked in of(effects, fx.AskHelper):
            self._asked[asked.worker] = asked.ticket
        return effects

    def joining(self, kind: str, device: str = "") -> list[fx.Effect]:
        """Let a worker join and return all that follows."""
        number = next(self._numbers)
        route = f"{kind}-{number}".encode()
        return self.send(
            ev.WorkerReady(
                self.now, route, f"{kind}-{number}", kind, device, number, 1.0, f"n{number}", 1,
                "test",
            )
        )  # fmt: skip

    def join(self, kind: str, device: str = "") -> Peer:
        """Let a worker join."""
        admitted = of(self.joining(kind, device), fx.Admit)[0]
        return Peer(admitted.worker, admitted.epoch)

    def lose(self, route: bytes) -> list[fx.Effect]:
        """Lose a worker."""
        return self.send(ev.WorkerLost(self.now, route, "it left"))

    def ask(self, op: str, rid: str = "r", name: str = "", **fields: object) -> list[fx.Effect]:
        """Ask for something."""
        known: dict[str, object] = {
            "lane": "lane", "conversation": f"of {rid}", "tools": False, "json_schema": False,
            "stream": False, "body": b"{}", **fields,
        }  # fmt: skip
        return self.send(
            ev.Asked(
                self.now, CLIENT, rid, op, name, known["lane"], known["conversation"],  # type: ignore[arg-type]  # a test's shorthand
                True, known["stream"], False, self.now + 600.0, 0, None, known["tools"], False,  # type: ignore[arg-type]
                known["json_schema"], known["body"],  # type: ignore[arg-type]
            )
        )  # fmt: skip

    def chat(self, rid: str = "r", *, name: object = "auto", **fields: object) -> list[fx.Effect]:
        """Ask for a chat."""
        return self.ask("chat", rid, str(name), **fields)

    def serve(self, peer: Peer, status: int = 200, body: bytes = b"{}") -> list[fx.Effect]:
        """Let a helper answer what it was asked last."""
        return self.serve_ticket(peer, self._asked[peer.route], status, body)

    def serve_ticket(
        self, peer: Peer, ticket: int, status: int = 200, body: bytes = b"{}"
    ) -> list[fx.Effect]:
        """Let a helper answer a question."""
        return self.send(ev.Served(self.now, peer.route, peer.epoch, ticket, status, body))

    def shelve(
        self, peer: Peer, collections: dict[str, str], slow: list[str] | None = None
    ) -> list[fx.Effect]:
        """Let a worker say which user policies there are."""
        policies = {name: Raw(b"{}") for name in collections}
        return self.send(
            ev.Shelved(self.now, peer.route, peer.epoch, collections, slow or [], policies)
        )

    def decide(
        self, peer: Peer, model: str = "N", rule: str = "laya-code", class_: str = "code"
    ) -> list[fx.Effect]:
        """Let a scorer decide what it was asked last."""
        ticket = self._asked[peer.route]
        return self.send(
            ev.Decided(
                self.now, peer.route, peer.epoch, ticket, rule, model, class_, 0.5, False, b"{D}"
            )
        )

    def fail(
        self, run: fx.Dispatch, cause: str = "", code: str = "model_not_usable"
    ) -> list[fx.Effect]:
        """Let a job fail."""
        peer = self.npu if run.worker == self.npu.route else self.hrx
        given: dict[str, str | int | float | bool | None] = {"cause": cause} if cause else {}
        return self.send(
            ev.Failed(
                self.now, peer.route, peer.epoch, run.ticket, run.lease, 503, code, "no", given
            )
        )

    def unusable(self, run: fx.Dispatch, cause: str = "") -> list[fx.Effect]:
        """Let a row turn out unusable: what is tried again fails again, and what is to be pulled fails."""
        effects = self.fail(run, cause)
        again = [d for d in of(effects, fx.Dispatch) if d.model == run.model]
        if again:
            return self.fail(again[0], cause)
        for fetch in of(effects, fx.Fetch):
            return self.pulled(fetch, "pull_failed")
        return effects

    def pulled(self, fetch: fx.Fetch, cause: str = "", message: str = "no") -> list[fx.Effect]:
        """Let a pull end."""
        said = (fetch.model, cause, message if cause else "", 1.0)
        return self.send(ev.Pulled(self.now, fetch.store, self.epochs[fetch.store], *said))

    def finish(self, run: fx.Dispatch) -> list[fx.Effect]:
        """Let a job end well."""
        peer = self.npu if run.worker == self.npu.route else self.hrx
        return self.send(
            ev.Finished(
                self.now, peer.route, peer.epoch, run.ticket, run.lease, False, None, None, 1, 0, 1,
                b"reply",
            )
        )  # fmt: skip

    def produce(self, run: fx.Dispatch) -> list[fx.Effect]:
        """Let a piece of an answer come."""
        return self.send(
            ev.Produced(
                self.now, self.hrx.route, self.hrx.epoch, run.ticket, run.lease, 1, None, b"piece"
            )
        )

    def wait(self, seconds: float, *alive: Peer) -> list[fx.Effect]:
        """Let time pass: a tick at each deadline, beats of the devices and of who is alive."""
        effects: list[fx.Effect] = []
        until = self.now + seconds
        while (due := self.core.next_deadline()) <= until:
            self.now = max(self.now, due)
            for peer in (self.hrx, self.npu, *alive):
                effects += self.send(ev.WorkerBeat(self.now, peer.route, peer.epoch, []))
            effects += self.send(ev.Ticked(self.now))
        self.now = until
        return effects

    @property
    def open(self) -> int:
        """Requests that have not ended."""
        return len(self.core._box.tickets)

    def count(self, what: str) -> int:
        """Return one of the core's counters."""
        return self.core._box.counts.get(what, 0)


def of(effects: Iterable[fx.Effect], kind: type[E]) -> list[E]:
    """Return the effects of one kind, in order."""
    return [effect for effect in effects if isinstance(effect, kind)]


def one(effects: Iterable[fx.Effect], kind: type[E]) -> E:
    """Return the only effect of one kind."""
    found = of(effects, kind)
    assert len(found) == 1, f"{len(found)} {kind.__name__} in {list(effects)}"
    return found[0]
