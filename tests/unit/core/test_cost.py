"""How long a ticket is thought to take."""

import pytest

from scheduler.core import events as ev
from scheduler.core.cost import Costs, Run


def asked(prompt_bytes: int = 0, max_tokens: int | None = None) -> ev.Asked:
    return ev.Asked(
        0.0, b"c", "r", "chat", "M", "l", "k", True, False, False, 1.0, prompt_bytes, max_tokens,
        False, False, False, b"",
    )  # fmt: skip


def done(
    prompt: int = 0,
    output: int = 0,
    *,
    cached: int = 0,
    load_s: float | None = None,
    ttft_s: float | None = None,
) -> ev.Finished:
    return ev.Finished(0.0, b"w", 1, 1, 1, False, load_s, ttft_s, prompt, cached, output, b"")


def learn(costs: Costs, request: ev.Asked, end: ev.Finished, held_s: float, seats: int = 1) -> None:
    guessed_s = estimate(costs, request, seats=seats)
    costs.learn(
        request, None, end, Run(("M", "hrx0", seats), held_s, held_s / seats, guessed_s, guessed_s)
    )


def estimate(
    costs: Costs,
    request: ev.Asked,
    limit: int | None = None,
    *,
    model: str = "M",
    device: str = "hrx0",
    seats: int = 1,
    held: int = 0,
) -> float:
    return costs.guess_s(request, limit, (model, device, seats), held)


def test_a_guess_is_prefill_and_decode_at_their_rates() -> None:
    assert estimate(Costs(), asked(5200, 153)) == pytest.approx(10.0 + 10.0)


def test_a_row_that_must_be_loaded_costs_the_load_too() -> None:
    assert Costs().load_s("M") == 5.0


def test_the_answers_length_is_the_requests_else_the_rows_else_256_tokens() -> None:
    assert estimate(Costs(), asked(0, 153), 306) == pytest.approx(10.0)
    assert estimate(Costs(), asked(), 306) == pytest.approx(20.0)
    assert estimate(Costs(), asked()) == pytest.approx(256 / 15.3)


def test_what_a_slot_holds_of_the_prompt_is_not_computed_again() -> None:
    assert estimate(Costs(), asked(5200, 153), held=650) == pytest.approx(5.0 + 10.0)
    assert estimate(Costs(), asked(5200, 153), held=9999) == pytest.approx(10.0)


def test_an_estimate_is_never_nothing() -> None:
    costs = Costs()
    learn(costs, asked(0, 1), done(), 0.0)
    assert estimate(costs, asked(0, 1)) > 0.0


def test_rates_are_learned_from_what_the_engine_counted() -> None:
    costs = Costs()
    # 1,000 prompt tokens in 2 s after a load of 3 s, then 100 tokens in 4 s
    learn(costs, asked(3000, 101), done(1000, 101, load_s=3.0, ttft_s=5.0), 9.0)
    assert estimate(costs, asked(3000, 101)) == pytest.approx(2.0 + 0.04 * 101)
    assert estimate(costs, asked(6000, 101)) == pytest.approx(4.0 + 0.04 * 101)
    assert costs.load_s("M") == pytest.approx(3.0)
    assert costs.prefill_s("M", "hrx0", 500) == pytest.approx(1.0)


def test_cached_prompt_tokens_teach_nothing_about_prefill() -> None:
    costs = Costs()
    learn(costs, asked(4000, 11), done(1000, 11, cached=900, ttft_s=1.0), 2.0)
    assert costs.prefill_s("M", "hrx0", 100) == pytest.approx(1.0)


def test_a_short_prompt_teaches_nothing_about_how_long_tokens_are() -> None:
    costs = Costs()
    learn(costs, asked(2, 1), done(30, 1, ttft_s=0.1), 0.1)
    assert costs.prompt_tokens(asked(1200), "M") == 300.0


def test_how_much_of_the_longest_answer_is_used_is_learned() -> None:
    costs = Costs()
    learn(costs, asked(0, 400), done(1, 101, ttft_s=0.0), 10.0)
    assert estimate(costs, asked(0, 400)) == pytest.approx(0.1 * 101)


def test_what_came_later_weighs_more_and_old_rates_are_forgotten() -> None:
    costs = Costs()
    learn(costs, asked(4000, 1), done(1000, 1, ttft_s=100.0), 100.0)
    for _ in range(40):
        learn(costs, asked(4000, 1), done(1000, 1, ttft_s=1.0), 1.0)
    assert costs.prefill_s("M", "hrx0", 1000) == pytest.approx(1.0, rel=0.1)


def test_an_engine_that_counts_nothing_is_learned_by_a_ratio() -> None:
    costs = Costs()
    first = estimate(costs, asked(0, 100))
    learn(costs, asked(0, 100), done(), 2.0 * first)
    assert estimate(costs, asked(0, 100)) == pytest.approx(2.0 * first)
    assert estimate(costs, asked(0, 200)) == pytest.approx(4.0 * first)


def test_rows_devices_and_active_seats_are_learned_apart() -> None:
    costs = Costs()
    learn(costs, asked(4000, 1), done(1000, 1, ttft_s=1.0), 1.0)
    learn(costs, asked(4000, 1), done(1000, 1, ttft_s=3.0), 3.0, seats=2)
    assert estimate(costs, asked(4000, 1)) < estimate(costs, asked(4000, 1), seats=2)
    assert costs.prefill_s("N", "hrx0", 130) == pytest.approx(1.0)
    assert costs.prefill_s("M", "npu0", 130) == pytest.approx(1.0)


def test_more_seats_than_were_ever_active_are_guessed_from_the_next_fewer() -> None:
    costs = Costs()
    learn(costs, asked(4000, 1), done(1000, 1, ttft_s=3.0), 3.0, seats=2)
    assert estimate(costs, asked(4000, 1), seats=4) == estimate(costs, asked(4000, 1), seats=2)


def test_estimate_and_truth_are_kept_side_by_side() -> None:
    costs = Costs()
    for truth in (2.0, 4.0):
        costs.learn(asked(0, 1), None, done(), Run(("M", "hrx0", 1), truth, truth, 3.0, 3.0))
    habit = costs.habits["M"]
    assert (habit.tickets, habit.estimated_s, habit.actual_s, habit.error_s) == (2, 6.0, 6.0, 2.0)


def test_status_shows_what_is_learned_and_no_first_guess() -> None:
    costs = Costs()
    assert costs.learned() == []
    learn(costs, asked(4000, 101), done(1000, 101, load_s=2.0, ttft_s=7.0), held_s=17.0)
    learn(costs, asked(4000, 101), done(ttft_s=None), held_s=13.0, seats=2)
    one, two = costs.learned()
    assert (one["row"], one["device"], one["seats"], one["tickets"]) == ("M", "hrx0", 1, 2)
    assert (one["prefill_tok_s"], one["decode_tok_s"], one["load_s"]) == (200.0, 10.0, 2.0)
    assert one["mean_s"] == pytest.approx((17.0 + 6.5) / 2)
    assert one["mean_error_s"] > 0.0
    assert (two["seats"], two["prefill_tok_s"], two["decode_tok_s"]) == (2, None, None)


def test_a_row_that_was_never_loaded_has_no_load_time() -> None:
    costs = Costs()
    learn(costs, asked(4000, 101), done(1000, 101, ttft_s=5.0), held_s=15.0)
    assert [one["load_s"] for one in costs.learned()] == [None]
