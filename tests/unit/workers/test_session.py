"""A worker's side of the protocol."""

import pytest

from scheduler.wire import messages as wire
from scheduler.wire.codec import BODY_MAX, HEADER_MAX, decode, encode
from workers.helper import Judgement, Service, Shelved
from workers.job import End, Error, Job, Outcome, Piece, Stage
from workers.session import (
    JOIN_RETRY_S,
    VOID_S,
    Changed,
    Dismissed,
    Halt,
    Joined,
    Judge,
    Session,
    Start,
)

READY = wire.Ready("hrx", "hrx", "hrx0", 1, 1.0, "nonce", 1, "test")
RUN = wire.Run(7, 70, "chat", "M", True, "k")


def joined(at: float = 0.0) -> Session:
    session = Session(READY)
    session.tick(at, [])
    session.take(wire.Welcome(5, 1.0, 1), b"table", at)
    return session


def running() -> Session:
    session = joined()
    session.take(RUN, b"body", 0.0)
    return session


def test_it_says_ready_at_once_and_again_until_it_is_welcome() -> None:
    session = Session(READY)
    assert session.tick(0.0, []) == READY
    assert session.tick(JOIN_RETRY_S - 0.01, []) is None
    assert session.tick(JOIN_RETRY_S, []) == READY
    assert session.next_deadline() == 2 * JOIN_RETRY_S
    assert not session.joined


def test_it_is_joined_by_a_welcome_and_gets_the_catalogue() -> None:
    session = Session(READY)
    assert session.take(wire.Welcome(5, 1.0, 1), b"table", 0.0) == Joined(5, b"table")
    assert session.joined


def test_a_second_welcome_of_the_same_life_is_only_its_catalogue() -> None:
    session = joined()  # it had offered itself twice before the broker listened
    assert session.take(wire.Welcome(5, 1.0, 1), b"newer", 0.5) == Changed(b"newer")
    assert session.take(wire.Welcome(6, 1.0, 1), b"table", 1.0) == Joined(6, b"table")


def test_it_beats_at_the_pace_the_broker_sets() -> None:
    session = Session(READY)
    session.take(wire.Welcome(5, 0.5, 1), b"", 10.0)
    assert session.tick(10.0, []) == wire.Beat(5)  # what is loaded is said at once
    assert session.tick(10.4, []) is None
    assert session.next_deadline() == 10.5
    assert session.tick(10.5, ["M"]) == wire.Beat(5, ["M"])
    assert session.next_deadline() == 11.0


def test_a_beat_names_what_computes_now_where_that_is_told() -> None:
    session = joined()
    assert session.tick(1.0, [], "builtin") == wire.Beat(5, [], "builtin")
    assert session.tick(2.0, []) == wire.Beat(5, [])


def test_a_grant_is_a_job() -> None:
    order = joined().take(RUN, b"body", 0.0)
    assert order == Start(Job(70, "chat", "M", True, "k", b"body"))


def test_a_question_is_passed_on() -> None:
    order = joined().take(wire.Decide(7, 9.0, "register", "name", "lane"), b"body", 0.0)
    assert order == Judge(7, 9.0, "register", "name", "lane", b"body")


def test_a_new_catalogue_is_passed_on() -> None:
    assert joined().take(wire.Catalogue(2), b"catalogue", 0.0) == Changed(b"catalogue")


def test_what_is_not_for_a_worker_orders_nothing() -> None:
    assert joined().take(wire.Ack("r"), b"", 0.0) is None


def test_a_stop_of_the_lease_in_hand_halts_it() -> None:
    assert running().take(wire.Stop(7, 70), b"", 0.0) == Halt(70)


@pytest.mark.parametrize("stop", [wire.Stop(7, 69), wire.Stop(8, 70)])
def test_a_stop_of_another_lease_halts_nothing(stop: wire.Stop) -> None:
    assert running().take(stop, b"", 0.0) is None


@pytest.mark.parametrize(
    ("outcome", "message", "body"),
    [
        (Stage(70, "load"), wire.Staged(5, 7, 70, "load"), b""),
        (Stage(70, "prefill"), wire.Staged(5, 7, 70, "prefill"), b""),
        (Piece(70, b"p", 0.5), wire.Chunk(5, 7, 70, 1, 0.5), b"p"),
        (
            End(70, b"reply", cancelled=True, prompt_tokens=1, cached_tokens=2, output_tokens=3,
                load_s=0.5, ttft_s=0.25),
            wire.Done(5, 7, 70, True, 1, 2, 3, 0.5, 0.25),
            b"reply",
        ),
        (Error(70, 400, "c", "m", {"n": 1}), wire.Failed(5, 7, 70, 400, "c", "m", {"n": 1}), b""),
    ],
)  # fmt: skip
def test_an_outcome_is_told_under_epoch_and_lease(
    outcome: Outcome, message: wire.Message, body: bytes
) -> None:
    assert running().stamp(outcome) == (message, body)


def test_pieces_are_numbered_from_one() -> None:
    session = running()
    stamped = [session.stamp(Piece(70, b"")) for _ in range(3)]
    seqs = [s[0].seq for s in stamped if s is not None and isinstance(s[0], wire.Chunk)]
    assert seqs == [1, 2, 3]


