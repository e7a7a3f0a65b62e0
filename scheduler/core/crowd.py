"""Which of many names has the largest number, told in O(1) where numbers change by one at a time."""


class Crowd:
    """Name -> number, and the name with the largest one."""

    __slots__ = ("_names", "_numbers", "_top")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: dict[int, dict[str, None]] = {}  # number -> its names, first come first
        self._top = 0

    def freeze(self) -> list[tuple[str, int]]:
        """Return all names with their numbers; of two with one number the one that reached it first."""
        return [(name, number) for number, names in self._names.items() for name in names]

    def thaw(self, frozen: list[tuple[str, int]]) -> None:
        """Become what was frozen; for an empty one."""
        for name, number in frozen:
            self.put(name, number)

    def put(self, name: str, number: int) -> None:
        """Set a name's number, at least 0; a name without one has 0 and is forgotten."""
        old = self._numbers.get(name, 0)
        if old == number:
            return
        if old:
            del self._numbers[name]
            group = self._names[old]
            del group[name]
            if not group:
                del self._names[old]
        if number:
            self._numbers[name] = number
            self._names.setdefault(number, {})[name] = None
        self._top = max(self._top, number)
        while self._top and self._top not in self._names:
            self._top -= 1  # one step for each step that a number grew

    def largest(self) -> str:
        """Return the name with the largest number, among equals the one that reached it first.

        Empty if no name has a number.
        """
        return next(iter(self._names[self._top])) if self._top else ""
