"""`fairlane route --serve` as a child process that is asked line by line, as its clients drive it."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Self

from support.box import TREE

CRITERIA = {
    "code": "source code, a script, a fix to a program, or an explanation of code",
    "prose": "several paragraphs of explanation, writing, advice or a story",
    "short": "one word, one number or one sentence",
}
QUESTIONS = {
    "cls": {
        "type": "choice",
        "instructions": "What kind of answer does this request need?",
        "criteria": CRITERIA,
    }
}
AT_ONCE = 16  # lines of a batch; two batches and their answers fit into the pipes


class Daemon:
    """The child. Leaving its `with` block ends its input and waits for it."""

    def __init__(self, environ: Mapping[str, str], *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ops.cli", "route", "--serve", *options],
            env=dict(environ), cwd=TREE,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.stdin, self.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def read(self) -> dict[str, Any]:
        """Return the next line."""
        line = self.stdout.readline()
        assert line.endswith(b"\n"), f"ended: {line!r}, {self.errors()}"
        reply: dict[str, Any] = json.loads(line)
        return reply

    def say(self, line: object) -> None:
        """Send a line; bytes go as they are."""
        self.stdin.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        self.stdin.flush()

    def ask(self, line: object) -> dict[str, Any]:
        """Send a line and return its answer."""
        self.say(line)
        return self.read()

    def ask_all(self, lines: Iterable[object]) -> Iterator[dict[str, Any]]:
        """Send lines, many at once, and yield their answers in order."""
        left = iter(lines)
        under_way = self._say_some(left)
        while under_way:
            more = self._say_some(left)
            for _ in range(under_way):
                yield self.read()
            under_way = more

    def end(self) -> int:
        """End its input and return the exit status."""
        self.stdin.close()
        return self.process.wait(timeout=60)

    def errors(self) -> str:
        """Return what it wrote to standard error until its end."""
        assert self.process.stderr
        self.process.wait(timeout=60)
        return self.process.stderr.read().decode()

    def _say_some(self, lines: Iterator[object]) -> int:
        batch = [json.dumps(line).encode() + b"\n" for line in islice(lines, AT_ONCE)]
        self.stdin.write(b"".join(batch))
        self.stdin.flush()
        return len(batch)
