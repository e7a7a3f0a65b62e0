"""When something that only a total tells of happened last."""

import pytest

from policies.warmup import Growing


@pytest.mark.parametrize(
    ("totals", "grew"),
    [
        ([0.0, 0.0], None),
        ([None, None], None),
        ([0.0, 0.4, 0.8], None),  # less than it takes, each time
        ([0.0, 30.0, 30.0], 1.0),
        ([30.0, 30.0], 0.0),  # at an unknown time: as late as can be
        ([0.0, None, 30.0], 2.0),
        ([5.0, 0.0, 0.0], 0.0),  # its teller began anew
        ([5.0, 0.0, 1.0], 2.0),
        ([1.0, 2.0, 3.0], 2.0),
    ],
)
def test_a_total_tells_when_it_grew(totals: list[float | None], grew: float | None) -> None:
    growing = Growing(0.5)
    for at, total in enumerate(totals):
        growing.feed(float(at), total)
    assert growing.grew_at == grew
    assert growing.since_s(100.0) == (None if grew is None else 100.0 - grew)
