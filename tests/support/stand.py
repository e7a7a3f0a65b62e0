"""A test stand for the core: one Appliance, a clock, and a verb for everything that can happen to it.

Every verb returns the effects of its event, and the invariants are checked after each.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from scheduler.core import Appliance, Catalogue, Limits, RowFacts
from scheduler.core import effects as fx
from scheduler.core import events as ev

CLIENT = b"client"
ROUTER = "user.Laya-First"
POLICIES = {"user.Mine": msgspec.Raw(b"{}")}  # passed on unread, so any will do
E = TypeVar("E")


def row(model: str, device: str = "hrx", **abilities: object) -> RowFacts:
    """Return a row's facts; all abilities unless said otherwise."""
    able = {"tools": True, "images": True, "json_schema": True, "max_tokens": 100}
    return RowFacts(model=model, device=device, ctx=4096, **(able | abilities))  # type: ignore[arg-type]  # a test's shorthand


ROWS = (
    row("M"),
    row("N"),
    row("P", "npu"),
    row("plain", tools=False, images=False, json_schema=False),
)


def catalogue(
    rows: Iterable[RowFacts] = ROWS, default: str = "M", budget_s: float = 600.0
) -> Catalogue:
    """Return a catalogue with one collection, `auto` for it, `em` for row M, and N, else P, for code."""
    return Catalogue(
        rows={one.model: one for one in rows},
        collections={ROUTER: default},
        aliases={"auto": ROUTER, "em": "M"},
        fallbacks={"code": "P"},
        classes={"code": "N"},
        pull_budget_s=budget_s,
        shipped=frozenset({ROUTER}),
    )


class Peer(NamedTuple):
    """A registered worker as the test knows it."""

    route: bytes
    epoch: int


