"""The whole core under any order of events, beside a naive model of what clients and workers may expect."""

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.errors import InvariantBroken
from support.stand import Peer, Stand, kinds, of

LIMITS = Limits(
    queue_total=6, queue_per_lane=4, lanes=3, bindings=4, bindings_per_lane=3, stories=5,
    scorer_credit=2, binding_idle_s=20.0, absent_s=8.0,
)  # fmt: skip
CLIENTS = (b"client 1", b"client 2")
NAMES = ("auto", "em", "plain", "M", "P", "nope")
LANES = st.sampled_from(["one", "two", "heavy", "three", "four"])
KEYS = st.tuples(st.sampled_from(CLIENTS), st.sampled_from([f"r{n}" for n in range(4)]))
DEVICES = {"hrx": "hrx0", "npu": "npu0", "scorer": "", "sensors": "", "store": ""}
CAUSES = st.sampled_from(["", "pull_failed", "template_mismatch"])
Key = tuple[bytes, str]  # client, request id


class Life(NamedTuple):
    """One admitted life of a worker process."""

    route: bytes
    epoch: int
    kind: str
    seats: int


class Holder(NamedTuple):
    """An outside lane that has a device: from its grant until all of its group has ended."""

    key: Key
    device: str
    grant: fx.Grant
    pgid: int


