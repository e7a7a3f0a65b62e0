"""What a box says at its start of rows that are not on disk."""

from typing import Any

from ops.cold import is_known, missing_lines


def view(**states: str | None) -> dict[str, Any]:
    """Return a models view of rows in these states; `small` is the default, and prose's row."""
    rows = [
        {"id": model, "on_disk": state, "disk_reason": "HTTP 404" if state == "failed" else ""}
        for model, state in states.items()
    ]
    return {
        "rows": rows, "classes": {"prose": "small", "code": "big"}, "default_model": "small",
        "pull_budget_s": 600.0,
    }  # fmt: skip


def test_where_all_is_here_nothing_is_said() -> None:
    assert missing_lines(view(small="ready", big="ready")) == []


def test_what_is_missing_is_named_with_its_class_and_what_will_happen() -> None:
    lines = missing_lines(view(small="ready", big="missing"))
    assert lines[0] == "not on disk: big (for code)"
    assert "waits up to 600 s" in lines[1]
    assert "after that small answers, which is here" in lines[1]
    assert "`fairlane pull --seed`" in lines[1]


def test_a_default_that_is_missing_too_is_said_to_be() -> None:
    lines = missing_lines(view(small="missing", big="failed"))
    assert lines[1] == "not on disk: big (for code): HTTP 404"
    assert "small answers, which is missing too" in lines[2]


def test_a_row_with_another_template_is_named_apart() -> None:
    lines = missing_lines(view(small="ready", big="mismatch"))
    assert len(lines) == 1
    assert lines[0].startswith("not used: big (for code), its chat template")


def test_nothing_is_known_before_the_store_has_looked_at_every_row() -> None:
    assert not is_known(view(small="ready", big=None))
    assert is_known(view(small="ready", big="missing"))
