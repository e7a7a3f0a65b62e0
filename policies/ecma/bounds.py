"""Whether a linear engine stays linear on a pattern.

RE2 runs a pattern as an automaton that it builds while it reads. Where that automaton has very
many states, building it is what takes the time, and on a megabyte of hostile text it takes
seconds. So the whole automaton is built here once, with a limit on the work: a pattern within the
limit costs RE2 a few milliseconds of building on any text, and one table look-up a byte.
"""

from policies.ecma.tree import (
    ALL_BYTES,
    WORD,
    Bytes,
    Choice,
    Edge,
    Group,
    Node,
    Repeat,
    Sequence,
)

# Steps from one state over one class of bytes, each counted as often as it has threads. RE2 takes
# some 20 ns a step, so 0.1 ms in all. Reading them off here takes up to 5 ms, once; a policy from a client
# may hold hundreds of patterns, and a larger limit would let it keep a helper busy for a minute.
MAX_WORK = 6_000
MAX_THREADS = 2_000

# Thread number -> where it goes: over a set of bytes, or without consuming one.
_ACCEPT = 0


class _Automaton:
    """A plain automaton with one thread per place in the pattern.

    Attributes:
        over: Thread -> set of bytes and the next thread; absent where it consumes nothing.
        free: Thread -> edge kind that must hold (empty: none) and the next threads.
    """

    def __init__(self) -> None:
        self.over: dict[int, tuple[int, int]] = {}
        self.free: dict[int, tuple[str, tuple[int, ...]]] = {_ACCEPT: ("", ())}
        self.full = False

    def add(self, edge: str, following: tuple[int, ...]) -> int:
        thread = len(self.free) + len(self.over)
        self.full = self.full or thread >= MAX_THREADS
        self.free[thread] = (edge, following)
        return thread

    def build(self, node: Node, after: int) -> int:
        """Return the thread at which `node` starts, given the one that follows it."""
        if self.full:
            return after
        if isinstance(node, Bytes):
            thread = len(self.free) + len(self.over)
            self.full = thread >= MAX_THREADS
            self.over[thread] = (node.members, after)
            return thread
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self.build(part, after)
            return after
        return self.branch(node, after)

    def branch(self, node: Node, after: int) -> int:
        if isinstance(node, Group):
            return self.build(node.node, after)
        if isinstance(node, Choice):
            return self.add("", tuple(self.build(option, after) for option in node.options))
        if isinstance(node, Edge):
            return self.add(node.kind, (after,))
        return self.repeat(node, after) if isinstance(node, Repeat) else after

    def repeat(self, node: Repeat, after: int) -> int:
        if node.most is None:
            loop = self.add("", ())
            self.free[loop] = ("", (self.build(node.node, loop), after))
            after = loop
        # Optional rounds are nested, as RE2 has them: leaving one leaves all that would follow.
        leave = after
        for _ in range(node.least, node.most or 0):
            after = self.add("", (self.build(node.node, after), leave))
            if self.full:
                return after
        for _ in range(node.least):
            after = self.build(node.node, after)
            if self.full:
                return after
        return after


def is_bounded(node: Node) -> bool:
    """Tell whether RE2 searches any text for `node` in time that the limit keeps.

    Args:
        node: A pattern without look-aheads and back-references, which RE2 does not know.
    """
    automaton = _Automaton()
    start = automaton.build(node, _ACCEPT)
    return not automaton.full and _Explorer(automaton, start).explore()


# The threads before the next byte, and what kind of byte came last.
_State = tuple[frozenset[int], str]


class _Explorer:
    """Builds the automaton of sets of threads, as a search without anchor meets them."""

    def __init__(self, automaton: _Automaton, start: int) -> None:
        self.automaton = automaton
        self.start = start
        self.edges = any(kind for kind, _ in automaton.free.values())
        self.samples = _samples([members for members, _ in automaton.over.values()])
        self.work = 0

    def explore(self) -> bool:
        waiting: list[_State] = [(frozenset({self.start}), "start")]
        seen: set[_State] = set(waiting)
        while waiting:
            threads, before = waiting.pop()
            for byte in self.samples:
                state = self.step(threads, before, byte)
                if self.work > MAX_WORK:
                    return False
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
        return True

    def step(self, threads: frozenset[int], before: str, byte: int) -> _State:
        """Return the set after one byte; a search may start again at every place."""
        is_word = bool(WORD >> byte & 1)
        open_threads = self.closure(threads, before, is_word=is_word)
        over = self.automaton.over
        following = {self.start}
        for thread in open_threads:
            if thread in over and over[thread][0] >> byte & 1:
                following.add(over[thread][1])
        self.work += len(open_threads) + 1
        kind = ("word" if is_word else "other") if self.edges else ""
        return frozenset(following), kind

    def closure(self, threads: frozenset[int], before: str, *, is_word: bool) -> set[int]:
        """Return all threads that are reached before the next byte, edges taken into account."""
        reached = set(threads)
        waiting = list(threads)
        while waiting:
            kind, following = self.automaton.free.get(waiting.pop(), ("", ()))
            if kind and not _edge_holds(kind, before, is_word=is_word):
                continue
            fresh = [thread for thread in following if thread not in reached]
            reached.update(fresh)
            waiting.extend(fresh)
        return reached


def _edge_holds(kind: str, before: str, *, is_word: bool) -> bool:
    if kind == "start":
        return before == "start"
    if kind == "end":
        return False
    return ((before == "word") != is_word) == (kind == "word")


def _samples(sets: list[int]) -> list[int]:
    """Return one byte for each class of bytes that no set of the pattern tells apart."""
    classes = [ALL_BYTES & WORD, ALL_BYTES & ~WORD]
    for members in set(sets):
        split = [part & members for part in classes] + [part & ~members for part in classes]
        classes = [part for part in split if part]
    return [(part & -part).bit_length() - 1 for part in classes]
