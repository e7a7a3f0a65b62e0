"""Every state of the wanted row, the fallback and the default, beside a naive reading of the contract."""

from itertools import product

import pytest

from scheduler.core import effects as fx
from support.stand import Peer, Stand, of, one, row

BUDGET_S = 8.0  # longer than the first rest of a row
STATES = (
    None,
    "ready",
    "missing",
    "failed",
    "mismatch",
    "resting",
)  # None: nobody has said anything
ENDS = ("arrives", "fails", "mismatches", "never")  # what becomes of a pull
USABLE = {None, "ready"}
AFTER = {
    "arrives": "", "fails": "pull_failed", "mismatches": "template_mismatch", "never": "pull_timeout",
}  # fmt: skip
SAID = {"fails": "pull_failed", "mismatches": "template_mismatch", "arrives": ""}


def fault(state: str | None, end: str) -> str:
    """Return why a row cannot be used in the end; empty: it can."""
    if state in USABLE:
        return ""
    return {"mismatch": "template_mismatch", "resting": "load_failed"}.get(str(state), AFTER[end])


def expected(
    explicit: bool, states: tuple[str | None, str | None, str | None], ends: tuple[str, str]
) -> tuple[str, str]:
    """Return who answers and why another one than N does; nobody is an empty name."""
    wanted, fallback, default = states
    why = fault(wanted, ends[0])
    if not why:
        return "N", ""
    if explicit:
        return "", why
    if why == "pull_timeout":  # by then they have rested
        fallback, default = (None if one == "resting" else one for one in (fallback, default))
    if fallback in USABLE:  # a fallback is not pulled
        return "P", why
    return ("M" if not fault(default, ends[1]) else ""), why


def box() -> tuple[Stand, Peer]:
    """Return a box with rows N for code, P its fallback, M the default."""
    stand = Stand(rows=[row("M"), row("N"), row("P")], budget_s=BUDGET_S)
    stand.worker()
    stand.scorer()
    return stand, stand.store()


def put(stand: Stand, store: Peer, model: str, state: str | None) -> None:
    """Bring a row into a state."""
    if state == "resting":
        run = one(stand.ask(f"break {model}", model), fx.Dispatch)
        again = one(stand.fail(run, 503, "model_not_usable", "load_failed"), fx.Dispatch)
        stand.fail(again, 503, "model_not_usable", "load_failed")
    elif state is not None:
        stand.stocked(store, **{model: state})


def ask(stand: Stand, kind: str) -> list[fx.Effect]:
    """Ask for N: by its name, for a decision that says so, or in a conversation bound to it."""
    if kind == "explicit":
        return stand.ask("r", "N")
    if kind == "bound":
        return stand.ask("r", "auto", conversation="k", starts=False)
    return stand.decided(stand.question("r"), "N")


def answered(kind: str, states: tuple[str | None, ...], ends: tuple[str, str]) -> tuple[str, str]:
    """Return who answers and why, as the core does it, and check what its client was told."""
    stand, store = box()
    if kind == "bound":
        decided = stand.decided(stand.question("first", conversation="k"), "N")
        stand.finish(one(decided, fx.Dispatch))
    for model, state in zip(("N", "P", "M"), states, strict=True):
        put(stand, store, model, state)
    end_of = dict(zip(("N", "M"), ends, strict=True))
    effects = ask(stand, kind)
    said: set[str] = set()
    while fetches := [f.model for f in of(effects, fx.Fetch) if f.model not in said]:
        said.add(fetches[0])
        cause = SAID.get(end_of[fetches[0]])
        if cause is not None:
            effects += stand.pulled(store, fetches[0], cause, "the cause")
    alive = [Peer(route, epoch) for route, epoch in stand.epochs.items()]
    effects += stand.wait(BUDGET_S + 1.0, *alive)
    mine = [e for e in effects if getattr(e, "rid", "") == "r"]
    runs = of(effects, fx.Dispatch)
    refused = of(mine, fx.Refuse)
    assert len(runs) + len(refused) == 1, (kind, states, ends)
    if refused:
        assert (refused[0].status, refused[0].code) == (503, "model_not_usable")
        assert "fairlane" in refused[0].message
    if kind == "explicit":
        assert not of(mine, fx.Place)
        return (runs[0].model if runs else ""), str(refused[0].facts["cause"]) if refused else ""
    placed = of(mine, fx.Place)[-1]
    assert not runs or placed.model == runs[0].model
    assert (placed.wanted == "laya-code") == (placed.model != "N") == (placed.rule == "default")
    return (runs[0].model if runs else ""), placed.why or placed.degraded


@pytest.mark.parametrize("kind", ["explicit", "routed", "bound"])
@pytest.mark.parametrize("wanted", STATES)
def test_who_answers_is_who_the_contract_says(kind: str, wanted: str | None) -> None:
    others = [("ready", "ready")] if kind == "explicit" else list(product(STATES, STATES))
    for (fallback, default), ends in product(others, product(ENDS, ENDS)):
        states = wanted, fallback, default
        model, why = expected(kind == "explicit", states, ends)
        got, reason = answered(kind, states, ends)
        assert got == model, (kind, states, ends)
        if model or kind == "explicit":
            assert reason == why, (kind, states, ends)
