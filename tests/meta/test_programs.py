"""A test whose program is missing is skipped by name, and in a landing's run it fails instead."""

from collections.abc import Callable

import pytest
from _pytest.outcomes import Failed, Skipped

from support import chromium, debian, prometheus, units

ASKED: dict[str, Callable[[], object]] = {
    "chromium": chromium.programs,
    "prometheus": prometheus.promtool,
    "systemd-analyze": lambda: units.tool("systemd-analyze"),
}


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(debian, "_install", lambda package: f"{package} may not be installed")


@pytest.mark.parametrize("name", ASKED)
def test_a_missing_program_skips_the_test_and_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MISSING_PROGRAMS", raising=False)
    with pytest.raises(Skipped, match=f"{name}.*may not be installed"):
        ASKED[name]()


@pytest.mark.parametrize("name", ASKED)
def test_where_all_have_to_be_there_a_missing_one_fails_the_test(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISSING_PROGRAMS", "fail")
    with pytest.raises(Failed, match=name):
        ASKED[name]()
