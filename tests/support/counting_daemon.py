"""The builtin classifier as a daemon that writes a letter into a file for each text it is asked about.

Usage: python counting_daemon.py FILE. Run by the tests, which count the letters.
"""

import sys
from pathlib import Path

from workers.builtin.model import Builtin, Verdict
from workers.serving import serve


class Counted:
    """The builtin, counted from outside."""

    name = "counted"

    def __init__(self, file: Path) -> None:
        self._builtin = Builtin.load()
        self._file = file.open("ab", buffering=0)

    def classify(self, text: str) -> Verdict:
        """Note the call, then answer."""
        self._file.write(b"x")
        return self._builtin.classify(text)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


if __name__ == "__main__":
    serve(Counted(Path(sys.argv[1])), 0, 1)
