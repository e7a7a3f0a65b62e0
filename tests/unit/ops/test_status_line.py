"""What `fairlane status` says of the NPU in a line."""

import pytest

from ops.commands.status import _trust


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("row", "a row of the NPU"),
        ("drain", "the drain"),
        ("npu", "nothing to do"),
        ("quarantine", "the quarantine"),
        ("memory", "memory"),
        ("gpu", "holds the GPU"),
        (None, ""),
    ],
)
def test_it_says_what_a_wanted_canary_waits_for(word: str | None, said: str) -> None:
    versions = {"kernel": "6.19.4", "firmware": "", "driver": "", "engine": ""}
    line = _trust({
        "canary": "on_demand", "canary_passed": None, "canary_running": False,
        "canary_waits_for": word, "versions": versions, "quarantined": False,
    })  # fmt: skip
    assert line.startswith("npu: canary not sent yet under kernel 6.19.4, firmware unknown")
    assert ("the canary waits for" in line) == (word is not None)
    assert said in line
