"""The NPU's canary: whether a few tokens came out of it while the GPU was at work.

Rules of this file: pure; the state is a value of plain fields. Whether an NPU may run beside a busy iGPU is
answered differently from box to box, and a wedged one may need its power cut, so it is asked for only where
the operator wants it (`on_demand`), and an answer holds until one of the versions it was given under
changes. One that failed quarantines the NPU as a crash does; when that quarantine lets somebody try, the
canary tries first, so it fails once in ten minutes at most, and half as often each time.
"""

from typing import Literal

import msgspec

Mode = Literal["off", "on_demand"]

TOKENS = 8
_KEPT = 16  # sets of versions whose answer is remembered, the latest last


class Versions(msgspec.Struct, frozen=True, gc=False):
    """What an answer holds for; an empty text stands for what cannot be read, and is a version too."""

    kernel: str
    firmware: str
    driver: str
    engine: str


class Result(msgspec.Struct, frozen=True, gc=False):
    """One canary's answer."""

    versions: Versions
    passed: bool


class Canary(msgspec.Struct):
    """What is known, oldest first and at most one result for each set of versions."""

    results: list[Result] = []

    def passed(self, versions: Versions) -> bool | None:
        """Return what the canary under these versions said; `None`: there was none."""
        return next((one.passed for one in self.results if one.versions == versions), None)

    def record(self, versions: Versions, *, passed: bool) -> None:
        """Keep an answer instead of an earlier one under the same versions."""
        others = [one for one in self.results if one.versions != versions]
        self.results = [*others, Result(versions, passed)][-_KEPT:]

    def is_due(self, mode: Mode, versions: Versions, *, gpu_held: bool, npu_free: bool) -> bool:
        """Return whether one should be sent now: on an idle GPU it would prove nothing.

        Args:
            mode: What the settings say.
            versions: What runs now.
            gpu_held: Whether somebody's ticket holds the GPU.
            npu_free: Whether the NPU has a healthy worker, no work, and no quarantine that bars it.
        """
        return mode == "on_demand" and gpu_held and npu_free and self.passed(versions) is not True
