"""Reference data that lies beside the repository and is not part of it."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3] / "shared"


def folder(name: str) -> Path:
    """Return a folder of the reference data; skip the test, saying so, where it is absent."""
    path = ROOT / name
    if not path.is_dir():
        pytest.skip(f"reference data not found at ../shared/{name}")
    return path


def json_lines(path: Path) -> list[dict[str, object]]:
    """Return the objects of a JSON Lines file; other line breaks occur inside the strings."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


def labelled_cases() -> list[dict[str, str]]:
    """Return the labelled requests: `class` and `text` of each; 25 of each of the four classes."""
    path = folder("data/laya") / "route_cases.json"
    cases: list[dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return cases
