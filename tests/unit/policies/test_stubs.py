"""Stubbed models: which calls they answer, fail, or do not know."""

import pytest

from policies.stubs import StubbedServices, StubError


@pytest.mark.parametrize(
    "answers", [{"code": 0.4}, {"*": {"code": 0.4}}, {"hi": {"code": 0.4}, "*": {"prose": 1.0}}]
)
def test_a_class_is_stubbed_for_any_text_or_by_text(answers: object) -> None:
    assert StubbedServices({"classify_laya": answers}).classify_laya("hi") == ("code", 0.4)


@pytest.mark.parametrize("table", [{"chat": {"m": None}}, {"chat": None}])
def test_null_is_a_call_that_fails_and_is_known(table: dict[str, object]) -> None:
    services = StubbedServices(table)
    with pytest.raises(StubError, match="stubbed to fail"):
        services.chat("m", "system", "user")
    assert services.unknown == []


@pytest.mark.parametrize("table", [{}, {"chat": {}}, {"chat": 3}])
def test_a_call_without_an_answer_fails_and_is_remembered(table: dict[str, object]) -> None:
    services = StubbedServices(table)
    with pytest.raises(StubError, match="no stub"):
        services.chat("m", "system", "user")
    assert services.unknown == ["chat m"]
    assert services.calls == [{"chat": "m", "prompt": "system", "input": "user"}]
