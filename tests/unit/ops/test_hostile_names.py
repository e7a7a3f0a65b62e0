"""Names are chosen by whoever asks the box: what shows them to people shows nothing that a terminal obeys."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ops.cli import main
from ops.commands import explain, gpu, looking, queue, status
from scheduler.core import effects as fx
from scheduler.core import events as ev
from support.stand import Stand, one

EVIL = "\x1b[2J\x1b]0;owned\x07\r\nlane root: answered\x9b31m[/bold]:skull:\u202e"
LONG = "x" * 200 + "\x1b[31m" + "y" * 51


class View:
    """A client of a box in which everybody is called something that a terminal would obey."""

    def __init__(self) -> None:
        stand = self.stand = Stand(weights={EVIL: 2.0})
        self.worker = stand.worker()
        stand.finish(stand.run(f"done{EVIL}", lane=EVIL))
        stand.run(f"runs{EVIL}", lane=LONG)
        stand.ask(f"waits{EVIL}", lane=EVIL)
        stand.ask(f"waits too{EVIL}", lane=EVIL)
        stand.send(
            ev.HoldAsked(
                stand.now, b"h", f"hold{EVIL}", LONG, "", False, stand.now + 60.0, 0.0, 0, 70, 70,
                1.0, f"bench{EVIL}", 0,
            )
        )  # fmt: skip
        one(stand.ask(f"refused{EVIL}", f"no model{EVIL}", lane=EVIL), fx.Refuse)
        stand.wait(2.0, self.worker)

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to let go of."""

    def queue(self) -> Any:
        return self._seen(self.stand.core.queue(self.stand.now))

    def status(self) -> Any:
        about = {"version": "1", "up_s": 1.0, "table": EVIL}
        return self._seen(self.stand.core.snapshot(self.stand.now) | about)

    def outside(self) -> Any:
        return self._seen(self.stand.core.outside(self.stand.now))

    def live(self) -> Any:
        return self._seen(self.stand.core.live(self.stand.now) | {"version": "1", "up_s": 1.0})

    def explain(self, rid: str) -> Any:
        return self._seen(self.stand.core.explain(rid, self.stand.now))

    @staticmethod
    def _seen(view: object) -> Any:
        return json.loads(json.dumps(view))


@pytest.fixture
def fairlane(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return what runs a command against that box."""
    for module in (explain, gpu, queue, status):
        monkeypatch.setattr(module, "reach", lambda _settings: View())
    monkeypatch.setattr(looking, "Client", lambda _endpoint: View())
    monkeypatch.setattr(looking, "knock", lambda _settings: None)
    monkeypatch.setenv("FAIRLANE_CONFIG", os.devnull)
    return lambda *args, charset="utf-8": CliRunner(charset=charset).invoke(
        main, args, catch_exceptions=False
    )


COMMANDS = [
    ("queue",),
    ("queue", "--watch", "--times", "2", "--every", "0.1"),
    ("status",),
    ("gpu", "ls"),
    ("top", "--once", "--every", "0.2"),
    ("tail", "--once"),
    *(("explain", f"{what}{EVIL}") for what in ("done", "runs", "waits", "hold", "refused")),
    ("explain", f"unknown{EVIL}"),
    ("gpu", "release", f"unknown{EVIL}"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c)[:16])
def test_no_command_lets_a_name_reach_the_terminal(
    fairlane: Callable[..., Result], command: tuple[str, ...]
) -> None:
    done = fairlane(*command)
    assert done.output, "a command that shows nothing shows no name either"
    obeyed = [c for c in done.output if not c.isprintable() and c != "\n"]
    assert not obeyed
    assert "\nlane root" not in done.output, "a name must not begin a line"
    assert "owned" in done.output, "the rest of a name is shown as it is"
    assert "Traceback" not in done.output


@pytest.mark.parametrize("command", [("queue",), ("explain", f"waits{EVIL}")], ids=str)
def test_a_terminal_whose_alphabet_lacks_a_letter_has_it_spelled_out(
    fairlane: Callable[..., Result], command: tuple[str, ...]
) -> None:
    done = fairlane(*command, charset="ascii")
    assert (done.exit_code, r"\ufffd" in done.output) == (0, True)


@pytest.mark.parametrize("command", [("queue",), ("status",), ("gpu", "ls"), ("top",)], ids=str)
def test_a_program_is_given_the_names_as_they_are(
    fairlane: Callable[..., Result], command: tuple[str, ...]
) -> None:
    done = fairlane(*command, "--json")
    assert all(c.isprintable() or c == "\n" for c in done.output)
    assert EVIL in _texts(json.loads(done.output))


def _texts(view: Any) -> set[str]:
    if isinstance(view, str):
        return {view}
    if isinstance(view, list):
        return set().union(*(_texts(one) for one in view))
    if isinstance(view, dict):
        return set(view).union(*(_texts(one) for one in view.values()))
    return set()
