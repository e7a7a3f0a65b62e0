"""What a box says at its start of rows that are not on disk. Pure: the models view in, lines out."""

from typing import Any


def is_known(view: dict[str, Any]) -> bool:
    """Return whether the store has said something of every row."""
    return all(row["on_disk"] is not None for row in view["rows"])


def missing_lines(view: dict[str, Any]) -> list[str]:
    """Return what is missing and what the first request for it will do; nothing where all is here.

    Args:
        view: As `Client.models` returns it.
    """
    rows = {row["id"]: row for row in view["rows"]}
    absent = [name for name, row in rows.items() if row["on_disk"] in {"missing", "failed"}]
    lines = [
        f"not on disk: {name}{_for(name, view)}{_because(rows[name])}" for name in absent
    ]  # fmt: skip
    lines += [
        f"not used: {name}{_for(name, view)}, its chat template is not the one the table names"
        for name, row in rows.items()
        if row["on_disk"] == "mismatch"
    ]
    if absent:
        default = view["default_model"]
        stand_in = "which is missing too" if default in absent else "which is here"
        lines.append(
            f"the first request for such a row pulls it and waits up to {view['pull_budget_s']:.0f} s; "
            f"after that {default} answers, {stand_in}. "
            "`fairlane pull --seed` fetches all rows now, that one first"
        )
    return lines


def _for(model: str, view: dict[str, Any]) -> str:
    classes = [name for name, row in view["classes"].items() if row == model]
    return f" (for {', '.join(classes)})" if classes else ""


def _because(row: dict[str, Any]) -> str:
    return f": {row['disk_reason']}" if row["on_disk"] == "failed" and row["disk_reason"] else ""
