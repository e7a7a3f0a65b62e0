"""The canary's answer holds for the versions it was given under."""

import msgspec
import pytest

from policies.canary import Canary, Mode, Versions

VERSIONS = Versions("6.19.4", "1.0.0.63", "0.7", "flm 1.0.7")


def test_an_answer_is_forgotten_with_any_version_it_was_given_under() -> None:
    canary = Canary()
    assert canary.passed(VERSIONS) is None
    canary.record(VERSIONS, passed=True)
    assert canary.passed(VERSIONS) is True
    for field in VERSIONS.__struct_fields__:
        assert canary.passed(msgspec.structs.replace(VERSIONS, **{field: "new"})) is None


def test_a_later_answer_replaces_an_earlier_one() -> None:
    canary = Canary()
    canary.record(VERSIONS, passed=True)
    canary.record(VERSIONS, passed=False)
    assert canary.passed(VERSIONS) is False
    assert len(canary.results) == 1


@pytest.mark.parametrize("passed", [None, False, True])
@pytest.mark.parametrize("mode", ["off", "on_demand"])
@pytest.mark.parametrize("gpu_held", [False, True])
@pytest.mark.parametrize("npu_free", [False, True])
def test_it_is_sent_until_it_has_passed_and_only_beside_a_held_gpu(
    passed: bool | None, mode: Mode, *, gpu_held: bool, npu_free: bool
) -> None:
    canary = Canary()
    if passed is not None:
        canary.record(VERSIONS, passed=passed)
    wanted = mode == "on_demand" and gpu_held and npu_free and passed is not True
    assert canary.is_due(mode, VERSIONS, gpu_held=gpu_held, npu_free=npu_free) == wanted


def test_what_is_kept_is_bounded_and_can_be_written_down() -> None:
    canary = Canary()
    for n in range(40):
        canary.record(Versions(str(n), "", "", ""), passed=True)
    assert len(canary.results) == 16
    assert canary.results[-1].versions.kernel == "39"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(canary), type=Canary) == canary
