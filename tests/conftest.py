"""What every test gets: an environment without this program's variables, and hypothesis profiles.

FAIRLANE_HYPOTHESIS picks the profile: dev (50 examples), ci (200), nightly (1000) or soak (5000). The
examples of ci are the same in each run, so that a change fails by what it changed and never by the draw; the
others draw anew.
"""

import os

# Read when numpy is first imported. With one thread a processor, small products of matrices wait for threads
# that have none, on a machine that other work shares: a hundred times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

_PROFILES = {"dev": 50, "ci": 200, "nightly": 1000, "soak": 5000}

for _name, _examples in _PROFILES.items():
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        derandomize=_name == "ci",
        # the machine is shared: a slow draw says nothing about the code
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("FAIRLANE_HYPOTHESIS", "dev"))


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of whoever runs the tests out of them."""
    for name in list(os.environ):
        if name.startswith("FAIRLANE"):
            monkeypatch.delenv(name)