@pytest.mark.parametrize("last", [End(70), Error(70, 500, "c", "m")])
def test_after_its_end_nothing_more_of_a_job_is_told(last: Outcome) -> None:
    session = running()
    assert session.stamp(last) is not None
    assert session.stamp(last) is None
    assert session.stamp(Piece(70, b"")) is None


def test_an_outcome_is_never_told_under_a_later_lease_of_its_ticket() -> None:
    session = running()
    session.take(wire.Run(7, 71, "chat", "M", True, "k"), b"", 0.0)
    assert session.stamp(Piece(70, b"")) == (wire.Chunk(5, 7, 70, 1), b"")
    assert session.stamp(Piece(71, b"")) == (wire.Chunk(5, 7, 71, 1), b"")


def test_an_answer_from_before_a_dismissal_is_not_given_to_the_ticket_of_that_number_after() -> (
    None
):
    session = running()
    session.take(wire.Dismiss("restarted"), b"", 0.0)
    session.take(wire.Welcome(200, 1.0, 2), b"", 0.0)
    session.take(wire.Run(7, 201, "chat", "M", True, "k"), b"", 0.0)
    assert session.stamp(End(70, b"OLD ANSWER")) is None


def test_an_unknown_jobs_outcome_is_not_told() -> None:
    assert joined().stamp(End(9)) is None


def test_a_dismissal_voids_all_work_and_ready_follows_when_it_has_ended() -> None:
    session = running()
    assert session.take(wire.Dismiss("why"), b"", 3.0) == Dismissed("why")
    assert session.tick(3.0, []) is None  # its engine still computes: nobody else may
    assert session.stamp(Piece(70, b"late")) is None
    assert session.tick(4.0, []) is None
    assert session.stamp(End(70)) is None
    assert session.tick(4.0, []) == READY


def test_a_dismissed_worker_without_work_offers_itself_at_once() -> None:
    session = joined()
    session.take(wire.Dismiss("why"), b"", 3.0)
    assert session.tick(3.0, []) == READY


def test_void_work_that_never_ends_is_known_from_its_first_dismissal() -> None:
    session = running()
    session.take(wire.Dismiss("restarted"), b"", 3.0)
    session.take(wire.Dismiss("again"), b"", 6.0)
    assert not session.is_stuck(3.0 + VOID_S)
    assert session.is_stuck(3.1 + VOID_S)


def test_a_dismissal_that_answers_a_ready_waits_its_turn() -> None:
    session = Session(READY)
    session.tick(0.0, [])
    session.take(wire.Dismiss("twin"), b"", 0.1)
    assert session.tick(0.1 + JOIN_RETRY_S - 0.01, []) is None
    assert session.tick(0.1 + JOIN_RETRY_S, []) == READY


def test_a_long_error_is_cut_to_what_the_wire_takes() -> None:
    stamped = running().stamp(Error(70, 500, "c", "m" * 9000))
    assert stamped is not None
    assert isinstance(stamped[0], wire.Failed)
    assert len(stamped[0].message) == 4096


def test_helpers_replies_are_told_under_the_epoch() -> None:
    session = joined()
    judgement = Judgement(7, "rule", "M", "code", 0.5, False, b"decision")
    decision = wire.Decision(5, 7, "rule", "M", "code", 0.5, False)
    assert session.said(judgement) == [(decision, b"decision")]
    assert session.said(Service(7, 422, b"body")) == [(wire.Served(5, 7, 422), b"body")]
    assert session.said(Shelved(b"shelf")) == [(wire.Shelf(5), b"shelf")]


def test_whom_the_broker_does_not_know_says_nothing() -> None:
    session = Session(READY)
    assert session.said(Service(7, 200, b"")) == []
    assert session.bye() is None


def test_who_leaves_says_bye() -> None:
    assert joined().bye() == wire.Bye(5)


@pytest.mark.parametrize("sign", ["x", "\N{GRINNING FACE}", "\ud800"])
def test_an_engines_own_words_never_make_an_error_unreadable(sign: str) -> None:
    facts = {f"fact_{n}": sign * 5000 for n in range(40)} | {"n_ctx": 10**30}
    error = Error(70, 500, sign * 5000, sign * 9000, dict(reversed(facts.items())))
    stamped = running().stamp(error)
    assert stamped is not None
    raw = encode(stamped[0])
    assert len(raw) <= HEADER_MAX
    told = decode(raw)
    assert isinstance(told, wire.Failed)
    assert (told.lease, told.status) == (70, 500)
    assert told.facts["n_ctx"] is None


def test_a_reply_that_no_message_holds_is_an_error_and_costs_no_connection() -> None:
    session = running()
    stamped = session.stamp(End(70, b"x" * (BODY_MAX + 1)))
    assert stamped is not None
    told, body = stamped
    assert isinstance(told, wire.Failed)
    assert (told.status, told.code, body) == (413, "reply_too_long", b"")
    assert str(BODY_MAX) in told.message
    assert running().stamp(End(70, b"x" * BODY_MAX)) is not None
