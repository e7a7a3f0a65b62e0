"""The bindings against a model that walks through everything, for any use of any lanes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.binding import Binding, Bindings, Kept
from scheduler.core.crowd import Crowd
from scheduler.core.limits import Limits

IDLE_S = 8.0
LANES = ("a", "b", "c")
KEYS = tuple("123456")


class Naive:
    """The rules word for word: one list, least recently used first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.known: list[Kept] = []
        self.moments: dict[tuple[str, bool], int] = {}  # when a lane got to the number it has
        self.moment = 0

    def of(self, lane: str, *, shots: bool = False) -> list[Kept]:
        return [k for k in self.known if k.lane == lane and not (shots and k.turned)]

    def most(self, *, shots: bool) -> str:
        lanes = {k.lane for k in self.known if self.of(k.lane, shots=shots)}
        ranked = [(-len(self.of(x, shots=shots)), self.moments[x, shots], x) for x in lanes]
        return min(ranked)[2] if ranked else ""

    def change(self, known: list[Kept]) -> None:
        before, self.known = self.known, known
        self.moment += 1
        for lane in LANES:
            for shots in (True, False):
                old = [k for k in before if k.lane == lane and not (shots and k.turned)]
                if len(old) != len(self.of(lane, shots=shots)):
                    self.moments[lane, shots] = self.moment

    def find(self, lane: str, key: str, at: float) -> Binding | None:
        found = next((k for k in self.known if (k.lane, k.key) == (lane, key)), None)
        if found is None:
            return None
        others = [k for k in self.known if k is not found]
        if at - found.binding.used_at > IDLE_S:
            self.change(others)
            return None
        found.binding.used_at = at
        self.change([*others, Kept(lane, key, found.binding, turned=True)])
        return found.binding

    def keep(self, lane: str, key: str, binding: Binding) -> None:
        others = [k for k in self.known if (k.lane, k.key) != (lane, key)]
        turned = len(others) < len(self.known)
        new = Kept(lane, key, binding, turned)
        self.change([*others, new])
        if len(self.of(lane)) > self.limits.bindings_per_lane:
            self.make_room(lane, new)
        elif len(self.known) > self.limits.bindings:
            self.make_room(self.giver(new), new)

    def giver(self, new: Kept) -> str:
        lane = self.most(shots=True)
        share = self.limits.bindings // len({k.lane for k in self.known})
        spare = [k for k in self.of(lane, shots=True) if k is not new]
        return lane if spare and len(self.of(lane)) >= share else self.most(shots=False)

    def make_room(self, lane: str, new: Kept) -> None:
        others = [k for k in self.of(lane) if k is not new]
        idle = [k for k in others if k.turned and new.binding.used_at - k.binding.used_at > IDLE_S]
        shots = [k for k in others if not k.turned]
        victim = (idle or shots or others)[0]
        self.change([k for k in self.known if k is not victim])


use = st.tuples(
    st.sampled_from(["keep", "find"]),
    st.sampled_from(LANES),
    st.sampled_from(KEYS),
    st.sampled_from([0.0, 0.5, 3.0]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(use, max_size=60), st.integers(1, 7), st.integers(1, 4))
def test_they_hold_what_the_rules_say(
    uses: list[tuple[str, str, str, float]], in_all: int, per_lane: int
) -> None:
    limits = Limits(bindings=in_all, bindings_per_lane=per_lane, binding_idle_s=IDLE_S)
    bindings, naive = Bindings(limits), Naive(limits)
    at = 0.0
    for what, lane, key, pause_s in uses:
        at += pause_s
        if what == "keep":
            for one in (bindings, naive):
                one.keep(lane, key, Binding("M", "rule", "code", 1.0, b"", at))
        else:
            assert bindings.find(lane, key, at) == naive.find(lane, key, at)
        ours = {(k.lane, k.key, k.turned, k.binding.used_at) for k in bindings.items()}
        theirs = {(k.lane, k.key, k.turned, k.binding.used_at) for k in naive.known}
        assert ours == theirs
        assert len(bindings) == len(ours) <= in_all
        again = Bindings(limits)
        again.restore(bindings.items(), at)
        live = {one for one in ours if at - one[3] <= IDLE_S}
        assert {(k.lane, k.key, k.turned, k.binding.used_at) for k in again.items()} == live


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([-1, 1])), max_size=60))
def test_a_crowd_knows_its_largest(steps: list[tuple[str, int]]) -> None:
    crowd, numbers = Crowd(), dict.fromkeys("abc", 0)
    for name, step in steps:
        numbers[name] = max(0, numbers[name] + step)
        crowd.put(name, numbers[name])
        most = max(numbers.values())
        assert crowd.largest() in ([n for n, k in numbers.items() if k == most] if most else [""])
