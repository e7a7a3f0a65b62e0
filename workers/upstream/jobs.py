"""The engine over servers: one thread a job, and a cancelled job holds its seat until its server is idle."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from policies.table import Row
from workers.engine import Sink
from workers.job import End, Error, Job, JobError, Outcome, Stage, Unloaded
from workers.upstream.call import Call, CallEnded, CallFailed
from workers.upstream.place import GivenUp, Place
from workers.upstream.relay import Relay, body_of, error_of

log = logging.getLogger(__name__)
_LOOK_S = 0.05  # how often a cancelled job's server is looked at
_DIED_S = 1.0  # a server whose connection broke gets this long to be seen dead


class Stalled(CallFailed):
    """The server neither says nor does anything."""


class Running:
    """A job that has not ended."""

    def __init__(self, job: Job, sink: Sink) -> None:
        self.job = job
        self.sink = sink
        self._cancelled_at: float | None = None
        self._call: Call | None = None
        self._lock = threading.Lock()

    @property
    def cancelled_at(self) -> float | None:
        """When it was cancelled, monotonic seconds."""
        return self._cancelled_at

    @property
    def is_wanted(self) -> bool:
        """Whether it was not cancelled."""
        return self._cancelled_at is None

    def cancel(self) -> None:
        """Close its connection at once."""
        with self._lock:
            if self._cancelled_at is None:
                self._cancelled_at = time.monotonic()
            if self._call is not None:
                self._call.end()

    def talks(self, call: Call) -> None:
        """Its connection is this one."""
        with self._lock:
            self._call = call
            if self._cancelled_at is not None:
                call.end()


class Jobs:
    """Runs the jobs of rows that servers serve; part of `workers.engines.Engines`."""

    def __init__(
        self, engine: str, place_of: Callable[[Row], Place], *, grace_s: float, stall_s: float
    ) -> None:
        """Start with no rows.

        Args:
            engine: Its name, for errors and the log.
            place_of: Makes the place of a row.
            grace_s: How long a cancelled job's server may work on.
            stall_s: How long a server may be silent while nothing shows that it works.
        """
        self.engine = engine
        self._place_of = place_of
        self._grace_s = grace_s
        self._stall_s = stall_s
        self._rows: dict[str, Row] = {}
        self._places: dict[str, Place] = {}
        self._running: dict[int, Running] = {}
        self._lock = threading.Lock()

    def learn(self, rows: Mapping[str, Row]) -> None:
        """Learn the rows it serves. One that is another now, or gone, is let go of once nothing uses it."""
        with self._lock:
            stale = [name for name, row in self._rows.items() if rows.get(name) != row]
            self._rows = dict(rows)
            places = [self._places.pop(name) for name in stale if name in self._places]
        for place in places:
            threading.Thread(target=place.stop, daemon=True).start()

    def start(self, job: Job, sink: Sink) -> None:
        """Begin a job."""
        running = Running(job, sink)
        with self._lock:
            self._running[job.lease] = running
        name = f"{self.engine} {job.lease}"
        threading.Thread(target=self._work, args=(running,), name=name, daemon=True).start()

    def cancel(self, lease: int) -> None:
        """Stop a job."""
        with self._lock:
            running = self._running.get(lease)
        if running is not None:
            running.cancel()

    def unload(self, model: str, done: Callable[[Unloaded], None]) -> None:
        """Let go of a row, and say so."""

        def leave() -> None:
            self.drop(model)
            done(Unloaded(model))

        threading.Thread(target=leave, daemon=True).start()

    def drop(self, model: str) -> None:
        """Let go of a row; returns when it has gone."""
        place = self._places.get(model)
        if place is not None:
            place.stop()

    def resident(self) -> list[str]:
        """Return the rows that are ready."""
        with self._lock:
            places = list(self._places.items())
        return [name for name, place in places if place.is_resident]

    def sizes(self) -> dict[str, int]:
        """Return the bytes that the rows take which are ready, as far as they were measured."""
        with self._lock:
            places = list(self._places.items())
        return {name: size for name, place in places if (size := place.size)}

    def close(self) -> None:
        """End all."""
        with self._lock:
            running, places = list(self._running.values()), list(self._places.values())
        for one in running:
            one.cancel()
        stops = [threading.Thread(target=place.stop, daemon=True) for place in places]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()

    # --- a job's thread ---

    def _work(self, running: Running) -> None:
        lease = running.job.lease
        outcome: Outcome
        try:
            outcome = self._run(running)
        except JobError as error:
            outcome = error_of(lease, error)
        except (CallEnded, GivenUp):
            outcome = End(lease, cancelled=True)
        except Exception as error:  # the job boundary: a bug of ours costs this job alone
            log.exception("job failed", extra={"action": "model_failed"})
            message = f"The engine {self.engine} failed: {type(error).__name__}: {error}"
            outcome = Error(lease, 500, "engine_failed", message)
        with self._lock:
            self._running.pop(lease, None)
        running.sink(outcome if running.is_wanted else End(lease, cancelled=True))

    def _run(self, running: Running) -> End:
        job = running.job
        place = self._place(job.model)
        load_s = place.ready(
            lambda: running.sink(Stage(job.lease, "load")), lambda: running.is_wanted
        )
        relay = Relay(job, running.sink, self.engine, place.name, load_s)
        path = relay.path()
        entered, extra = place.enter(job.conversation, job.op)
        call = Call(place.target)
        call.on_silence = self._watch(place)
        running.talks(call)
        running.sink(Stage(job.lease, "prefill"))
        try:
            return relay.run(call, path, body_of(job, place.name, extra))
        except CallFailed as error:
            if not running.is_wanted:
                raise CallEnded from error
            broke = self._broke(place, error)
            if isinstance(error, Stalled):
                place.give_up(entered)
            raise broke from error
        finally:
            call.close()
            if running.cancelled_at is not None:
                self._drain(place, entered, running.cancelled_at)
            place.leave(entered)

    def _place(self, model: str) -> Place:
        with self._lock:
            place = self._places.get(model)
            if place is None:
                row = self._rows.get(model)
                if row is None:
                    raise JobError(503, "model_not_usable", f"No row '{model}' here.")
                place = self._places[model] = self._place_of(row)
            return place

    def _watch(self, place: Place) -> Callable[[float], None]:
        """Return what looks at a silence: a server that works may be silent for as long as it takes."""
        before: object | None = None
        looked_s = 0.0  # of this silence

        def look(silent_s: float) -> None:
            nonlocal before, looked_s
            looked_s = min(looked_s, silent_s)  # another silence began
            if silent_s - looked_s < self._stall_s / 2:
                return
            now, is_first = place.progress(), looked_s == 0.0
            if not is_first and (now is None or now == before):
                raise Stalled(f"it has not said or done anything for {self._stall_s:g} s")
            before, looked_s = now, silent_s

        return look

    def _broke(self, place: Place, error: CallFailed) -> JobError:
        """Return what a broken answer means: the server died, or it misbehaved."""
        fault = place.fault(_DIED_S)
        facts = {"engine": self.engine}
        if fault:
            message = f"The engine {self.engine} {fault}."
            return JobError(502, "engine_crashed", message, {**facts})
        return JobError(
            502, "engine_failed", f"The engine {self.engine} failed: {error}.", {**facts}
        )

    def _drain(self, place: Place, entered: object, cancelled_at: float) -> None:
        """Return when nothing works on a cancelled job any more."""
        while not place.fault(0.0):
            if place.is_idle(entered):
                return
            if time.monotonic() - cancelled_at >= self._grace_s and place.give_up(entered):
                return
            time.sleep(_LOOK_S)