class Stand:
    """One box under test."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        rows: Iterable[RowFacts] = ROWS,
        default: str = "M",
        weights: dict[str, float] | None = None,
        boot: int = 1,
        memory: int | None = None,
        budget_s: float = 600.0,
    ) -> None:
        self.now = 100.0
        self.limits = limits or Limits()
        self.core = Appliance(
            catalogue(rows, default, budget_s),
            self.limits,
            boot=boot,
            at=self.now,
            weights=weights,
            memory=memory,
        )
        self.epochs: dict[bytes, int] = {}  # route -> epoch of its latest admission
        self.resident: dict[bytes, list[str]] = {}  # route -> what its engine has loaded

    def send(self, event: ev.Event) -> list[fx.Effect]:
        """Hand one event in."""
        effects = self.core.handle(event)
        for admitted in of(effects, fx.Admit):
            self.epochs[admitted.worker] = admitted.epoch
            self.resident[admitted.worker] = []
        for effect in effects:
            self._load(effect)
        self.core.check_invariants()
        return effects

    def _load(self, effect: fx.Effect) -> None:
        """Load and let go of rows as the workers are told to."""
        if isinstance(effect, fx.Dispatch):
            loaded = self.resident[effect.worker]
            self.resident[effect.worker] = [m for m in loaded if m not in effect.evict]
            if effect.model not in loaded:
                self.resident[effect.worker].append(effect.model)
        elif isinstance(effect, fx.Unload):
            self.resident[effect.worker].remove(effect.model)

    # --- clients ------------------------------------------------------------------------------------

    def ask(
        self,
        rid: str = "r",
        name: str = "M",
        *,
        client: bytes = CLIENT,
        op: str = "chat",
        lane: str = "lane",
        conversation: str = "",
        starts: bool = True,
        stream: bool = False,
        batch: bool = False,
        expires_in: float = 600.0,
        prompt_bytes: int = 0,
        max_tokens: int | None = None,
        tools: bool = False,
        images: bool = False,
        json_schema: bool = False,
        body: bytes = b"{}",
        for_ticket: int = 0,
    ) -> list[fx.Effect]:
        """Ask; a conversation is of its own unless named."""
        return self.send(
            ev.Asked(
                self.now, client, rid, op, name, lane, conversation or f"conversation of {rid}",
                starts, stream, batch, self.now + expires_in, prompt_bytes, max_tokens, tools, images,
                json_schema, body, for_ticket,
            )
        )  # fmt: skip

    def drain(self, *, on: bool = True) -> list[fx.Effect]:
        """Have the box take no new work, or take it again."""
        return self.send(ev.DrainAsked(self.now, b"operator", on))

    def cancel(self, rid: str, client: bytes = CLIENT) -> list[fx.Effect]:
        """Withdraw a request."""
        return self.send(ev.Cancelled(self.now, client, rid))

    def lose_client(self, client: bytes = CLIENT) -> list[fx.Effect]:
        """Make a client unreachable."""
        return self.send(ev.ClientLost(self.now, client))

    # --- outside lanes ------------------------------------------------------------------------------

    def hold(
        self,
        rid: str = "h",
        *,
        client: bytes = b"holder",
        lane: str = "outside",
        device: str = "",
        batch: bool = False,
        expires_in: float = 600.0,
        max_hold_s: float = 0.0,
        pid: int = 70,
        pgid: int = 70,
        lease: int = 0,
        memory_bytes: int = 0,
    ) -> list[fx.Effect]:
        """Ask for a whole device, or say again under an old lease what is held."""
        return self.send(
            ev.HoldAsked(
                self.now, client, rid, lane, device, batch, self.now + expires_in, max_hold_s,
                memory_bytes, pid, pgid, 1.0, "bench", lease,
            )
        )  # fmt: skip

    def kept(self, lease: int, rid: str = "h", *, held_s: float = 50.0) -> list[fx.Effect]:
        """Say what was held before the broker was restarted."""
        return self.send(
            ev.HoldKept(
                self.now, rid, "outside", "hrx0", False, lease, 600.0, 0, 70, 70, 1.0, "bench",
                held_s,
            )
        )  # fmt: skip

    def renew(
        self, grant: fx.Grant, *, lease: int = 0, client: bytes = b"holder"
    ) -> list[fx.Effect]:
        """Let a holder renew."""
        return self.send(ev.Renewed(self.now, client, grant.rid, lease or grant.lease))

    def release(
        self, grant: fx.Grant, *, lease: int = 0, client: bytes = b"holder"
    ) -> list[fx.Effect]:
        """Let a holder, or another client, release."""
        return self.send(ev.Released(self.now, client, grant.rid, lease or grant.lease))

    def held(self, rid: str = "h", **fields: object) -> fx.Grant:
        """Ask for a free device, acknowledge the grant and return it."""
        grant = one(self.hold(rid, **fields), fx.Grant)  # type: ignore[arg-type]  # passed on
        self.renew(grant, client=grant.client)
        return grant

    def gone(self, kill: fx.Kill) -> list[fx.Effect]:
        """Let the supervisor report the end of what it was told to end."""
        return self.send(ev.ProcessEnded(self.now, kill.pid, kill.lease))

    def wait_renewing(self, seconds: float, grant: fx.Grant) -> list[fx.Effect]:
        """Let time pass with a renewal each second."""
        effects: list[fx.Effect] = []
        for _ in range(round(seconds)):
            effects += self.wait(1.0)
            effects += [e for e in self.renew(grant) if not isinstance(e, fx.Grant)]
        return effects

    # --- workers ------------------------------------------------------------------------------------

    def ready(
        self,
        route: bytes = b"hrx",
        kind: str = "hrx",
        device: str = "hrx0",
        *,
        nonce: str = "",
        pid: int = 1,
        seats: int = 1,
        slots: int = 0,
        by_row: bool = False,
    ) -> list[fx.Effect]:
        """Let a worker offer itself."""
        return self.send(
            ev.WorkerReady(
                self.now, route, f"{kind}-{pid}", kind, device, pid, 1.0, nonce or repr(route),
                seats, "test", slots, by_row,
            )
        )  # fmt: skip

    def worker(
        self,
        *,
        seats: int = 1,
        route: bytes = b"hrx",
        pid: int = 1,
        slots: int = 0,
        by_row: bool = False,
    ) -> Peer:
        """Register the iGPU's worker."""
        self.ready(route, pid=pid, seats=seats, slots=slots, by_row=by_row)
        return Peer(route, self.epochs[route])

    def scorer(self, route: bytes = b"scorer", pid: int = 2) -> Peer:
        """Register a scorer."""
        self.ready(route, "scorer", "", pid=pid)
        return Peer(route, self.epochs[route])

    def beat(
        self,
        peer: Peer,
        resident: list[str] | None = None,
        backend: str = "",
        **sizes: int,
    ) -> list[fx.Effect]:
        """Let a worker say that it lives, and what it has loaded unless said otherwise."""
        loaded = self.resident.get(peer.route, []) if resident is None else resident
        beat = ev.WorkerBeat(self.now, peer.route, peer.epoch, loaded, backend, sizes)
        return self.send(beat)

    def lose(self, route: bytes, reason: str = "it left") -> list[fx.Effect]:
        """Lose a worker."""
        return self.send(ev.WorkerLost(self.now, route, reason))

    def ended(self, pid: int) -> list[fx.Effect]:
        """Let the supervisor see a process end."""
        return self.send(ev.ProcessEnded(self.now, pid))

    def decided(
        self,
        asked: fx.AskHelper,
        model: str = "N",
        *,
        rule: str = "laya-code",
        down: bool = False,
        peer: Peer | None = None,
    ) -> list[fx.Effect]:
        """Let the scorer that was asked, or another, decide."""
        route, epoch = peer or Peer(asked.worker, self.epochs[asked.worker])
        return self.send(
            ev.Decided(self.now, route, epoch, asked.ticket, rule, model, "code", 1.0, down, b"{D}")
        )

    def store(self, route: bytes = b"store", pid: int = 4) -> Peer:
        """Register the store."""
        self.ready(route, "store", "", pid=pid)
        return Peer(route, self.epochs[route])

    def stocked(self, peer: Peer, *, why: str = "", **states: str) -> list[fx.Effect]:
        """Let a worker say which rows are on disk, by row and state."""
        rows = {model: ev.RowStock(state, why, 7) for model, state in states.items()}
        return self.send(ev.Stocked(self.now, peer.route, peer.epoch, rows))

    def moved(self, peer: Peer, model: str, done: int, total: int | None = None) -> list[fx.Effect]:
        """Let a worker say how far a pull is."""
        return self.send(ev.PullMoved(self.now, peer.route, peer.epoch, model, done, total))

    def pulled(self, peer: Peer, model: str, cause: str = "", message: str = "") -> list[fx.Effect]:
        """Let a worker say how a pull ended."""
        event = ev.Pulled(self.now, peer.route, peer.epoch, model, cause, message, 1.0)
        return self.send(event)

    def served(
        self, asked: fx.AskHelper, status: int = 200, *, peer: Peer | None = None
    ) -> list[fx.Effect]:
        """Let the helper that was asked, or another, answer."""
        route, epoch = peer or Peer(asked.worker, self.epochs[asked.worker])
        return self.send(ev.Served(self.now, route, epoch, asked.ticket, status, b"served"))

    def shelved(self, peer: Peer, collections: dict[str, str], *slow: str) -> list[fx.Effect]:
        """Let a worker say which user policies there are."""
        return self.send(
            ev.Shelved(self.now, peer.route, peer.epoch, collections, list(slow), POLICIES)
        )

    def sensors(self, route: bytes = b"sensors", pid: int = 6) -> Peer:
        """Register the sensors."""
        self.ready(route, "sensors", "", pid=pid)
        return Peer(route, self.epochs[route])

    def sense(self, peer: Peer, *readings: ev.Reading, **values: float | str) -> list[fx.Effect]:
        """Let a worker say readings: whole ones, or valid ones by name and value."""
        sound = [
            ev.Reading(name, value, "", "test", name, 0.0, True, "")
            for name, value in values.items()
        ]
        return self.send(ev.Sensed(self.now, peer.route, peer.epoch, [*readings, *sound]))

    def stage(self, run: fx.Dispatch, stage: str = "load") -> list[fx.Effect]:
        """Let a ticket enter a stage."""
        epoch = self.epochs[run.worker]
        return self.send(ev.Staged(self.now, run.worker, epoch, run.ticket, run.lease, stage))

    def produce(self, run: fx.Dispatch, seq: int = 1, body: bytes = b"piece") -> list[fx.Effect]:
        """Let a piece of an answer come."""
        epoch = self.epochs[run.worker]
        return self.send(
            ev.Produced(self.now, run.worker, epoch, run.ticket, run.lease, seq, None, body)
        )

    def finish(
        self,
        run: fx.Dispatch,
        *,
        cancelled: bool = False,
        body: bytes = b"reply",
        lease: int = 0,
        tokens: tuple[int, int, int] = (7, 3, 5),
        load_s: float | None = None,
        ttft_s: float | None = None,
    ) -> list[fx.Effect]:
        """Let a ticket's work end well, or be stopped."""
        epoch = self.epochs[run.worker]
        return self.send(
            ev.Finished(
                self.now, run.worker, epoch, run.ticket, lease or run.lease, cancelled, load_s,
                ttft_s, *tokens, body,
            )
        )  # fmt: skip

    def fail(
        self, run: fx.Dispatch, status: int = 503, code: str = "broken", cause: str = ""
    ) -> list[fx.Effect]:
        """Let a ticket's work end in an error."""
        epoch = self.epochs[run.worker]
        facts: dict[str, fx.Fact] = {"cause": cause} if cause else {}
        return self.send(
            ev.Failed(self.now, run.worker, epoch, run.ticket, run.lease, status, code, "no", facts)
        )

    # --- time ---------------------------------------------------------------------------------------

    def tick(self) -> list[fx.Effect]:
        """Let the core look at the clock now."""
        return self.send(ev.Ticked(self.now))

    def wait(self, seconds: float, *alive: Peer) -> list[fx.Effect]:
        """Let time pass as the broker would: a tick at each deadline, beats of who is alive."""
        effects: list[fx.Effect] = []
        until = self.now + seconds
        while (due := self.core.next_deadline()) <= until:
            self.now = max(self.now, due)
            for peer in alive:
                effects += self.beat(peer)
            effects += self.tick()
        self.now = until
        return effects

    # --- shorthand ----------------------------------------------------------------------------------

    def run(self, rid: str = "r", name: str = "M", **fields: object) -> fx.Dispatch:
        """Ask for a row that is free to run, and return its dispatch."""
        return one(self.ask(rid, name, **fields), fx.Dispatch)  # type: ignore[arg-type]  # passed on

    def question(self, rid: str = "r", **fields: object) -> fx.AskHelper:
        """Ask for `auto` with a scorer free, and return what the scorer is asked."""
        return one(self.ask(rid, "auto", **fields), fx.AskHelper)  # type: ignore[arg-type]  # passed on


def of(effects: Iterable[fx.Effect], kind: type[E]) -> list[E]:
    """Return the effects of one kind, in order."""
    return [effect for effect in effects if isinstance(effect, kind)]


def one(effects: Iterable[fx.Effect], kind: type[E]) -> E:
    """Return the only effect of one kind."""
    found = of(effects, kind)
    assert len(found) == 1, f"{len(found)} {kind.__name__} in {list(effects)}"
    return found[0]


def kinds(effects: Iterable[fx.Effect]) -> list[str]:
    """Return the kinds of effects, in order."""
    return [type(effect).__name__ for effect in effects]
