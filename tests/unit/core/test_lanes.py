"""Which names of lanes have a flow of their own."""

from policies.shape import is_object
from support.stand import Stand


def test_who_names_no_lane_is_of_the_default_one() -> None:
    stand = Stand()
    stand.worker()
    stand.ask(lane="")
    assert stand.core.explain("r", stand.now)["lane"] == "default"


def test_a_refused_request_takes_no_name_of_a_lane() -> None:
    stand = Stand()
    for number in range(100):
        stand.ask(f"r{number}", "nope", lane=f"stranger-{number}")
    stand.worker()
    stand.ask("honest", lane="honest")
    devices = stand.core.snapshot(stand.now)["devices"]
    assert is_object(devices)
    served = [d["served_s"] for d in devices.values() if is_object(d) and d["served_s"]]
    assert served == [{"honest": served[0]["honest"]}] if is_object(served[0]) else False
