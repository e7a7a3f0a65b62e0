"""The labelled requests, asked through a real `fairlane route --serve`."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.asking import CRITERIA, QUESTIONS, Daemon
from support.box import Box
from support.shared import labelled_cases


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    home = Box()
    with Daemon(home.environ) as daemon:
        daemon.read()
        yield daemon
    home.close()


def asked(daemon: Daemon, cases: list[dict[str, str]], form: str) -> list[dict[str, Any]]:
    """Return the replies to the cases in one of the two forms a request has."""
    if form == "text":
        return list(daemon.ask_all({"id": n, "text": c["text"]} for n, c in enumerate(cases)))
    return list(daemon.ask_all({"state": c["text"], "questions": QUESTIONS} for c in cases))


@pytest.mark.parametrize("form", ["text", "questions"])
def test_builtin_is_right_in_nineteen_of_twenty(daemon: Daemon, form: str) -> None:
    cases = labelled_cases()
    replies = asked(daemon, cases, form)
    wrong = [
        (case["class"], reply["class"], case["text"][:60])
        for case, reply in zip(cases, replies, strict=True)
        if case["class"] != reply["class"]
    ]
    print(f"{len(cases) - len(wrong)} of {len(cases)} right; wrong: {wrong}")
    assert len(wrong) <= 0.05 * len(cases)


@pytest.mark.parametrize("form", ["text", "questions"])
def test_every_document_is_one_for_certain(daemon: Daemon, form: str) -> None:
    cases = [case for case in labelled_cases() if case["class"] == "long_doc"]
    replies = asked(daemon, cases, form)
    assert {(reply["class"], reply["confidence"], reply["why"]) for reply in replies} == {
        ("long_doc", 1.0, "size_gate")
    }
    assert {reply["answers"]["cls"]["choice"] for reply in replies} <= CRITERIA.keys()


def test_class_and_choice_agree_below_the_gate(daemon: Daemon) -> None:
    cases = [case for case in labelled_cases() if case["class"] != "long_doc"]
    for reply in asked(daemon, cases, "questions"):
        assert reply["class"] == reply["answers"]["cls"]["choice"]
