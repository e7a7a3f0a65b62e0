"""What a client does with silence, restarts and readers that do not read."""

import pytest

from scheduler.bus import pending as pd
from scheduler.bus.pending import Exchange, Pending
from scheduler.wire import messages as wire


def ask(rid: str = "r") -> wire.Ask:
    return wire.Ask(rid, "chat", "auto", "lane", "k", 1e6)


def opened(pending: Pending, rid: str = "r", at: float = 0.0) -> Exchange:
    return pending.open(ask(rid), b"body", at)


def codes(exchange: Exchange) -> list[str]:
    """Return the codes of the refusals that came."""
    return [m.code for m, _ in exchange.arrived if isinstance(m, wire.Refused)]


def test_what_comes_is_handed_to_its_request_in_order() -> None:
    pending = Pending()
    first, second = opened(pending, "a"), opened(pending, "b")
    pending.take(wire.Partial("a", 1), b"1")
    pending.take(wire.Final("b"), b"2")
    pending.take(wire.Partial("a", 2), b"3")
    assert [body for _, body in first.arrived] == [b"1", b"3"]
    assert [body for _, body in second.arrived] == [b"2"]


def test_an_ack_says_only_that_the_request_was_heard() -> None:
    pending = Pending()
    exchange = opened(pending)
    assert pending.take(wire.Ack("r"), b"") is None
    assert (exchange.heard, exchange.began, len(exchange.arrived)) == (True, False, 0)


@pytest.mark.parametrize(
    "last", [wire.Final("r"), wire.Refused("r", 400, "c", "m"), wire.Reply("r")]
)
def test_the_last_word_closes_a_request(last: wire.Message) -> None:
    pending = Pending()
    exchange = opened(pending)
    assert pending.take(last, b"") is exchange
    assert exchange.done
    assert len(pending) == 0
    assert pending.take(last, b"") is None


@pytest.mark.parametrize(
    "message", [wire.Final("other"), wire.Here(1), wire.Welcome(1, 1.0, 1), ask()]
)
def test_what_nobody_waits_for_is_dropped(message: wire.Message) -> None:
    pending = Pending()
    exchange = opened(pending)
    assert pending.take(message, b"") is None
    assert len(exchange.arrived) == 0


def test_a_reader_is_woken_whenever_something_came() -> None:
    pending = Pending()
    exchange = opened(pending)
    woken: list[int] = []
    exchange.wake = lambda: woken.append(len(exchange.arrived))
    pending.take(wire.Partial("r", 1), b"")
    pending.take(wire.Ack("r"), b"")
    pending.take(wire.Final("r"), b"")
    assert woken == [1, 2]


def test_a_dropped_request_was_still_open_only_once() -> None:
    pending = Pending()
    exchange = opened(pending)
    assert pending.drop(exchange)
    assert not pending.drop(exchange)


def test_the_first_boot_number_sends_nothing_again() -> None:
    pending = Pending()
    opened(pending)
    assert pending.here(7, 1.0) == []
    assert pending.here(7, 2.0) == []


def test_after_a_restart_what_has_not_begun_is_sent_again_under_its_id() -> None:
    pending = Pending()
    pending.here(7, 0.0)
    exchange = opened(pending)
    pending.take(wire.Ack("r"), b"")
    pending.take(wire.Placed("r", "default"), b"")
    assert pending.here(8, 1.0) == [exchange]
    assert (exchange.request.id, exchange.body, exchange.heard) == ("r", b"body", False)
    assert codes(exchange) == []


def test_after_a_restart_what_has_begun_ends_with_an_error() -> None:
    pending = Pending()
    pending.here(7, 0.0)
    exchange = opened(pending)
    pending.take(wire.Partial("r", 1), b"")
    assert pending.here(8, 1.0) == []
    assert codes(exchange) == ["broker_restarted"]
    refused = exchange.arrived[-1][0]
    assert isinstance(refused, wire.Refused)
    assert (refused.status, refused.began, refused.facts) == (503, True, {"retryable": True})
    assert exchange.done


def test_a_request_sent_again_has_its_time_to_be_heard_anew() -> None:
    pending = Pending()
    pending.here(7, 0.0)
    opened(pending, at=0.0)
    pending.here(8, 4.0)
    assert pending.overdue(4.0 + pd.ACK_S) == []
    assert len(pending.overdue(4.1 + pd.ACK_S)) == 1


def test_a_request_nobody_heard_is_given_up() -> None:
    pending = Pending()
    exchange = opened(pending, at=1.0)
    assert pending.overdue(1.0 + pd.ACK_S) == []
    assert pending.overdue(1.1 + pd.ACK_S) == [exchange]
    assert codes(exchange) == ["broker_unreachable"]
    assert pending.overdue(99.0) == []


def test_a_request_that_was_heard_waits_as_long_as_the_broker_lives() -> None:
    pending = Pending()
    exchange = opened(pending)
    pending.take(wire.Ack("r"), b"")
    for second in range(600):
        pending.here(7, float(second))
        assert pending.overdue(float(second)) == []
    assert not exchange.done


def test_a_broker_that_went_silent_ends_all_that_is_open() -> None:
    pending = Pending()
    exchange = opened(pending)
    pending.take(wire.Partial("r", 1), b"")
    pending.here(7, 1.0)
    assert pending.overdue(1.0 + pd.SILENT_S) == []
    assert pending.overdue(1.1 + pd.SILENT_S) == [exchange]
    assert codes(exchange) == ["broker_unreachable"]


def test_an_idle_clients_next_request_is_not_given_up_for_the_silence_before_it() -> None:
    pending = Pending()
    pending.here(7, 0.0)
    opened(pending, at=3600.0)
    assert pending.overdue(3600.0) == []


def test_a_reader_that_does_not_read_is_given_up() -> None:
    pending = Pending()
    exchange = opened(pending)
    for seq in range(pd.BACKLOG + 1):
        pending.take(wire.Partial("r", seq), b"")
    assert pending.overdue(0.0) == [exchange]
    assert codes(exchange) == ["slow_reader"]


def test_a_reader_that_reads_is_not() -> None:
    pending = Pending()
    exchange = opened(pending)
    for seq in range(3 * pd.BACKLOG):
        pending.take(wire.Partial("r", seq), b"")
        exchange.arrived.popleft()
    assert pending.overdue(0.0) == []


def test_a_client_that_closes_ends_what_is_open() -> None:
    pending = Pending()
    exchange = opened(pending)
    pending.close()
    assert codes(exchange) == ["client_closed"]
    assert len(pending) == 0
