"""Lines out of a stream of bytes, within a bound. Pure."""

LONGEST = 1024 * 1024  # bytes of one line; an honest answer has some hundred


class Lines:
    """Splits what a pipe gives into lines. One that is too long is left out whole."""

    def __init__(self, longest: int = LONGEST, *, mark: bytes | None = None) -> None:
        """Start with nothing.

        Args:
            longest: Bytes of a line, without its end, that are kept at most.
            mark: Stands in the place of a line that is too long, as soon as it is; None: nothing does.
        """
        self._longest = longest
        self._mark = mark
        self._rest = bytearray()
        self._skipping = False  # the line at hand is too long; all of it goes

    @property
    def held(self) -> int:
        """Bytes kept of a line that has not ended."""
        return len(self._rest)

    @property
    def rest(self) -> bytes:
        """What is kept of a line that has not ended."""
        return bytes(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`, without their ends, in order."""
        *ended, rest = data.split(b"\n")
        lines: list[bytes] = []
        for part in ended:
            self._keep(part, lines)
            if not self._skipping:
                lines.append(bytes(self._rest))
            self._skipping = False
            self._rest.clear()
        self._keep(rest, lines)
        return lines

    def _keep(self, part: bytes, lines: list[bytes]) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(part) <= self._longest:
            self._rest += part
            return
        self._skipping = True
        self._rest.clear()
        if self._mark is not None:
            lines.append(self._mark)
