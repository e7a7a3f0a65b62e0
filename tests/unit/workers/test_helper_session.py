"""A helper's side of the protocol: questions in, replies out, catalogues taken."""

import msgspec
import pytest

from scheduler.wire import messages as wire
from scheduler.wire.codec import decode, encode
from workers.helper import Judgement, Reply, Sensed, Service, Shelved
from workers.session import Changed, Dismissed, Joined, Judge, Session

READY = wire.Ready("scorer", "scorer", "", 1, 1.0, "nonce", 1, "test")
JUDGED = Judgement(5, "laya-code", "M", "code", 0.25, scorer_down=True, decision=b"{D}")


def joined(epoch: int = 3) -> Session:
    session = Session(READY)
    session.take(wire.Welcome(epoch, 1.0, 1), b"catalogue", 0.0)
    return session


@pytest.mark.parametrize("op", ["decide", "validate", "register"])
def test_a_question_is_handed_over_as_it_came(op: wire.Judging) -> None:
    asked = wire.Decide(5, 9.5, op, "user.X", "lane")
    assert joined().take(asked, b"body", 1.0) == Judge(5, 9.5, op, "user.X", "lane", b"body")


def test_a_welcome_brings_the_catalogue() -> None:
    order = Session(READY).take(wire.Welcome(3, 1.0, 1), b"catalogue", 0.0)
    assert order == Joined(3, b"catalogue")


def test_a_changed_catalogue_is_handed_over() -> None:
    assert joined().take(wire.Catalogue(2), b"all of it", 1.0) == Changed(b"all of it")


READING = wire.Reading("tctl", 71.0, "C", "k10temp", "Tctl", 0.25, valid=True)
REPLIES: list[tuple[Reply, wire.Message, bytes]] = [
    (JUDGED, wire.Decision(3, 5, "laya-code", "M", "code", 0.25, scorer_down=True), b"{D}"),
    (Service(5, 200, b"reply"), wire.Served(3, 5), b"reply"),
    (Service(5, 400, b"no"), wire.Served(3, 5, 400), b"no"),
    (Shelved(b"shelf"), wire.Shelf(3), b"shelf"),
    (Sensed([READING]), wire.Sense(3, [READING]), b""),
]


@pytest.mark.parametrize(("reply", "message", "body"), REPLIES)
def test_a_reply_is_told_under_the_epoch_in_force(
    reply: Reply, message: wire.Message, body: bytes
) -> None:
    assert joined().said(reply) == (message, body)
    assert decode(encode(message)) == message


@pytest.mark.parametrize("reply", [reply for reply, _, _ in REPLIES])
def test_nothing_is_told_to_a_broker_that_knows_us_not(reply: Reply) -> None:
    assert Session(READY).said(reply) is None
    session = joined()
    assert session.take(wire.Dismiss("unknown"), b"", 1.0) == Dismissed("unknown")
    assert session.said(reply) is None


def test_a_reply_after_a_new_welcome_carries_the_new_epoch() -> None:
    session = joined()
    session.take(wire.Welcome(8, 1.0, 1), b"", 2.0)
    said = session.said(JUDGED)
    assert said is not None
    assert msgspec.structs.asdict(said[0])["epoch"] == 8
