"""A naive account of a box: who waits, who holds, and what every lane was served by the modelled devices.

Nothing of the core is asked here. Time is split among those who hold a device, as the contract says, and a
lane's service is what its requests held, told when they end. Pairs of lanes are compared only while both
have something waiting, for then and only then they are owed the same.

What does not hold is not raised but kept as a `Fault` under the property it breaks.
"""

from collections import defaultdict, deque
from itertools import combinations
from typing import NamedTuple

from msgspec import Struct

TINY = 1e-6  # rounding of some thousand additions


class Fault(NamedTuple):
    """A property that does not hold."""

    property: str
    what: str


class Use(Struct):
    """One request's time on a device, from its grant until it ends."""

    lane: str
    rid: str
    lease: int
    owner: str  # the worker, or the hold
    cost_s: float  # what was expected
    used_s: float = 0.0  # device-seconds so far
    is_doubtful: bool = False  # its worker is gone: whether it is charged shows in what follows


class Window(Struct):
    """Two lanes since both have had something waiting."""

    marks: set[str]  # "P3": one came back from idling; "P12": the device changed its speed
    ahead: float = 0.0  # weighted service of the first lane less that of the second
    low: float = 0.0
    high: float = 0.0
    first: float = 0.0  # weighted service since then
    second: float = 0.0
    sizes: dict[str, float] = {}  # lane -> its largest request, the last ones before among them


class Turn(Struct):
    """A lane that waits: what the others were served since it had its last turn."""

    others: dict[str, float]


