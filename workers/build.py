"""Whether the installed llama.cpp build can run on this machine: checked before it runs anything.

Two builds crash instead of failing. One made for another processor dies of an illegal instruction; one
made natively on a machine with AMX dies in the first batch of more than one token of a quantised model
(ggml-org/llama.cpp #20824). Both are told here, with the remedy, from the build's own feature list.
"""

import platform
from pathlib import Path

REMEDY = "Run `make setup`: it builds llama-cpp-python portable, and never from a cached wheel."

# Feature as the build names it -> flag as Linux names it in /proc/cpuinfo.
_FLAG_OF = {
    "SSE3": "pni",
    "SSSE3": "ssse3",
    "AVX": "avx",
    "AVX2": "avx2",
    "F16C": "f16c",
    "FMA": "fma",
    "BMI2": "bmi2",
    "AVX512": "avx512f",
    "AVX512_VBMI": "avx512vbmi",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AVX_VNNI": "avx_vnni",
}
_CRASHES = "AMX_INT8"


class UnusableBuild(Exception):
    """The installed llama.cpp build would crash here; the message says why and what to do."""


def features_of(system_info: str) -> set[str]:
    """Return the features a build has, from the text of `llama_print_system_info`."""
    pairs = (part.rsplit(":", 1)[-1].split("=") for part in system_info.split("|"))
    return {pair[0].strip() for pair in pairs if len(pair) == 2 and pair[1].strip() == "1"}


def check(system_info: str, cpu_flags: set[str]) -> None:
    """Refuse a build that would crash.

    Args:
        system_info: Text of `llama_print_system_info`.
        cpu_flags: The processor's flags as in /proc/cpuinfo; empty where they are not known.

    Raises:
        UnusableBuild: It would crash.
    """
    features = features_of(system_info)
    if _CRASHES in features:
        raise UnusableBuild(
            f"llama-cpp-python was built natively, with {_CRASHES}: that build crashes in "
            f"batches of a quantised model. {REMEDY}"
        )
    lacking = {f for f in features & _FLAG_OF.keys() if _FLAG_OF[f] not in cpu_flags}
    if cpu_flags and lacking:
        names = ", ".join(sorted(lacking))
        raise UnusableBuild(
            f"llama-cpp-python was built for a processor with {names}, which this one lacks. {REMEDY}"
        )


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Return this processor's flags; empty where the system does not tell."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return set()
    try:
        text = cpuinfo.read_text(encoding="ascii", errors="replace")
    except OSError:
        return set()
    for line in text.splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()
