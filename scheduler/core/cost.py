"""How long a ticket will hold its device, guessed first and learned from the truth.

Estimate, in device-seconds: load + a x uncached prompt tokens + b x expected output tokens, where a and b
are learned per row, device and number of active seats, load per row.

First guess: 130 tokens per second of prefill, 15.3 of decode (a dense 27B model on the iGPU of a Strix
Halo: 124-152 and 15.3), 4 bytes a token, 5 s a load, and that an answer is as long as it may be.
Learned values are sums that forget: each sample scales what was known by 7/8, the gain of TCP's smoothed
round trip (RFC 6298), so a cold start is forgotten within a dozen tickets and long tickets, which are
measured better, weigh more. An engine that counts no tokens is learned by one ratio of truth to guess.
"""

from typing import Any

from msgspec import Struct

from scheduler.core.events import Asked, Finished

_BYTES_PER_TOKEN = 4.0
_PREFILL_S = 1 / 130.0  # a token
_DECODE_S = 1 / 15.3
_LOAD_S = 5.0
_TELLING_BYTES = (
    256  # of a shorter prompt most tokens are the template's, and tell nothing of the text
)
_DEFAULT_OUTPUT = 256  # tokens, where neither the request nor the row says
_KEEP = 7 / 8

Where = tuple[str, str, int]  # row, device, active seats
_LEAST_S = 1e-6


class Mean(Struct):
    """A quotient of two sums that forget."""

    value: float  # >= 0; the guess until the first sample
    over: float = 0.0
    under: float = 0.0

    def add(self, over: float, under: float) -> None:
        """Take in a sample."""
        self.over = self.over * _KEEP + over
        self.under = self.under * _KEEP + under
        if self.under > 0.0:
            self.value = self.over / self.under


class Pace(Struct):
    """What is learned of one row on one device with so many active seats."""

    prefill_s: Mean  # device-seconds an uncached prompt token
    decode_s: Mean  # device-seconds an output token
    ratio: Mean  # truth over guess, where the engine counts no tokens


class Habit(Struct):
    """What is learned of one row wherever it runs, and how well it was estimated."""

    bytes_per_token: Mean
    output: Mean  # answer over the longest it may be
    load_s: Mean
    tickets: int = 0
    estimated_s: float = 0.0  # device-seconds, summed over tickets that ran to their end
    actual_s: float = 0.0
    error_s: float = 0.0  # sum of |estimated - actual|

    def view(self) -> dict[str, Any]:
        """Return it as status shows it; means are in device-seconds a ticket."""
        tickets = max(1, self.tickets)
        return {
            "load_s": round(self.load_s.value, 3) if self.load_s.under > 0.0 else None,
            "tickets": self.tickets,
            "mean_s": round(self.actual_s / tickets, 3),
            "mean_error_s": round(self.error_s / tickets, 3),
        }


class Run(Struct, frozen=True, gc=False):
    """How one ticket ran."""

    where: Where  # at its grant
    held_s: float  # wall seconds it held its seat
    actual_s: float  # device-seconds among them
    estimated_s: float  # what had been expected
    guessed_s: float  # the same without a load


class FrozenCosts(Struct):
    """What is known of all rows, at rest."""

    paces: list[tuple[str, str, int, Pace]]  # row, device, active seats
    habits: dict[str, Habit]


