"""Lines out of a stream of bytes, within a bound. Pure."""

LONGEST = 1024 * 1024  # bytes of one line; an honest answer has some hundred


class Lines:
    """Splits what a pipe gives into lines. One that is too long is left out whole."""

    def __init__(self, longest: int = LONGEST) -> None:
        """Start with nothing.

        Args:
            longest: Bytes of a line, without its end, that are kept at most.
        """
        self._longest = longest
        self._rest = bytearray()
        self._skipping = False  # the line at hand is too long; all of it goes

    @property
    def held(self) -> int:
        """Bytes kept of a line that has not ended."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`, without their ends, in order."""
        *ended, rest = data.split(b"\n")
        lines: list[bytes] = []
        for part in ended:
            if not self._skipping and len(self._rest) + len(part) <= self._longest:
                lines.append(bytes(self._rest + part))
            self._skipping = False
            self._rest.clear()
        if self._skipping or len(self._rest) + len(rest) > self._longest:
            self._skipping = True
            self._rest.clear()
        else:
            self._rest += rest
        return lines
