"""amdsmi as a second source: whatever it does, the files' readings are as they were."""

import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.wire.words import Reading
from support.amd_tree import CARD, GPU, SLOT, plant
from support.wait import until
from workers.sensors.collector import Collector
from workers.sensors.smi import Smi


class Library:
    """A module as amdsmi is one, of one card; counts what is called in which thread."""

    AmdSmiInitFlags = SimpleNamespace(INIT_AMD_GPUS=2)
    AmdSmiTemperatureType = SimpleNamespace(EDGE="edge")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")

    def __init__(self, slot: str = SLOT, **answers: Any) -> None:
        self.slot = slot
        self.answers = {
            "temp": 29, "power": {"socket_power": 14, "current_socket_power": "N/A"},
            "activity": {"gfx_activity": 7},
        } | answers  # fmt: skip
        self.calls: list[str] = []
        self.threads: set[int] = set()

    def _called(self, name: str) -> Any:
        self.calls.append(name)
        if name != "init":  # begun beside, because it may take long
            self.threads.add(threading.get_ident())
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    def amdsmi_init(self, flag: int) -> None:
        assert flag == 2
        self._called("init")

    def amdsmi_shut_down(self) -> None:
        self._called("shut down")

    def amdsmi_get_processor_handles(self) -> list[str]:
        return [self.slot]

    def amdsmi_get_gpu_device_bdf(self, handle: str) -> str:
        return handle.upper()

    def amdsmi_get_temp_metric(self, _handle: str, kind: str, which: str) -> Any:
        assert (kind, which) == ("edge", "current")
        return self._called("temp")

    def amdsmi_get_power_info(self, _handle: str) -> Any:
        return self._called("power")

    def amdsmi_get_gpu_activity(self, _handle: str) -> Any:
        return self._called("activity")


@pytest.fixture
def blind(tmp_path: Path) -> Path:
    """A box whose files tell nothing of what the library also knows."""
    plant(tmp_path, table=b"")
    for name in ("temp1_input", "power1_average", "power1_input"):
        (tmp_path / GPU / name).unlink()
    return tmp_path


def looking(root: Path, importer: Any, call_s: float = 0.5) -> Collector:
    return Collector(root, Smi(importer, call_s=call_s), deadline_s=0.5)


def by_name(collector: Collector, at: float = 100.0) -> dict[str, Reading]:
    return {one.name: one for one in collector.collect(at)}


def told(collector: Collector, at: float = 100.0) -> dict[str, tuple[object, str]]:
    found = by_name(collector, at)
    return {
        n: (found[n].value, found[n].source) for n in ("gpu_edge", "socket_power", "gfx_activity")
    }


UNKNOWN = {
    "gpu_edge": (None, "amdgpu"), "socket_power": (None, "amdgpu"),
    "gfx_activity": (None, "gpu_metrics"),
}  # fmt: skip


def test_it_fills_in_what_the_files_do_not_tell(blind: Path) -> None:
    library = Library()
    collector = looking(blind, lambda: library)
    assert told(collector) == {
        "gpu_edge": (29.0, "amdsmi"), "socket_power": (14.0, "amdsmi"), "gfx_activity": (7.0, "amdsmi"),
    }  # fmt: skip
    collector.close()
    assert library.calls == ["init", "temp", "power", "activity", "shut down"]


def test_it_is_not_even_imported_where_the_files_tell_all(tmp_path: Path) -> None:
    def importer() -> None:
        raise AssertionError

    smi = Smi(importer)
    collector = Collector(plant(tmp_path), smi)
    assert by_name(collector)["gpu_edge"].value == 35.0
    assert smi.failure == ""
    collector.close()


@pytest.mark.parametrize("error", [KeyError("libamd_smi.so"), AttributeError("undefined symbol"),
                                   ImportError("no"), SystemExit(1)])  # fmt: skip
def test_an_import_that_fails_is_remembered_and_its_chatter_silenced(
    error: BaseException, blind: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tries = list[int]()

    def importer() -> None:
        tries.append(1)
        print("Unable to find libamd_smi.so library")
        raise error

    collector = looking(blind, importer)
    for second in range(5):
        assert told(collector, 100.0 + second) == UNKNOWN
        assert by_name(collector, 100.5 + second)["tctl"].value == 39.375
    assert tries == [1]
    assert capfd.readouterr().out == ""
    collector.close()


def test_the_real_module_without_its_library_is_a_source_that_is_not_there(blind: Path) -> None:
    smi = Smi()
    collector = Collector(blind, smi)
    told(collector)
    if until(lambda: smi.failure or smi.is_ready, "the import is over", within_s=30.0) is True:
        pytest.skip("this machine has AMD's library")
    assert told(collector, 101.0) == UNKNOWN
    collector.close()


def test_an_import_that_hangs_leaves_everything_else_as_it_was(blind: Path) -> None:
    gate = threading.Event()
    collector = looking(blind, gate.wait)
    by_name(collector)
    began = time.monotonic()
    found = by_name(collector, 101.0)
    assert found["tctl"].value == 39.375
    assert found["gpu_edge"].reason == "missing"
    assert time.monotonic() - began < 5.0
    gate.set()


def test_a_call_that_sleeps_is_not_waited_for_twice(blind: Path) -> None:
    gate = threading.Event()
    library = Library(temp=gate.wait)
    collector = looking(blind, lambda: library, call_s=0.05)
    for second in range(5):
        assert told(collector, 100.0 + second) == UNKNOWN
        assert by_name(collector, 100.5 + second)["tctl"].value == 39.375
    assert library.calls == ["init", "temp"]  # while it sleeps nobody else enters the library
    gate.set()


@pytest.mark.parametrize(
    "answers",
    [
        {"temp": "N/A", "power": {}, "activity": {"gfx_activity": "N/A"}},
        {"temp": 65535, "power": {"socket_power": 0}, "activity": {"gfx_activity": 9700}},
        {"temp": RuntimeError("43"), "power": None, "activity": KeyError("x")},
        {"temp": True, "power": {"socket_power": float("nan")}, "activity": {"gfx_activity": -1}},
    ],
)
def test_what_it_says_is_judged_like_everything_else(answers: dict[str, Any], blind: Path) -> None:
    library = Library(**answers)
    collector = looking(blind, lambda: library)
    assert told(collector) == UNKNOWN
    collector.close()


def test_another_card_is_another_card(blind: Path) -> None:
    library = Library(slot="0000:03:00.0")
    collector = looking(blind, lambda: library)
    assert told(collector) == UNKNOWN
    collector.close()


def test_one_thread_owns_it(blind: Path) -> None:
    library = Library()
    collector = looking(blind, lambda: library)
    for second in range(5):
        told(collector, 100.0 + second)
    assert library.calls.count("temp") == 5
    assert len(library.threads) == 1
    assert threading.get_ident() not in library.threads
    collector.close()


def test_nothing_is_asked_where_there_is_no_card(blind: Path) -> None:
    (blind / f"{CARD}/vendor").unlink()
    smi = Smi(lambda: pytest.fail("imported"))
    collector = Collector(blind, smi)
    assert by_name(collector)["gpu_edge"].reason == "missing"
    assert "amdsmi" not in {thread.name for thread in threading.enumerate()}
    collector.close()


def test_standard_output_is_itself_again_after_the_import(blind: Path) -> None:
    before = sys.stdout
    collector = looking(blind, Library)
    told(collector)
    assert sys.stdout is before
    collector.close()