class Costs:
    """What is known of all rows."""

    def __init__(self) -> None:
        self.paces: dict[Where, Pace] = {}
        self.habits: dict[str, Habit] = {}

    def freeze(self) -> FrozenCosts:
        """Return all of it."""
        return FrozenCosts([(*where, pace) for where, pace in self.paces.items()], self.habits)

    def thaw(self, frozen: FrozenCosts) -> None:
        """Become what was frozen; for an empty one."""
        self.paces = {(model, device, seats): pace for model, device, seats, pace in frozen.paces}
        self.habits = dict(frozen.habits)

    def inherit(self, old: "Costs") -> None:
        """Take over from an earlier start of the broker."""
        self.paces, self.habits = old.paces, old.habits

    def guess_s(self, asked: Asked, limit: int | None, where: Where, held: int = 0) -> float:
        """Return the device-seconds of prefill and decode expected of a request, > 0.

        Args:
            asked: The request.
            limit: The row's own longest answer in tokens, where the request names none.
            where: The row, the device, and how many tickets are active, itself included.
            held: Tokens of its conversation that a slot holds.
        """
        pace = self.paces.get(where) or self._pace(*where)
        habit = self.habits.get(where[0], _NEW)
        prompt = asked.prompt_bytes / habit.bytes_per_token.value - held
        output = (asked.max_tokens or limit or _DEFAULT_OUTPUT) * habit.output.value
        seconds = output * pace.decode_s.value
        if prompt > 0.0:
            seconds += prompt * pace.prefill_s.value
        return max(_LEAST_S, seconds * pace.ratio.value)

    def prompt_tokens(self, asked: Asked, model: str) -> float:
        """Return how many tokens a request's prompt is expected to have on a row."""
        return asked.prompt_bytes / self.habits.get(model, _NEW).bytes_per_token.value

    def load_s(self, model: str) -> float:
        """Return the seconds that loading a row is expected to take."""
        return self.habits.get(model, _NEW).load_s.value

    def prefill_s(self, model: str, device: str, tokens: int) -> float:
        """Return the device-seconds that computing a prompt again would take."""
        return tokens * self._pace(model, device, 1).prefill_s.value

    def learn(
        self,
        asked: Asked,
        limit: int | None,
        done: Finished,
        run: Run,
    ) -> None:
        """Take in a ticket that ran to its end.

        Args:
            asked: The request.
            limit: As of `guess_s`.
            done: What its worker said.
            run: How it ran.
        """
        model = run.where[0]
        habit = self.habits.get(model)
        if habit is None:
            habit = self.habits[model] = _habit()
        habit.tickets += 1
        habit.estimated_s += run.estimated_s
        habit.actual_s += run.actual_s
        habit.error_s += abs(run.estimated_s - run.actual_s)
        if done.load_s is not None:
            habit.load_s.add(done.load_s, 1.0)
        pace = self.paces.get(run.where)
        if pace is None:
            pace = self.paces[run.where] = _pace()
        if done.prompt_tokens <= 0 or done.ttft_s is None or run.held_s <= 0.0:
            rest_s = max(0.0, run.actual_s - (done.load_s or 0.0))
            pace.ratio.add(rest_s * pace.ratio.value, run.guessed_s)
            return
        part = run.actual_s / run.held_s  # of each wall second, what was this ticket's
        load_s = done.load_s or 0.0
        uncached = done.prompt_tokens - done.cached_tokens
        if uncached > 0:
            pace.prefill_s.add(max(0.0, done.ttft_s - load_s) * part, uncached)
        if done.output_tokens > 1:
            pace.decode_s.add(max(0.0, run.held_s - done.ttft_s) * part, done.output_tokens - 1)
        if asked.prompt_bytes >= _TELLING_BYTES:
            habit.bytes_per_token.add(asked.prompt_bytes, done.prompt_tokens)
        habit.output.add(done.output_tokens, asked.max_tokens or limit or _DEFAULT_OUTPUT)

    def learned(self) -> list[dict[str, Any]]:
        """Return what has been learned, by row, device and active seats, as status shows it.

        A figure of which there was no sample yet is None, never the first guess.
        """
        return [
            {
                "row": model,
                "device": device,
                "seats": seats,
                "prefill_tok_s": _rate(pace.prefill_s),
                "decode_tok_s": _rate(pace.decode_s),
                **self.habits[model].view(),
            }
            for (model, device, seats), pace in sorted(self.paces.items())
        ]

    def _pace(self, model: str, device: str, seats: int) -> Pace:
        """Return what is known for so many seats, else for the next fewer, else the first guess."""
        for fewer in range(seats, 0, -1):
            pace = self.paces.get((model, device, fewer))
            if pace is not None:
                return pace
        return _UNKNOWN


def _rate(seconds: Mean) -> float | None:
    """Return tokens a second; None while nothing is learned."""
    return round(1.0 / seconds.value, 2) if seconds.under > 0.0 and seconds.value > 0.0 else None


def _pace() -> Pace:
    return Pace(Mean(_PREFILL_S), Mean(_DECODE_S), Mean(1.0))


def _habit() -> Habit:
    return Habit(Mean(_BYTES_PER_TOKEN), Mean(1.0), Mean(_LOAD_S))


_UNKNOWN = _pace()  # never learned from
_NEW = _habit()
