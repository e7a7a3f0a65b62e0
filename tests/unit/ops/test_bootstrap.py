"""Setting up: what decides which compiled wheel is used, and what may stand in a lock file."""

import re
from pathlib import Path

import pytest

from ops.setup import bootstrap

LOCKS = sorted(bootstrap.LOCK.glob("*.txt"))
HASH = r" +--hash=sha256:[0-9a-f]{64}( \\)?"
ENTRY = rf"[A-Za-z0-9._-]+==\S+( \\|{HASH})?"
PORTABLE = (
    "-DGGML_NATIVE=OFF",
    "-DGGML_AVX2=ON",
    "-DGGML_FMA=ON",
    "-DGGML_F16C=ON",
    "-DGGML_BMI2=ON",
)


def test_an_x86_machine_gets_the_portable_flags() -> None:
    assert bootstrap.cmake_flags("x86_64") == PORTABLE


@pytest.mark.parametrize("machine", ["x86_64", "AMD64", "aarch64", "arm64", "riscv64"])
def test_no_machine_gets_a_native_build(machine: str) -> None:
    assert bootstrap.cmake_flags(machine)[0] == "-DGGML_NATIVE=OFF"


@pytest.mark.parametrize(
    "changed",
    [
        ("llama-cpp-python==0.3.37", PORTABLE, "g++ 12"),
        ("llama-cpp-python==0.3.36", ("-DGGML_NATIVE=ON",), "g++ 12"),
        ("llama-cpp-python==0.3.36", PORTABLE, "g++ 13"),
    ],
)
def test_another_version_flag_or_compiler_is_another_wheel(
    changed: tuple[str, tuple[str, ...], str],
) -> None:
    kept = bootstrap.cache_key("llama-cpp-python==0.3.36", PORTABLE, "g++ 12")
    assert bootstrap.cache_key(*changed) != kept


def test_the_build_never_reads_the_cache_that_does_not_know_the_flags(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[tuple[tuple[str, ...], dict[str, str]]] = []

    def pip(*arguments: str, environ: dict[str, str] | None = None, progress: bool = False) -> None:
        said.append((arguments, environ or {}))
        out = tmp_path / "wheel.tmp"
        out.mkdir()
        (out / "x.whl").write_bytes(b"wheel")

    monkeypatch.setattr(bootstrap, "_pip", pip)
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    kept = bootstrap._build("llama-cpp-python==1", PORTABLE, tmp_path / "kept")
    (arguments, environ), *_ = said
    assert "--no-cache-dir" in arguments
    assert "--require-hashes" in arguments
    assert environ["CMAKE_ARGS"] == " ".join(PORTABLE)
    assert kept.read_bytes() == b"wheel"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_file_holds_names_versions_and_hashes_only(lock: Path) -> None:
    for line in lock.read_text().splitlines():
        assert re.fullmatch(r"#.*|", line) or re.fullmatch(ENTRY, line) or re.fullmatch(HASH, line)


def test_the_lock_holds_every_run_time_package() -> None:
    project = (bootstrap.ROOT / "pyproject.toml").read_text()
    wanted = re.findall(r'^  "([a-z0-9-]+)>=', project, re.MULTILINE)
    assert len(wanted) > 10
    assert set(wanted) <= set(bootstrap.read_lock(bootstrap.LOCK / "runtime.txt"))


def test_a_step_of_ninja_is_shown_and_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["  [1/4] cc a", "noise", "  [4/4] cc d"]
    assert list(bootstrap._progress(lines)) == lines
    assert "4/4 files" in capsys.readouterr().out