class Device:
    """The account of one device."""

    def __init__(
        self, name: str, weights: dict[str, float], seats: int, slack_s: float, at: float
    ) -> None:
        """Begin.

        Args:
            name: The device, such as hrx0.
            weights: Lane -> share.
            seats: Seats of its worker.
            slack_s: What passing over the fair head may add, device-seconds.
            at: Now.
        """
        self.name, self.weights, self.seats, self.slack_s = name, weights, seats, slack_s
        self.uses: dict[str, Use] = {}  # request -> its use
        self.waiting: dict[str, set[str]] = defaultdict(set)  # lane -> its requests
        self.served: dict[str, float] = defaultdict(float)
        self.largest: dict[str, float] = defaultdict(float)
        self.latest: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=4 * seats))
        self.pauses: dict[str, float] = defaultdict(float)  # lane -> time kept free for it, in all
        self.pause: dict[str, float] = defaultdict(float)  # the longest of them
        self.windows: dict[tuple[str, str], Window] = {}
        self.turns: dict[str, Turn] = {}
        self.left_at: dict[str, float] = {}  # lane -> since when it has neither waited nor held
        self.known: set[str] = set()  # lanes that were ever here
        self.faults: list[Fault] = []
        self.seen: dict[str, int] = defaultdict(int)  # property -> how often there was a case of it
        self.now = at

    def step(self, at: float) -> None:
        """Let time pass: it is split among those who hold the device."""
        for use in self.uses.values():
            use.used_s += (at - self.now) / len(self.uses)
        self.now = at

    def waits(self, lane: str, rid: str) -> None:
        """A request waits."""
        self.waiting[lane].add(rid)

    def begins(self, use: Use) -> None:
        """A request has its turn."""
        self.waiting[use.lane].discard(use.rid)
        self.uses[use.rid] = use
        self._check_turn(use)
        if self.seats > 1:  # the next picks are made while it is charged what was expected
            self._size(use.lane, use.cost_s)

    def ends(self, rid: str, lane: str, *, charged: bool) -> None:
        """A request does not wait any more, or its use is over."""
        self.waiting[lane].discard(rid)
        use = self.uses.pop(rid, None)
        if use is None or not charged:
            return
        self.served[lane] += use.used_s
        self._size(lane, use.used_s)
        self._serve(lane, use.used_s)
        for other, turn in self.turns.items():
            if other != lane:
                turn.others[lane] = turn.others.get(lane, 0.0) + use.used_s

    def pauses_for(self, lane: str, until_s: float) -> None:
        """The device was kept free for a lane, so long in all; it pays for that like for service."""
        pause_s = until_s - self.pauses[lane]
        if pause_s > TINY:
            self.pauses[lane] = until_s
            self.pause[lane] = max(self.pause[lane], pause_s)
            self._serve(lane, pause_s)

    def goes_back(self, rid: str) -> None:
        """What a request has used is lost, and nobody's: it waits again."""
        use = self.uses.pop(rid, None)
        if use is not None:
            self.waiting[use.lane].add(rid)

    def restart(self) -> None:
        """The broker is another: what was in hand is charged to nobody, and everybody asks again."""
        for each in (self.uses, self.waiting, self.windows, self.turns):
            each.clear()

    def look(self) -> None:
        """Take in who waits now; to be called after every event."""
        lanes = sorted(lane for lane, waiting in self.waiting.items() if waiting)
        holding = {use.lane for use in self.uses.values()}
        for pair in [p for p in self.windows if not set(p) <= set(lanes)]:
            del self.windows[pair]
        for one, two in combinations(lanes, 2):
            if (one, two) not in self.windows:
                idle = any(
                    n not in self.known or self.left_at.get(n, self.now) < self.now - 1.0
                    for n in (one, two)
                )
                sizes = {n: max(self.latest[n], default=0.0) for n in (one, two)}
                self.windows[one, two] = Window({"P3"} if idle else set(), sizes=sizes)
        self.turns = {lane: self.turns.get(lane) or Turn({}) for lane in lanes}
        self.known.update(lanes)
        for lane in self.waiting:
            if lane in lanes or lane in holding:
                self.left_at.pop(lane, None)
            else:
                self.left_at.setdefault(lane, self.now)

    def waiting_total(self) -> int:
        """Return how many requests wait."""
        return sum(len(rids) for rids in self.waiting.values())

    def mark(self, name: str) -> None:
        """Something happens that the open windows are to be told from others by."""
        for window in self.windows.values():
            window.marks.add(name)

    def bound(self, window: Window) -> float:
        """Return how far two lanes may be apart: their largest requests and what may be passed over."""
        largest = sum(
            (size + self.pause[lane]) / self._weight(lane) for lane, size in window.sizes.items()
        )
        return self.seats * largest + self.slack_s + TINY

    def _size(self, lane: str, seconds: float) -> None:
        self.largest[lane] = max(self.largest[lane], seconds)
        self.latest[lane].append(seconds)
        for pair, window in self.windows.items():
            if lane in pair:
                window.sizes[lane] = max(window.sizes[lane], seconds)

    def _serve(self, lane: str, seconds: float) -> None:
        share = seconds / self._weight(lane)
        for (one, two), window in self.windows.items():
            if lane in {one, two}:
                self._move(one, two, window, share if lane == one else -share)

    def _move(self, one: str, two: str, window: Window, by: float) -> None:
        window.ahead += by
        window.low, window.high = min(window.low, window.ahead), max(window.high, window.ahead)
        window.first += max(by, 0.0)
        window.second += max(-by, 0.0)
        bound = self.bound(window)
        gap = window.high - window.low
        least = min(window.first, window.second)
        for name in window.marks or {"P2"}:
            self.seen[name] += least > bound / 2
            if gap > bound:
                text = f"{one} and {two} are {gap:.3f} s apart, {bound:.3f} allowed, {window}"
                self.faults.append(Fault(name, text))
        if least >= 50 * bound:
            self.seen["P4"] += 1
            if abs(window.first / window.second - 1.0) > 0.02:
                self.faults.append(Fault("P4", f"{one} and {two}: {window}"))

    def _check_turn(self, use: Use) -> None:
        """P5: between two turns of a waiting lane each other lane has at most its share and one request.

        Its own last request moved its tag by l / w; another lane is served until its tag is past that, so
        for w' l / w and the request that goes beyond; one more may have been running, once a seat. Either
        may have been preferred to save a load, by half of the cap each.
        """
        turn = self.turns.pop(use.lane, None)
        if turn is None:
            return
        own = (self.largest[use.lane] + self.pause[use.lane]) / self._weight(use.lane)
        for lane, served in turn.others.items():
            largest = self.largest[lane]
            most = self.seats * (self._weight(lane) * (own + self.slack_s) + 2 * largest)
            self.seen["P5"] += served > 0.0
            if served > most + TINY:
                text = (
                    f"{use.lane} waited while {lane} was served {served:.3f} s, {most:.3f} allowed"
                )
                self.faults.append(Fault("P5", text))

    def _weight(self, lane: str) -> float:
        return self.weights.get(lane, 1.0)
