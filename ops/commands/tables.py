"""What `fairlane laya-first` does: find a table, check it, desugar it, hand it to a Lemonade."""

import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ops.commands.exits import Exit
from policies import shipped
from policies.desugar import POLICY_NAME
from policies.problems import Problem
from policies.table import check_table, parse_table

# Registration re-reads the server's catalogue, which takes seconds on a slow disk.
TIMEOUT_S = 30.0


class Source(msgspec.Struct, frozen=True):
    """A table's text and where it came from.

    Attributes:
        name: A path, or `shipped`.
        text: The table.
    """

    name: str
    text: str


class Report(msgspec.Struct, frozen=True):
    """What checking a table found.

    Attributes:
        table: Where the table came from.
        ok: Whether it is good; warnings do not make it bad.
        problems: Every fault.
        classes: Names of its classes; empty if it is not good.
        default_model: Its default; `None` if it is not good.
        advice: What a running box has learned about its rules; none of it is a fault.
    """

    table: str
    ok: bool
    problems: list[Problem]
    classes: list[str] = []
    default_model: str | None = None
    advice: list[str] = []

    def __str__(self) -> str:
        good = f"{len(self.classes)} classes, default {self.default_model}"
        lines = [f"{self.table}: {good if self.ok else 'invalid'}"]
        lines += [f"{problem.severity}: {problem}" for problem in self.problems]
        lines += [f"note: {sentence}" for sentence in self.advice]
        return "\n".join(lines)


class RegistrationError(Exception):
    """A server did not take the policy.

    Attributes:
        code: Exit code: it cannot be reached, or it refuses.
    """

    def __init__(self, text: str, code: Exit) -> None:
        super().__init__(text)
        self.code = code


def find(file: Path | None, home: Path) -> Source:
    """Return the table to use: the file named, else the user's own, else the shipped one.

    Args:
        file: What the command line names.
        home: The user's home directory.

    Raises:
        OSError: The file cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    own = home / ".local/share/fairlane/laya-first.json"
    chosen = file or (own if own.is_file() else None)
    if chosen is None:
        return Source("shipped", shipped.read("laya-first.json"))
    return Source(str(chosen), chosen.read_text(encoding="utf-8"))


def report(source: Source, *, strict: bool) -> Report:
    """Check a table."""
    problems = check_table(source.text, strict=strict)
    if any(problem.severity == "error" for problem in problems):
        return Report(source.name, ok=False, problems=problems)
    table = parse_table(source.text)
    names = list(table.classes)
    return Report(source.name, True, problems, names, table.default_model)


def register(url: str, policy: str, api_key: str | None) -> str:
    """Register a policy with a running Lemonade; doing it again changes nothing.

    Args:
        url: Base address, with or without an API prefix such as `/api/v1`.
        policy: The policy as JSON.
        api_key: Sent as a bearer token where there is one.

    Returns:
        The name under which it is registered.

    Raises:
        RegistrationError: The server cannot be reached or refuses; with its own words.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise RegistrationError(f"{url!r} is no http address", Exit.USAGE)
    target = url.rstrip("/") + ("/pull" if parts.path.rstrip("/") else "/v1/pull")
    headers = {"content-type": "application/json"}
    headers |= {"authorization": f"Bearer {api_key}"} if api_key else {}
    request = urllib.request.Request(target, policy.encode(), headers)  # noqa: S310  # checked above
    # A proxy of the environment is for the world outside, not for a server on this box.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(request, timeout=TIMEOUT_S).close()
    except urllib.error.HTTPError as error:
        words = error.read(2000).decode("utf-8", "replace")
        error.close()
        raise RegistrationError(f"{target}: {error.code} {words}", Exit.REFUSED) from error
    except OSError as error:
        raise RegistrationError(f"{target}: {error}", Exit.UNREACHABLE) from error
    return POLICY_NAME
