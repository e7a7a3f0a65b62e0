"""What a model file's templates are held to when it is loaded: its row, and the pins of the box.

A row's digest is always binding. A pin is looked up by the file's name, whatever row it is loaded for, so it
is what covers a file that changed long after it was pulled; it warns, and refuses where it is strict.
"""

import logging
from pathlib import Path

from policies import shipped
from policies.pins import DEFAULT_TEMPLATE, Pins, Verdict, parse_pins, row_verdict
from policies.row import ExtraFile, Row
from policies.table import TableError
from policies.why import Reason, Why
from scheduler.errors import SettingsError
from scheduler.log import note
from workers.badfile import BadFile
from workers.rows import unusable
from workers.templates import digests_of

log = logging.getLogger(__name__)


class Pinned:
    """The pins in force."""

    def __init__(self, pins: Pins, *, is_strict: bool) -> None:
        """Remember them.

        Args:
            pins: By file name.
            is_strict: Whether a file with another template than its pin's is refused, not only told of.
        """
        self._pins = pins
        self._is_strict = is_strict

    def verdict(self, path: Path, digests: dict[str, str]) -> Verdict:
        """Return what the pins say of a file with these templates."""
        return self._pins.verdict(path.absolute().name, digests.get(DEFAULT_TEMPLATE))

    def check(self, row: Row, path: Path) -> dict[str, str]:
        """Return the digests of the templates in a row's file, before anything loads it.

        Raises:
            JobError: 503, a template is not what the row names, or not what the pins do and they are strict,
                or the file cannot be read.
        """
        try:
            digests = digests_of(path)
        except BadFile as error:
            raise unusable(row, Reason.LOAD_FAILED, error.reason) from error
        is_refused = row_verdict(row, digests) == "mismatch"
        names = str(row.template_sha256 or f"{row.template_sha256_prefix}...")
        self._hold(row, path, digests, names if is_refused else "")
        return digests

    def check_extra(self, row: Row, extra: ExtraFile, path: Path) -> None:
        """Hold a further file that is served to what its entry and the pins say of it, before it is loaded.

        Raises:
            JobError: As `check`.
        """
        if extra.template_sha256 is None and self.verdict(path, {}) == "unknown":
            return  # most have no template, and nobody says anything of it
        try:
            digests = digests_of(path)
        except BadFile as error:
            raise unusable(row, Reason.LOAD_FAILED, f"{path.name}: {error.reason}") from error
        names = extra.template_sha256 or ""
        is_refused = bool(names) and digests != {DEFAULT_TEMPLATE: names}
        self._hold(row, path, digests, names if is_refused else "", of=f"{path.name}: ")

    def _hold(
        self, row: Row, path: Path, digests: dict[str, str], names: str, of: str = ""
    ) -> None:
        """Refuse a file whose templates are not those that its row names, or tell that the pins name others.

        Args:
            row: The row.
            path: Of the file.
            digests: Of its templates.
            names: What the row names, if that is not what there is; empty: it is.
            of: Begins the text of an error.
        """
        digest = digests.get(DEFAULT_TEMPLATE, "")
        is_refused, is_off = bool(names), self.verdict(path, digests) == "mismatch"
        if is_refused or is_off:
            note(
                log,
                "template_mismatch",
                level=logging.WARNING,
                model=row.model,
                file=path.name,
                template_sha256=digest,
                templates=digests,
                differs_from="row" if is_refused else "pin",
                refused=is_refused or self._is_strict,
            )
        if is_refused:
            text = f"{of}its chat template has digest {digest or 'none'}, the row pins {names}"
            raise unusable(row, Why.TEMPLATE_MISMATCH, text)
        if is_off and self._is_strict:
            text = (
                f"{of}its chat template has digest {digest or 'none'}, and {path.name} is pinned to "
                "another one. "
                "If the file is right, `fairlane template pin FILE` prints its pin for workers.template_pins"
            )
            raise unusable(row, Why.TEMPLATE_MISMATCH, text)


def load_pinned(path: str, *, is_strict: bool) -> Pinned:
    """Return the shipped pins and those of a file, which count where both name one.

    Args:
        path: Of a pin document; empty for none.
        is_strict: See `Pinned`.

    Raises:
        SettingsError: It cannot be read or is refused.
    """
    pins = parse_pins(shipped.read("template-pins.json"))
    if path:
        try:
            own = parse_pins(Path(path).expanduser().read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read workers.template_pins {path}: {error}") from error
        except TableError as error:
            raise SettingsError(f"workers.template_pins {path} is refused: {error}") from error
        pins = Pins(pins.version, pins.pins | own.pins)
    return Pinned(pins, is_strict=is_strict)