class ApplianceMachine(RuleBasedStateMachine):
    """One appliance; the model knows who asked, who was told the end, who lives and who holds."""

    runs = Bundle("runs")  # every grant ever made, dead ones too: late messages come from them

    def __init__(self) -> None:
        super().__init__()
        self.stand = Stand(LIMITS, weights={"heavy": 3.0})
        self.open: set[Key] = set()  # accepted, not ended, not withdrawn
        self.ends: dict[str, int] = defaultdict(int)  # request id -> records of an end
        self.accepted: dict[str, int] = defaultdict(int)
        self.lives: dict[bytes, Life] = {}
        self.offered: dict[bytes, tuple[str, int]] = {}
        self.holds: dict[int, fx.Dispatch] = {}  # ticket -> its grant
        self.outside: dict[Key, tuple[str, int]] = {}  # hold -> its device and group
        self.holders: dict[str, Holder] = {}  # device -> who has it from outside
        self.grants: list[fx.Grant] = []  # every grant to an outside lane ever made
        self.over: set[int] = set()  # leases of holders that lost them and may not have ended yet
        self.kills: list[fx.Kill] = []  # what must end and has not
        self.asked: list[fx.AskHelper] = []  # every question ever put
        self.fetched: dict[str, bytes] = {}  # row -> route of the store that was asked for it last
        self.leases: list[int] = []
        self.routes = 0

    # --- the model --------------------------------------------------------------------------------

    def see(  # noqa: C901, PLR0912  # one branch an effect
        self, effects: list[fx.Effect], asked: Key | None = None
    ) -> list[fx.Effect]:
        """Check each effect against the model, in order."""
        for effect in effects:
            match effect:
                case fx.Refuse() | fx.Answer():
                    key = effect.client, effect.rid
                    if key == asked and "Ended" not in kinds(effects):
                        self.open.discard(key)  # refused at the door
                        self.accepted[effect.rid] -= 1
                    else:
                        assert key in self.open, f"{effect} for nobody"
                        self.open.discard(key)
                case fx.Place() | fx.Relay() | fx.Tell() | fx.Acknowledge():
                    assert (effect.client, effect.rid) in self.open, f"{effect} for nobody"
                case fx.Probe():
                    assert effect.client in {client for client, _ in self.open}
                case fx.Ended():
                    self.ends[effect.request] += 1
                    assert effect.waited_s >= 0.0
                    assert effect.ran_s >= 0.0
                case fx.Admit():
                    kind, seats = self.offered[effect.worker]
                    self.lives[effect.worker] = Life(effect.worker, effect.epoch, kind, seats)
                case fx.Unload():
                    raise AssertionError("nothing is short of memory here")
                case fx.Fetch():
                    self.see_fetch(effect)
                case fx.Record():
                    self.see_record(effect)
                case fx.Dispatch():
                    self.see_grant(effect)
                case fx.AskHelper():
                    assert self.lives[effect.worker].kind in {"scorer", "store"}
                    self.asked.append(effect)
                case fx.Halt():
                    assert self.holds[effect.ticket].lease == effect.lease
                    assert effect.worker in self.lives
                case fx.Grant():
                    self.see_outside_grant(effect)
                case fx.Warn():
                    assert self.holder_of(effect.lease) is not None
                case fx.Revoke():
                    self.see_revoked(effect)
                case fx.Kill():
                    self.see_kill(effect)
                case fx.Expel() | fx.Publish():
                    pass
        return effects

    def see_fetch(self, fetch: fx.Fetch) -> None:
        """A store is asked for a row: a live one, and no second time before it has answered."""
        assert self.lives[fetch.store].kind == "store"
        assert self.fetched.get(fetch.model) not in self.lives
        self.fetched[fetch.model] = fetch.store

    def see_record(self, record: fx.Record) -> None:
        """A worker is gone: forget it and what it held."""
        if record.action == "worker_down":
            route = f"{record.fields['worker']}".encode()
            del self.lives[route]
            self.holds = {n: run for n, run in self.holds.items() if run.worker != route}

    def see_grant(self, run: fx.Dispatch) -> None:
        """A seat is granted: to a live worker, on a free seat, under the largest lease so far."""
        life = self.lives[run.worker]
        assert DEVICES[life.kind] not in self.holders, "a worker beside an outside holder"
        held = [other for other in self.holds.values() if other.worker == run.worker]
        assert run.ticket not in self.holds, "one ticket on two seats"
        assert len(held) < life.seats, "more tickets than seats"
        assert {other.model for other in held} <= {run.model}, "two rows on one device"
        assert run.lease > max(self.leases, default=0)
        self.leases.append(run.lease)
        self.holds[run.ticket] = run

    def see_outside_grant(self, grant: fx.Grant) -> None:
        """A device is an outside holder's, or is still: then nobody else has any of it."""
        key = grant.client, grant.rid
        assert key in self.open
        device, pgid = self.outside[key]
        holder = self.holders.get(device)
        if holder is not None:
            assert (holder.key, holder.grant.lease) == (key, grant.lease), "two holders"
            return
        kinds_there = {self.lives[run.worker].kind for run in self.holds.values()}
        assert device not in {DEVICES[kind] for kind in kinds_there}, "a holder beside a worker"
        assert device not in {kill.rid.split("-")[0] + "0" for kill in self.kills if not kill.lease}
        assert grant.lease > max(self.leases, default=0)
        self.leases.append(grant.lease)
        self.grants.append(grant)
        self.holders[device] = Holder(key, device, grant, pgid)

    def holder_of(self, lease: int) -> Holder | None:
        """Return who has a device under a lease."""
        return next((h for h in self.holders.values() if h.grant.lease == lease), None)

    def see_revoked(self, revoke: fx.Revoke) -> None:
        """A lease is over; whoever has no group has nothing that must end."""
        holder = self.holder_of(revoke.lease)
        assert holder is not None
        if revoke.lease not in self.over:
            self.open.discard(holder.key)
            self.over.add(revoke.lease)
        if not holder.pgid:
            del self.holders[holder.device]

    def see_kill(self, kill: fx.Kill) -> None:
        """Somebody must end; a group only after its lease."""
        if kill.lease:
            holder = self.holder_of(kill.lease)
            assert holder is not None
            assert holder.pgid == kill.pgid != 0
            assert kill.lease in self.over, "ended under a good lease"
        again = [
            known for known in self.kills if (known.pid, known.lease) == (kill.pid, kill.lease)
        ]
        if not again:
            self.kills.append(kill)

    def granted(self, effects: list[fx.Effect]) -> object:
        """Add what is granted to the bundle of runs."""
        return multiple(*of(effects, fx.Dispatch))

    # --- clients ----------------------------------------------------------------------------------

    @initialize(target=runs, seats=st.integers(1, 3), npu=st.booleans(), scorers=st.integers(0, 2))
    def start(self, seats: int, *, npu: bool, scorers: int) -> object:
        """Begin with a box that serves."""
        for kind in ["hrx"] + ["npu"] * npu + ["scorer"] * scorers:
            self.offer(kind, seats)
        return multiple()

    @rule(target=runs, key=KEYS, name=st.sampled_from(["M", "N", "P"]), lane=LANES)
    def ask_for_a_row(self, key: Key, name: str, lane: str) -> object:
        """Ask for an explicit row."""
        return self.ask(key, name, lane=lane)

    @rule(target=runs, key=KEYS, name=st.sampled_from(["M", "N"]), lane=LANES, stream=st.booleans())
    def ask_the_gpu(self, key: Key, name: str, lane: str, *, stream: bool) -> object:
        """Ask for a row of the busiest device."""
        return self.ask(key, name, lane=lane, stream=stream)

    @rule(target=runs, key=KEYS, turn=st.integers(0, 2), lane=LANES, tools=st.booleans())
    def ask_to_be_routed(self, key: Key, turn: int, lane: str, *, tools: bool) -> object:
        """Ask for whatever the policy says."""
        return self.ask(key, "auto", lane=lane, conversation=f"{lane} {turn}", tools=tools)

    @rule(
        target=runs, key=KEYS, name=st.sampled_from(NAMES), op=st.sampled_from(["chat", "decide", "pull"]),
        lane=LANES, batch=st.booleans(), tools=st.booleans(),
        expires_in=st.sampled_from([600.0, 3.0, 0.3, 0.0]),
        max_tokens=st.none() | st.integers(0, 500),
    )  # fmt: skip
    def ask_anything(self, key: Key, **fields: object) -> object:
        """Ask for what may be refused at the door, expire, or end without running."""
        return self.ask(key, str(fields.pop("name")), **fields)

    def ask(self, key: Key, name: str, **fields: object) -> object:
        """Ask, perhaps for what is in hand already."""
        client, rid = key
        again = key in self.open
        if not again:
            self.open.add(key)
            self.accepted[rid] += 1
        effects = self.stand.ask(rid, name, client=client, **fields)  # type: ignore[arg-type]  # passed on
        assert not again or effects == [fx.Acknowledge(client, rid)]
        return self.granted(self.see(effects, None if again else key))

    @rule(target=runs, data=st.data())
    def cancel(self, data: st.DataObject) -> object:
        """Withdraw an open request; its client hears nothing more."""
        if not self.open:
            return multiple()
        client, rid = data.draw(st.sampled_from(sorted(self.open)))
        self.open.remove((client, rid))
        self.lose_leases({(client, rid)})
        return self.granted(self.see(self.stand.cancel(rid, client)))

    # --- outside lanes ----------------------------------------------------------------------------

    @rule(
        target=runs, key=KEYS, lane=LANES, device=st.sampled_from(["hrx0", "npu0"]),
        group=st.sampled_from([True, True, False]), batch=st.booleans(),
        max_hold_s=st.sampled_from([0.0, 8.0]), expires_in=st.sampled_from([600.0, 3.0]),
    )  # fmt: skip
    def ask_to_hold(self, key: Key, device: str, *, group: bool, **fields: object) -> object:
        """Ask for a whole device, perhaps again."""
        client, rid = key
        pid = 1000 + 10 * CLIENTS.index(client) + int(rid[1:])
        again = key in self.open
        if not again:
            self.open.add(key)
            self.accepted[rid] += 1
            self.outside[key] = device, pid if group else 0
        effects = self.stand.hold(
            rid, client=client, device=device, pid=pid, pgid=pid if group else 0, **fields,  # type: ignore[arg-type]  # passed on
        )  # fmt: skip
        if again:
            assert set(kinds(effects)) <= {"Acknowledge", "Grant", "Record"}
        elif kinds(effects) == ["Revoke"]:  # this very process is being ended
            self.open.discard(key)
            self.accepted[rid] -= 1
            return multiple()
        return self.granted(self.see(effects, None if again else key))

    @rule(
        target=runs, data=st.data(), how=st.sampled_from(["renew", "renew", "release", "operator"])
    )
    def hold_on(self, data: st.DataObject, how: str) -> object:
        """Let a holder renew or release, or somebody else take its device."""
        if not self.holders:
            return multiple()
        holder = self.holders[data.draw(st.sampled_from(sorted(self.holders)))]
        stand, grant, client = self.stand, holder.grant, holder.key[0]
        if how == "release":
            del self.holders[holder.device]  # all of its group has ended before it says so
            if grant.lease not in self.over:
                self.open.discard(holder.key)
            self.kills = [kill for kill in self.kills if kill.lease != grant.lease]
            effects = stand.release(grant, client=client)
        elif how == "operator":
            effects = stand.release(grant, client=b"operator")
        elif grant.lease not in self.over:
            effects = stand.renew(grant, client=client)
        else:
            assert kinds(stand.renew(grant, client=client)) == ["Revoke"]
            return multiple()
        return self.granted(self.see([e for e in effects if not isinstance(e, fx.Answer)]))

    @rule(data=st.data(), how=st.sampled_from(["renew", "release"]))
    def hold_on_too_late(self, data: st.DataObject, how: str) -> None:
        """Let a holder speak whose device is another's by now: it is told so, and nothing else."""
        held = {holder.grant.lease for holder in self.holders.values()}
        old = [grant for grant in self.grants if grant.lease not in held]
        if old:
            grant = data.draw(st.sampled_from(old))
            say = self.stand.renew if how == "renew" else self.stand.release
            assert kinds(say(grant, client=grant.client)) == ["Revoke"]

    @rule(target=runs, data=st.data())
    def what_must_end_ends(self, data: st.DataObject) -> object:
        """Let the supervisor report."""
        if not self.kills:
            return multiple()
        return self.report(data.draw(st.sampled_from(self.kills)))

    def report(self, kill: fx.Kill) -> object:
        """Report the end of a process or a group; only then its device is free."""
        self.kills.remove(kill)
        holder = self.holder_of(kill.lease)
        if holder is not None:
            del self.holders[holder.device]
        return self.granted(self.see(self.stand.gone(kill)))

    @rule(there=st.booleans())
    def supervise(self, *, there: bool) -> None:
        """Let the supervisor come or go: who comes is told again what must end."""
        stand = self.stand
        if there:
            effects = stand.send(ev.Supervised(stand.now, b"supervisor"))
            assert len(of(effects, fx.Kill)) == len(effects)
            self.see(effects)
        else:
            self.see(stand.lose_client(b"supervisor"))

    def lose_leases(self, gone: set[Key]) -> None:
        """A holder that vanishes loses its lease; without a group it leaves nothing that must end."""
        for holder in list(self.holders.values()):
            if holder.key in gone and holder.grant.lease not in self.over:
                self.over.add(holder.grant.lease)
                if not holder.pgid:
                    del self.holders[holder.device]

    # --- work -------------------------------------------------------------------------------------

    @rule(data=st.data(), what=st.sampled_from(["piece", "stage"]))
    def go_on(self, data: st.DataObject, what: str) -> None:
        """Let work go on that is held."""
        run = self.draw_held(data)
        if run is not None:
            self.see(self.stand.produce(run) if what == "piece" else self.stand.stage(run))

    @rule(
        target=runs,
        data=st.data(),
        how=st.sampled_from(["well", "well", "badly", "unusable", "stopped"]),
        cause=CAUSES,
    )
    def end_work(self, data: st.DataObject, how: str, cause: str) -> object:
        """Let work end that is held."""
        run = self.draw_held(data)
        if run is None:
            return multiple()
        del self.holds[run.ticket]  # the last word frees the seat before anything else happens
        effects = (
            self.stand.fail(run) if how == "badly"
            else self.stand.fail(run, 503, "model_not_usable", cause) if how == "unusable"
            else self.stand.finish(run, cancelled=how == "stopped")
        )  # fmt: skip
        return self.granted(self.see(effects))

    def draw_held(self, data: st.DataObject) -> fx.Dispatch | None:
        """Return a grant that is good."""
        held = [self.holds[ticket] for ticket in sorted(self.holds)]
        return data.draw(st.sampled_from(held)) if held else None

    @rule(run=runs, what=st.sampled_from(["piece", "stage", "end", "stopped", "failure"]))
    def speak_late(self, run: fx.Dispatch, what: str) -> None:
        """Let a worker speak of a lease that is over: nobody may notice."""
        if self.holds.get(run.ticket) == run:
            return
        stand = self.stand
        say: dict[str, Callable[[], list[fx.Effect]]] = {
            "piece": lambda: stand.produce(run),
            "stage": lambda: stand.stage(run),
            "end": lambda: stand.finish(run),
            "stopped": lambda: stand.finish(run, cancelled=True),
            "failure": lambda: stand.fail(run),
        }
        assert set(kinds(say[what]())) <= {"Expel"}

    # --- decisions --------------------------------------------------------------------------------

    @rule(target=runs, data=st.data(), model=st.sampled_from(["M", "N", "P", "plain", "ghost"]))
    def decide(self, data: st.DataObject, model: str) -> object:
        """Let a scorer decide what it was asked, perhaps too late."""
        asked = [one for one in self.asked if one.worker in self.lives]
        if not asked:
            return multiple()
        effects = self.stand.decided(data.draw(st.sampled_from(asked)), model)
        return self.granted(self.see(effects))

    @rule(data=st.data(), ticket=st.integers(0, 30), down=st.booleans())
    def decide_unasked(self, data: st.DataObject, ticket: int, *, down: bool) -> None:
        """Let a worker decide what it was not asked."""
        asked = {(one.worker, one.ticket) for one in self.asked}
        strangers = [one for one in sorted(self.lives.values()) if (one.route, ticket) not in asked]
        if strangers:
            life = data.draw(st.sampled_from(strangers))
            effects = self.stand.send(
                ev.Decided(
                    self.stand.now, life.route, life.epoch, ticket, "", "N", "", None, down, b""
                )
            )
            assert of(effects, fx.Place) == []
            self.see(effects)

    # --- workers ----------------------------------------------------------------------------------

    @rule(
        target=runs, kind=st.sampled_from(["hrx", "npu", "scorer", "sensors", "store"]),
        seats=st.integers(1, 3),
    )  # fmt: skip
    def new_worker(self, kind: str, seats: int) -> object:
        """Let another process offer itself, a twin perhaps."""
        return self.granted(self.offer(kind, seats))

    # --- rows on disk -----------------------------------------------------------------------------

    def draw_store(self, data: st.DataObject) -> Peer | None:
        """Return a live store."""
        stores = [life for life in sorted(self.lives.values()) if life.kind == "store"]
        return Peer(*data.draw(st.sampled_from(stores))[:2]) if stores else None

    @rule(
        target=runs, data=st.data(), model=st.sampled_from(["M", "N", "P"]),
        state=st.sampled_from(["missing", "missing", "ready", "mismatch", "failed"]),
    )  # fmt: skip
    def stock(self, data: st.DataObject, model: str, state: str) -> object:
        """Let a store say what has become of a row."""
        store = self.draw_store(data)
        if store is None:
            return multiple()
        if state in {"ready", "mismatch"}:  # that is the end of its pull as well
            self.fetched.pop(model, None)
        return self.granted(self.see(self.stand.stocked(store, **{model: state})))

    @rule(
        target=runs, data=st.data(), model=st.sampled_from(["M", "N", "P", "ghost"]), cause=CAUSES
    )
    def end_pull(self, data: st.DataObject, model: str, cause: str) -> object:
        """Let a store say that a pull has ended, begun or not."""
        store = self.draw_store(data)
        if store is None:
            return multiple()
        self.fetched.pop(model, None)
        return self.granted(self.see(self.stand.pulled(store, model, cause)))

    @rule(data=st.data(), model=st.sampled_from(["M", "N", "ghost"]), done=st.integers(0, 9))
    def go_on_pulling(self, data: st.DataObject, model: str, done: int) -> None:
        """Let a store say how far it is."""
        store = self.draw_store(data)
        if store is not None:
            if model != "ghost":
                self.fetched.setdefault(model, store.route)
            self.see(self.stand.moved(store, model, done, 9))

    @rule(data=st.data(), values=st.dictionaries(st.sampled_from(["tctl", "uptime"]), st.floats()))
    def sense(self, data: st.DataObject, values: dict[str, float]) -> None:
        """Let any worker speak of sensors; only the sensors may."""
        if self.lives:
            life = data.draw(st.sampled_from(sorted(self.lives.values())))
            before = self.stand.core.snapshot(self.stand.now)["senses"]
            assert self.stand.sense(Peer(life.route, life.epoch), **values) == []
            if life.kind != "sensors":
                assert self.stand.core.snapshot(self.stand.now)["senses"] == before

    def offer(self, kind: str, seats: int) -> list[fx.Effect]:
        """Let a process say READY; its name is its route."""
        self.routes += 1
        route = f"{kind}-{self.routes}".encode()
        self.offered[route] = kind, seats
        return self.see(self.stand.ready(route, kind, DEVICES[kind], pid=self.routes, seats=seats))

    @rule(
        target=runs, data=st.data(), how=st.sampled_from(["bye", "pid", "client", "again", "stale"])
    )
    def mishap(self, data: st.DataObject, how: str) -> object:
        """Let something go wrong that happens now and then."""
        stand = self.stand
        if how == "client":
            client = data.draw(st.sampled_from(CLIENTS))
            gone = {key for key in self.open if key[0] == client}
            self.open -= gone
            self.lose_leases(gone)
            return self.granted(self.see(stand.lose_client(client)))
        if not self.lives:
            return multiple()
        life = data.draw(st.sampled_from(sorted(self.lives.values())))
        pid = int(life.route.rsplit(b"-", 1)[1])
        if how == "again":
            effects = stand.ready(
                life.route, life.kind, DEVICES[life.kind], pid=pid, seats=life.seats
            )
            assert effects == [fx.Admit(life.route, life.epoch)]
        elif how == "stale":
            effects = stand.send(ev.WorkerBeat(stand.now, life.route, life.epoch - 1, []))
            assert kinds(effects) == ["Expel"]
        else:
            effects = self.see(stand.lose(life.route) if how == "bye" else stand.ended(pid))
            assert life.route not in self.lives
        return self.granted(effects)

    # --- time -------------------------------------------------------------------------------------

    @rule(
        target=runs, seconds=st.sampled_from([0.01, 0.3, 0.7, 1.0, 2.5, 10.0]),
        alive=st.sampled_from([True, True, True, False]),
    )  # fmt: skip
    def wait(self, seconds: float, *, alive: bool) -> object:
        """Let time pass, with beats or in silence."""
        stand, granted = self.stand, list[fx.Dispatch]()
        until = stand.now + seconds
        while (due := stand.core.next_deadline()) <= until:
            stand.now = max(stand.now, due)
            for life in sorted(self.lives.values()) if alive else ():
                assert stand.send(ev.WorkerBeat(stand.now, life.route, life.epoch, ["M"])) == []
            granted += of(self.see(stand.tick()), fx.Dispatch)
            assert stand.core.next_deadline() > stand.now
        stand.now = until
        return multiple(*granted)

    @rule(target=runs)
    def tick(self) -> object:
        """Tick though nothing is due."""
        return self.granted(self.see(self.stand.tick()))

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def the_books_agree(self) -> None:
        """Hold the core to its own invariants."""
        self.stand.core.check_invariants()

    @invariant()
    def nothing_ends_twice(self) -> None:
        """Count the ends of each request id against its acceptances."""
        for rid, ends in self.ends.items():
            assert ends <= self.accepted[rid], rid

    @invariant()
    def what_is_open_can_be_explained(self) -> None:
        """Find the story of every open request."""
        for _, rid in self.open:
            assert self.stand.core.story(rid)

    def teardown(self) -> None:
        """Let everything come to its end: then every accepted request has ended exactly once."""
        try:
            self.stand.core.check_invariants()
        except InvariantBroken:
            return  # that is reported already
        for life in sorted(self.lives.values()):
            self.see(self.stand.lose(life.route))
        for _ in range(60):
            self.wait(seconds=1.0, alive=False)
            for kill in list(self.kills):
                self.report(kill)
        assert self.holders == {}
        assert self.open == set()
        assert {r: n for r, n in self.ends.items() if n} == {
            r: n for r, n in self.accepted.items() if n
        }
        for device in ("hrx0", "npu0"):
            assert self.stand.core.snapshot(self.stand.now)["devices"][device]["waiting"] == 0  # type: ignore[index]  # a view


TestAppliance = ApplianceMachine.TestCase
TestAppliance.settings = settings(report_multiple_bugs=False)
