"""Load that holds no ticket: a rule's share of it, the sensors' percent, and what lends it weight."""

import msgspec
import pytest

from policies.row import OnBusy
from policies.why import Why
from scheduler.core import Appliance
from scheduler.core import effects as fx
from scheduler.core.events import Reading
from support.stand import Peer, Stand, catalogue, one

RULE = OnBusy("npu", "P", queue_depth=None, busy_ratio=0.9, allow_interactive=True)
IDLE = (0.0, 25.0)


def placed(seconds: list[tuple[float, float]], *, ages: tuple[float, ...] = ()) -> tuple[str, str]:
    """Return device and why of a conversation that starts after such seconds of percent and watts.

    Args:
        seconds: What the counter and the socket's power say; idle ones come before.
        ages: Of the last ones of them; the others are fresh.
    """
    stand = Stand()
    known = msgspec.structs.replace(catalogue(), on_busy={"code": RULE})
    stand.core = Appliance(known, stand.limits, boot=1, at=stand.now)
    stand.worker()
    stand.scorer()
    sensors = stand.sensors()
    stand.ready(b"npu", "npu", "npu0", pid=9)
    stand.beat(Peer(b"npu", stand.epochs[b"npu"]), P=0)
    old = (0.0,) * (len(seconds) - len(ages)) + ages
    for (busy, watts), age_s in zip([*[IDLE] * 6, *seconds], (0.0,) * 6 + old, strict=True):
        stand.now += 1.0
        stand.sense(
            sensors,
            Reading("gpu_busy", busy, "%", "amdgpu", "", age_s, True, ""),
            Reading("socket_power", watts, "W", "amdgpu", "PPT", 0.0, True, ""),
            uptime=5000.0,
        )
    told = one(stand.decided(stand.question("r", lane="asker")), fx.Place)
    return told.device, told.why


@pytest.mark.parametrize(
    ("busy", "watts", "landed"),
    [
        (90.0, 91.0, ("npu", Why.GPU_BUSY)),
        (100.0, 91.0, ("npu", Why.GPU_BUSY)),
        (89.0, 91.0, ("hrx", "")),
        (2.0, 91.0, ("hrx", "")),  # a ratio of 0.9 is 90 percent, not one
        (100.0, 49.0, ("hrx", "")),  # pinned by who does nothing
    ],
)
def test_the_rules_ratio_is_held_against_the_sensors_percent(
    busy: float, watts: float, landed: tuple[str, str]
) -> None:
    assert placed([(busy, watts)] * 5) == landed


def test_a_figure_that_hangs_is_one_reading_however_often_it_is_said() -> None:
    busy = (100.0, 91.0)
    assert placed([busy] * 4) == ("hrx", "")
    assert placed([busy] * 6, ages=(1.0, 2.0, 3.0)) == ("hrx", "")
