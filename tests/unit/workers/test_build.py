"""Whether the llama.cpp build can run here, told before it crashes."""

from pathlib import Path

import pytest

from workers import build
from workers.build import UnusableBuild

PORTABLE = "CPU : SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | AVX512 = 0 | REPACK = 1 | "
FLAGS = {"pni", "ssse3", "avx", "avx2", "f16c", "fma"}


def test_features_are_read_from_the_builds_own_words() -> None:
    assert build.features_of(PORTABLE) == {"SSE3", "SSSE3", "AVX", "AVX2", "F16C", "FMA", "REPACK"}
    assert build.features_of("") == set()
    assert build.features_of("nonsense | = | x = y = 1 | A = 1") == {"A"}


def test_a_portable_build_is_accepted() -> None:
    build.check(PORTABLE, FLAGS)


def test_a_build_that_crashes_on_amx_is_refused_with_the_remedy() -> None:
    with pytest.raises(UnusableBuild, match=r"AMX_INT8.*make setup"):
        build.check(PORTABLE + "AMX_INT8 = 1 | ", FLAGS)


def test_a_build_for_another_processor_is_refused_naming_what_is_lacking() -> None:
    with pytest.raises(UnusableBuild, match="a processor with AVX2, FMA, which this one lacks"):
        build.check(PORTABLE, FLAGS - {"avx2", "fma"})


def test_where_the_flags_are_not_known_only_the_known_crash_is_refused() -> None:
    build.check(PORTABLE, set())
    with pytest.raises(UnusableBuild):
        build.check("AMX_INT8 = 1", set())


def test_the_flags_of_a_processor_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nflags\t\t: pni avx2 fma\nbugs\t: x\n\nflags\t: other\n")
    assert build.cpu_flags(file) == {"pni", "avx2", "fma"}
    file.write_text("processor\t: 0\n")
    assert build.cpu_flags(file) == set()
    assert build.cpu_flags(tmp_path / "missing") == set()


def test_another_architecture_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert build.cpu_flags() == set()
