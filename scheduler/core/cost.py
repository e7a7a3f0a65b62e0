"""How long a ticket will hold its device, guessed first and learned from the truth.

Estimate, in device-seconds: load + a x uncached prompt tokens + b x expected output tokens, where a and b
are learned per row, device and number of active seats, load per row.

First guess: 130 tokens per second of prefill, 15.3 of decode (a dense 27B model on the iGPU of a Strix
Halo: 124-152 and 15.3), 4 bytes a token, 5 s a load, and that an answer is as long as it may be.
Learned values are sums that forget: each sample scales what was known by 7/8, the gain of TCP's smoothed
round trip (RFC 6298), so a cold start is forgotten within a dozen tickets and long tickets, which are
measured better, weigh more. An engine that counts no tokens is learned by one ratio of truth to guess.
"""

from msgspec import Struct

from scheduler.core.events import Asked, Finished

_BYTES_PER_TOKEN = 4.0
_PREFILL_S = 1 / 130.0  # a token
_DECODE_S = 1 / 15.3
_LOAD_S = 5.0
_DEFAULT_OUTPUT = 256  # tokens, where neither the request nor the row says
_KEEP = 7 / 8
_LEAST_S = 1e-6


class Mean(Struct):
    """A quotient of two sums that forget, and what to say before the first sample."""

    guess: float
    over: float = 0.0
    under: float = 0.0

    def add(self, over: float, under: float) -> None:
        """Take in a sample."""
        self.over = self.over * _KEEP + over
        self.under = self.under * _KEEP + under

    @property
    def value(self) -> float:
        """The quotient, >= 0."""
        return self.over / self.under if self.under > 0.0 else self.guess


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


class Demand(Struct, frozen=True, gc=False):
    """What an estimate depends on beside the request."""

    model: str
    device: str
    max_tokens: int | None  # the row's, where the request names none
    seats: int = 1  # active with it
    loaded: bool = True
    held_tokens: int = 0  # of its conversation, in a slot


class Costs:
    """What is known of all rows."""

    def __init__(self) -> None:
        self.paces: dict[tuple[str, str, int], Pace] = {}
        self.habits: dict[str, Habit] = {}

    def estimate_s(self, asked: Asked, demand: Demand) -> float:
        """Return the device-seconds expected of a request, > 0."""
        pace = self._pace(demand.model, demand.device, demand.seats)
        habit = self.habits.get(demand.model)
        load_s = 0.0 if demand.loaded else (habit.load_s.value if habit else _LOAD_S)
        return max(_LEAST_S, load_s + guess_s(asked, demand, pace, habit))

    def prefill_s(self, model: str, device: str, tokens: int) -> float:
        """Return the device-seconds that computing a prompt again would take."""
        return tokens * self._pace(model, device, 1).prefill_s.value

    def learn(
        self,
        asked: Asked,
        demand: Demand,
        done: Finished,
        *,
        held_s: float,
        actual_s: float,
        estimated_s: float,
    ) -> None:
        """Take in a ticket that ran to its end.

        Args:
            asked: The request.
            demand: As it was at the grant.
            done: What its worker said.
            held_s: Wall seconds it held its seat, > 0 or nothing is learned.
            actual_s: Device-seconds among them.
            estimated_s: What had been expected.
        """
        habit = self._habit(demand.model)
        habit.tickets += 1
        habit.estimated_s += estimated_s
        habit.actual_s += actual_s
        habit.error_s += abs(estimated_s - actual_s)
        if done.load_s is not None:
            habit.load_s.add(done.load_s, 1.0)
        pace = self._own_pace(demand)
        if done.prompt_tokens <= 0 or done.ttft_s is None or held_s <= 0.0:
            pace.ratio.add(actual_s, guess_s(asked, demand, _UNKNOWN, habit))
            return
        part = actual_s / held_s  # of each wall second, what was this ticket's
        load_s = done.load_s or 0.0
        uncached = done.prompt_tokens - done.cached_tokens
        if uncached > 0:
            pace.prefill_s.add(max(0.0, done.ttft_s - load_s) * part, uncached)
        if done.output_tokens > 1:
            pace.decode_s.add(max(0.0, held_s - done.ttft_s) * part, done.output_tokens - 1)
        if asked.prompt_bytes > 0:
            habit.bytes_per_token.add(asked.prompt_bytes, done.prompt_tokens)
        habit.output.add(done.output_tokens, _limit(asked, demand))

    def _pace(self, model: str, device: str, seats: int) -> Pace:
        """Return what is known for so many seats, else for the next fewer, else the first guess."""
        for fewer in range(seats, 0, -1):
            pace = self.paces.get((model, device, fewer))
            if pace is not None:
                return pace
        return _UNKNOWN

    def _own_pace(self, demand: Demand) -> Pace:
        key = (demand.model, demand.device, demand.seats)
        pace = self.paces.get(key)
        if pace is None:
            pace = self.paces[key] = Pace(Mean(_PREFILL_S), Mean(_DECODE_S), Mean(1.0))
        return pace

    def _habit(self, model: str) -> Habit:
        habit = self.habits.get(model)
        if habit is None:
            habit = self.habits[model] = Habit(Mean(_BYTES_PER_TOKEN), Mean(1.0), Mean(_LOAD_S))
        return habit


_UNKNOWN = Pace(Mean(_PREFILL_S), Mean(_DECODE_S), Mean(1.0))


def guess_s(asked: Asked, demand: Demand, pace: Pace, habit: Habit | None) -> float:
    """Return the estimate without the load, in device-seconds, > 0."""
    bytes_per_token = habit.bytes_per_token.value if habit else _BYTES_PER_TOKEN
    prompt = max(0.0, asked.prompt_bytes / bytes_per_token - demand.held_tokens)
    output = _limit(asked, demand) * (habit.output.value if habit else 1.0)
    seconds = prompt * pace.prefill_s.value + output * pace.decode_s.value
    return max(_LEAST_S, seconds * pace.ratio.value)


def _limit(asked: Asked, demand: Demand) -> int:
    return asked.max_tokens or demand.max_tokens or _DEFAULT_OUTPUT
