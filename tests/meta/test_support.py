"""What the tests wait with and measure with: it forgives the machine, and never what is slow or missing."""

import threading
from pathlib import Path

import pytest

from scheduler.errors import BrokerUnreachable
from support.amd_tree import K10, put
from support.fakehub import Asked, FakeHub
from support.ports import free_port
from support.wait import ROUNDS, at_best, until


def test_one_round_within_the_limit_is_enough_and_the_last_one_told() -> None:
    took = iter([9.0, 3.0, 0.5, 9.0])
    assert at_best(lambda: next(took), 1.0, "seconds") == 0.5
    assert next(took) == 9.0  # it was not tried again


def test_what_is_slow_in_every_round_fails_and_all_rounds_are_told() -> None:
    took = iter([1.5, 1.25, 1.125, 1.0])
    with pytest.raises(AssertionError, match=r"seconds: \[1.5, 1.25, 1.125, 1.0\], of at most 1"):
        at_best(lambda: next(took), 1.0, "seconds")
    assert ROUNDS == 4


def test_what_fails_in_a_round_is_no_matter_of_time() -> None:
    def broken() -> float:
        raise ValueError("it broke")

    with pytest.raises(ValueError, match="it broke"):
        at_best(broken, 1.0, "seconds")


def test_what_never_comes_fails_and_says_what_was_seen_last() -> None:
    with pytest.raises(AssertionError, match=r"a thing: not within 0\.05 s; last seen 0"):
        until(lambda: 0, "a thing", within_s=0.05)


def test_a_broker_that_does_not_answer_yet_is_waited_for() -> None:
    said: list[object] = [BrokerUnreachable, BrokerUnreachable, "ready"]

    def asked() -> object:
        one = said.pop(0)
        if one is BrokerUnreachable:
            raise BrokerUnreachable
        return one

    assert until(asked, "a broker") == "ready"


def test_a_port_is_none_of_those_that_the_kernel_hands_out() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(free_port() < lowest for _ in range(20))


def test_a_file_of_a_tree_is_never_seen_empty(tmp_path: Path) -> None:
    put(tmp_path, f"{K10}/temp1_input", 0)
    file, over, seen = tmp_path / K10 / "temp1_input", threading.Event(), set[bytes]()

    def look() -> None:
        while not over.is_set():
            seen.add(file.read_bytes())

    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(300):
        put(tmp_path, f"{K10}/temp1_input", 97_125)
    over.set()
    looking.join()
    assert seen <= {b"0\n", b"97125\n"}


def test_a_hub_counts_what_it_sent_once_nothing_is_under_way() -> None:
    with FakeHub() as hub:
        asked = Asked(0.0, "GET", "/org/repo/resolve/main/file", "", "", "")
        hub.note(asked)
        began = threading.Event()

        def send() -> None:
            with hub.transfer():
                began.set()
                hub.closing.wait(0.2)
                asked.sent = 100  # what went into a socket is written down after it went

        sending = threading.Thread(target=send)
        sending.start()
        began.wait()
        assert hub.sent() == 100
        sending.join()
