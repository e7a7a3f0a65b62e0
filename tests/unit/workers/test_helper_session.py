"""A helper's side of the protocol: questions in, replies out, catalogues taken."""

import msgspec
import pytest

from scheduler.wire import messages as wire
from scheduler.wire import words
from scheduler.wire.codec import decode, encode
from workers.helper import (
    Judgement,
    Pulled,
    PullMoved,
    Reply,
    Sensed,
    Service,
    Shelved,
    Stocked,
)
from workers.session import Changed, Dismissed, Fetch, Joined, Judge, Session

READY = wire.Ready("scorer", "scorer", "", 1, 1.0, "nonce", 1, "test")
JUDGED = Judgement(5, "laya-code", "M", "code", 0.25, scorer_down=True, decision=b"{D}")


def joined(epoch: int = 3) -> Session:
    session = Session(READY)
    session.take(wire.Welcome(epoch, 1.0, 1), b"catalogue", 0.0)
    return session


@pytest.mark.parametrize("op", ["decide", "validate", "register"])
def test_a_question_is_handed_over_as_it_came(op: words.Judging) -> None:
    asked = wire.Decide(5, 9.5, op, "user.X", "lane")
    assert joined().take(asked, b"body", 1.0) == Judge(5, 9.5, op, "user.X", "lane", b"body")


def test_a_welcome_brings_the_catalogue() -> None:
    order = Session(READY).take(wire.Welcome(3, 1.0, 1), b"catalogue", 0.0)
    assert order == Joined(3, b"catalogue")


def test_a_changed_catalogue_is_handed_over() -> None:
    assert joined().take(wire.Catalogue(2), b"all of it", 1.0) == Changed(b"all of it")


READING = words.Reading("tctl", 71.0, "C", "k10temp", "Tctl", 0.25, valid=True)
REPLIES: list[tuple[Reply, wire.Message, bytes]] = [
    (JUDGED, wire.Decision(3, 5, "laya-code", "M", "code", 0.25, scorer_down=True), b"{D}"),
    (Service(5, 200, b"reply"), wire.Served(3, 5), b"reply"),
    (Service(5, 400, b"no"), wire.Served(3, 5, 400), b"no"),
    (Shelved(b"shelf"), wire.Shelf(3), b"shelf"),
    (PullMoved("M", 5, None), wire.Pulling(3, "M", 5), b""),
    (Pulled("M", "", "", 2.5), wire.Pulled(3, "M", seconds=2.5), b""),
    (Stocked({"M": words.RowStock("ready")}), wire.Stock(3, {"M": words.RowStock("ready")}), b""),
    (Sensed([READING]), wire.Sense(3, [READING]), b""),
]


@pytest.mark.parametrize(("reply", "message", "body"), REPLIES)
def test_a_reply_is_told_under_the_epoch_in_force(
    reply: Reply, message: wire.Message, body: bytes
) -> None:
    assert joined().said(reply) == [(message, body)]
    assert decode(encode(message)) == message


@pytest.mark.parametrize("reply", [reply for reply, _, _ in REPLIES])
def test_nothing_is_told_to_a_broker_that_knows_us_not(reply: Reply) -> None:
    assert Session(READY).said(reply) == []
    session = joined()
    assert session.take(wire.Dismiss("unknown"), b"", 1.0) == Dismissed("unknown")
    assert session.said(reply) == []


def test_a_reply_after_a_new_welcome_carries_the_new_epoch() -> None:
    session = joined()
    session.take(wire.Welcome(8, 1.0, 1), b"", 2.0)
    ((message, _body),) = session.said(JUDGED)
    assert msgspec.structs.asdict(message)["epoch"] == 8


def test_a_long_stock_is_told_in_parts_that_fit_a_header() -> None:
    rows = {f"{n:03}" + "m" * 253: words.RowStock("failed", "r" * 128, 2**62) for n in range(100)}
    told: dict[str, words.RowStock] = {}
    for message, _body in joined().said(Stocked(rows)):
        read = decode(encode(message))
        assert isinstance(read, wire.Stock)
        told |= read.rows
    assert told == rows


def test_an_empty_stock_is_told_as_well() -> None:
    assert joined().said(Stocked({})) == [(wire.Stock(3), b"")]


def test_a_fetch_names_the_row() -> None:
    assert joined().take(wire.Fetch("M"), b"", 1.0) == Fetch("M")
