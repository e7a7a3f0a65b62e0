"""Chat templates and their digests: what a file must carry to be served.

A template is a program that a server runs on every request, and it arrives inside a file from
somebody else. A row says which one is expected when the file is pulled; the pins say it again when
a file is loaded by name, long after. Neither trusts a file that nobody has pinned.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from policies.problems import Problem, load_unique
from policies.row import Row
from policies.table import TableError

# The name under which a digest stands that is given without one.
DEFAULT_TEMPLATE = "default"

Verdict = Literal["match", "prefix", "mismatch", "unknown"]


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of one file's default template; exactly one of the two is given.

    Attributes:
        sha256: The digest in full.
        sha256_prefix: Its first digits. They tell files apart and are no security check.
    """

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None
    sha256_prefix: Annotated[str, Meta(pattern="^[0-9a-f]{8,63}$")] | None = None

    def __post_init__(self) -> None:
        if (self.sha256 is None) == (self.sha256_prefix is None):
            raise ValueError("a pin is either sha256 or sha256_prefix")


class Pins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pins of a box.

    Attributes:
        version: Format version.
        pins: Base name of a file in lower case -> what its default template must be.
    """

    version: Literal["1"]
    pins: dict[str, Pin]

    def __post_init__(self) -> None:
        for name in self.pins:
            if name != name.rpartition("/")[2].lower():
                raise ValueError(
                    f"'{name}' is no base name in lower case, so no file would match it"
                )

    def verdict(self, file: str, digest: str | None) -> Verdict:
        """Compare a file's default template with its pin.

        Args:
            file: Path or name of the file; case and folder do not matter.
            digest: SHA-256 of its default template in lower-case hex, `None` if it has none.

        Returns:
            `prefix` is a match of what little is known; `unknown` means that nothing is pinned.
        """
        pin = self.pins.get(file.rpartition("/")[2].lower())
        if pin is None:
            return "unknown"
        return _verdict(pin.sha256, pin.sha256_prefix, digest)


def parse_pins(text: str) -> Pins:
    """Parse a pin document.

    Raises:
        TableError: It is no JSON, not of this form, or names a file twice.
    """
    problems: list[Problem] = []
    document = load_unique(text, problems)
    if not problems:
        try:
            return msgspec.convert(document, Pins)
        except msgspec.ValidationError as error:
            problems.append(Problem("$", str(error)))
    raise TableError(problems)


def row_verdict(row: Row, templates: Mapping[str, str]) -> Verdict:
    """Compare the templates of a row's file, as it was pulled, with what the row expects.

    Args:
        row: The row.
        templates: Name of each template that the file serves -> SHA-256 in lower-case hex; the
            one without a name is called `default`.

    Returns:
        `mismatch` also where the file has no template, or serves one that the row does not name;
        `unknown` only for a row that names no digest at all.
    """
    expected = row.template_sha256
    if expected is None and row.template_sha256_prefix is None:
        return "unknown"
    if not templates:
        return "mismatch"
    if isinstance(expected, dict):
        served = all(expected.get(name) == digest for name, digest in templates.items())
        return "match" if served else "mismatch"
    if set(templates) != {DEFAULT_TEMPLATE}:
        return "mismatch"
    return _verdict(expected, row.template_sha256_prefix, templates[DEFAULT_TEMPLATE])


def _verdict(full: str | None, prefix: str | None, digest: str | None) -> Verdict:
    if digest is None:
        return "mismatch"
    if full is not None:
        return "match" if digest == full else "mismatch"
    return "prefix" if prefix is not None and digest.startswith(prefix) else "mismatch"
