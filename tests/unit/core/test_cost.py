"""How long a ticket is thought to take."""

import pytest

from scheduler.core import events as ev
from scheduler.core.cost import Costs, guess_s


def asked(prompt_bytes: int = 0, max_tokens: int | None = None) -> ev.Asked:
    return ev.Asked(
        0.0, b"c", "r", "chat", "M", "l", "k", True, False, False, 1.0, prompt_bytes, max_tokens,
        False, False, False, b"",
    )  # fmt: skip


def test_a_guess_is_prefill_and_decode_at_their_rates() -> None:
    assert guess_s(asked(5200, 153), None) == pytest.approx(10.0 + 10.0)


def test_the_answers_length_is_the_requests_else_the_rows_else_256_tokens() -> None:
    assert guess_s(asked(0, 153), 306) == pytest.approx(10.0)
    assert guess_s(asked(), 306) == pytest.approx(20.0)
    assert guess_s(asked(), None) == pytest.approx(256 / 15.3)


def test_an_estimate_is_never_nothing() -> None:
    costs = Costs()
    costs.learn(asked(0, 1), "M", None, 0.0)
    assert costs.estimate_s(asked(0, 1), "M", None) > 0.0


def test_the_first_truth_is_believed_and_later_ones_move_it_by_an_eighth() -> None:
    costs = Costs()
    first = guess_s(asked(0, 100), None)
    costs.learn(asked(0, 100), "M", None, 2.0 * first)
    assert costs.estimate_s(asked(0, 100), "M", None) == pytest.approx(2.0 * first)
    costs.learn(asked(0, 100), "M", None, 10.0 * first)
    assert costs.estimate_s(asked(0, 100), "M", None) == pytest.approx(3.0 * first)


def test_rows_are_learned_apart() -> None:
    costs = Costs()
    costs.learn(asked(0, 100), "M", None, 100.0)
    assert costs.estimate_s(asked(0, 100), "N", None) == pytest.approx(guess_s(asked(0, 100), None))
