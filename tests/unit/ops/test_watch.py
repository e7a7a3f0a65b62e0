"""Which processes are given up: those the broker knew and does not know any more."""

from ops.watch import Watch, registered


def looks(watch: Watch, *known: set[int], pid: int = 7) -> list[list[str]]:
    return [watch.stuck({"scorer": pid}, some) for some in known]


def test_a_process_that_was_known_and_is_not_for_three_looks_is_stuck() -> None:
    assert looks(Watch(3), {7}, set(), set(), set()) == [[], [], [], ["scorer"]]


def test_one_that_is_known_again_in_between_is_not() -> None:
    assert looks(Watch(3), {7}, set(), set(), {7}, set(), set()) == [[]] * 6


def test_one_that_was_never_known_may_take_its_time() -> None:
    assert looks(Watch(3), *[{8}] * 50) == [[]] * 50


def test_the_process_that_took_its_place_begins_anew() -> None:
    watch = Watch(3)
    looks(watch, {7}, set(), set(), set())
    assert looks(watch, *[set[int]()] * 10, pid=8) == [[]] * 10
    assert looks(watch, {8}, set(), set(), set(), pid=8)[-1] == ["scorer"]


def test_a_pid_that_comes_back_is_another_process() -> None:
    watch = Watch(3)
    looks(watch, {7}, set(), set())
    watch.stuck({}, set())
    assert looks(watch, *[set[int]()] * 5) == [[]] * 5


def test_each_process_is_judged_by_itself() -> None:
    watch, running = Watch(1), {"scorer": 1, "store": 2, "hrx": 3}
    watch.stuck(running, {1, 2, 3})
    assert watch.stuck(running, {2}) == ["scorer", "hrx"]


def test_all_workers_of_a_status_are_registered() -> None:
    worker = {"pid": 1, "name": "w"}
    status = {
        "devices": {"hrx0": {"worker": worker}, "npu0": {"worker": None}},
        "scorers": [{"pid": 2}, {"pid": 3}],
        "store": [{"pid": 4}],
    }
    assert registered(status) == {1, 2, 3, 4}
