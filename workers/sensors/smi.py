"""amdsmi, the second source: asked only for what the files did not tell.

Rules of this file: one thread owns the library. Its import can print, raise anything and hang; so can each
call. What fails at the start is remembered and not tried again: a library that hung once is left alone.
Whatever it says is judged as everything else is.
"""

import contextlib
import importlib
import io
import threading
from collections.abc import Callable
from typing import Any

from workers.sensors.guard import Guard
from workers.sensors.raw import Hung, Raw, Reason, Unread

CALL_S = 0.5
NAMES = ("gpu_edge", "socket_power", "gfx_activity")
SOURCE = "amdsmi"
Importer = Callable[[], Any]


def _import() -> Any:
    return importlib.import_module("amdsmi")


class Smi:
    """The library, once it is needed."""

    def __init__(self, importer: Importer = _import, *, call_s: float = CALL_S) -> None:
        """Import nothing yet.

        Args:
            importer: Returns the module.
            call_s: Deadline of a call, seconds.
        """
        self._importer = importer
        self._guard = Guard(call_s)
        self._starting: threading.Thread | None = None
        self._module: Any = None
        self.failure = ""  # why it is not used; empty: not tried yet, or it is

    @property
    def is_ready(self) -> bool:
        """Whether it is started and may be asked."""
        return self._module is not None

    def read(self, name: str, slot: str) -> Raw:
        """Return what the library says of a reading.

        Args:
            name: One of NAMES.
            slot: PCI slot of the iGPU, such as 0000:c5:00.0.

        Raises:
            Unread: It is not usable, is of another opinion what there is, or has no value.
            Hung: The call does not come back.
        """
        module = self._ready()
        if module is None:
            raise Unread(Reason.MISSING)
        try:  # one name for all calls: while one is stuck no other thread may enter the library
            return self._guard.call(SOURCE, lambda: _ask(module, name, slot))
        except (Unread, Hung):
            raise
        except Exception as error:  # its exceptions have no common base that is always there
            raise Unread(Reason.UNREADABLE) from error

    def close(self) -> None:
        """Shut the library down, if it was started and answers."""
        module, self._module = self._module, None
        if module is not None:
            with contextlib.suppress(Hung, Exception):
                self._guard.call(SOURCE, module.amdsmi_shut_down)
        self._guard.close()

    def _ready(self) -> Any:
        """Return the module once it is started; begin that at the first call, and wait for nothing."""
        if self._starting is None:
            self._starting = threading.Thread(target=self._start, name=SOURCE, daemon=True)
            self._starting.start()
            self._starting.join(0.2)  # most often it fails at once
        return self._module

    def _start(self) -> None:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                module = self._importer()
                module.amdsmi_init(module.AmdSmiInitFlags.INIT_AMD_GPUS)
        except BaseException as error:  # noqa: BLE001  # a missing library is a KeyError here; SystemExit was seen
            self.failure = f"{type(error).__name__}: {error}"[:200]
        else:
            self._module = module


def _ask(module: Any, name: str, slot: str) -> Raw:
    """Make one reading. In the library's own thread."""
    handle = _handle(module, slot)
    if name == "gpu_edge":
        kinds, which = module.AmdSmiTemperatureType, module.AmdSmiTemperatureMetric
        value = module.amdsmi_get_temp_metric(handle, kinds.EDGE, which.CURRENT)
        return _raw(value, "EDGE")
    if name == "socket_power":
        power = module.amdsmi_get_power_info(handle)
        values = (power.get(key) for key in ("socket_power", "current_socket_power"))
        return _raw(next((v for v in values if _is_number(v)), None), "socket_power")
    return _raw(module.amdsmi_get_gpu_activity(handle).get("gfx_activity"), "gfx_activity")


def _handle(module: Any, slot: str) -> Any:
    for handle in module.amdsmi_get_processor_handles():
        if str(module.amdsmi_get_gpu_device_bdf(handle)).lower() == slot.lower():
            return handle
    raise Unread(Reason.WRONG_CHIP)


def _raw(value: object, label: str) -> Raw:
    """Return a value in its unit; the library says "N/A" where it has none."""
    if not _is_number(value):
        raise Unread(Reason.MISSING)
    return Raw(value, SOURCE, label, scale=1.0)  # type: ignore[arg-type]  # a number, see above


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
