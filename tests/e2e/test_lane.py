"""Whose work a request is: key, header, token, address; and what others may see of it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping

import pytest

from support.box import Box
from support.http import CHAT, ROW, call, chat

TOKEN = "sk-secret-token"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()


def lanes(box: Box) -> set[str]:
    return set(box.status()["devices"]["hrx0"]["served_s"])


@pytest.fixture(scope="module")
def lane_box() -> Iterator[Box]:
    """A box that no lane has used before."""
    with Box(workers__engine="null") as box:
        yield box


def new_lanes(box: Box, headers: Mapping[str, str]) -> set[str]:
    """Ask once and return the lanes that were not there before."""
    before = lanes(box)
    assert call(box.url, CHAT, chat(model=ROW), headers).status == 200
    return lanes(box) - before


@pytest.mark.parametrize(
    ("headers", "lane"),
    [
        ({"x-fairlane-lane": "builder"}, "builder"),
        ({"authorization": f"Bearer {TOKEN}"}, f"key-{DIGEST[:8]}"),
        ({"user-agent": "opencode/1.2 (linux)"}, "127.0.0.1/opencode"),
        ({}, "default"),
        ({"x-fairlane-lane": "named", "authorization": "Bearer other"}, "named"),
        ({"x-fairlane-lane": "  spaced  "}, "spaced"),
        ({"x-fairlane-lane": "l" * 500}, "l" * 64),
        ({"x-fairlane-lane": 'quo"te'}, "quote"),
    ],
    ids=str,
)
def test_a_lane_is_named_by_what_the_client_sends(
    lane_box: Box, headers: dict[str, str], lane: str
) -> None:
    assert new_lanes(lane_box, headers) == {lane}


def test_one_token_is_one_lane_however_it_is_sent(null_box: Box) -> None:
    call(null_box.url, CHAT, chat(model=ROW), {"authorization": f"Bearer {TOKEN}"})
    assert new_lanes(null_box, {"x-api-key": TOKEN}) == set()


@pytest.mark.parametrize("scheme", ["bearer", "BEARER"])
def test_the_scheme_is_read_in_any_case(null_box: Box, scheme: str) -> None:
    call(null_box.url, CHAT, chat(model=ROW), {"authorization": f"Bearer {TOKEN}"})
    assert new_lanes(null_box, {"authorization": f"{scheme} {TOKEN}"}) == set()


def test_a_token_is_shown_nowhere(null_box: Box) -> None:
    call(null_box.url, CHAT, chat(model=ROW), {"authorization": f"Bearer {TOKEN}"})
    assert TOKEN not in str(null_box.status())
    assert TOKEN not in null_box.log_file.read_text()


def test_a_prompt_is_in_no_log(null_box: Box) -> None:
    call(null_box.url, CHAT, chat("abracadabra", model=ROW))
    null_box.status()
    assert "abracadabra" not in null_box.log_file.read_text()


def test_a_configured_key_means_its_lane_whatever_the_header_says(
    prepared: Callable[..., Box],
) -> None:
    box = prepared(workers__engine="null")
    file = box.home / "fairlane.toml"
    file.write_text(f'[lanes.paid]\nweight = 2\nkeys = ["{DIGEST}"]\n')
    box.environ["FAIRLANE_CONFIG"] = str(file)
    box.start()
    headers = {"authorization": f"Bearer {TOKEN}", "x-fairlane-lane": "free"}
    assert new_lanes(box, headers) == {"paid"}


def test_names_past_the_64th_share_one_flow(new_box: Callable[..., Box]) -> None:
    box = new_box(workers__engine="null")
    for number in range(70):
        call(box.url, CHAT, chat(model=ROW), {"x-fairlane-lane": f"lane-{number}"})
    assert len(lanes(box)) == 65
    assert "default" in lanes(box)


def test_the_holder_of_a_device_is_named_by_its_lane(box: Box) -> None:
    with box.bus(lane="story") as bus:
        stream = bus.stream([{"role": "user", "content": "Tell me a story"}], max_tokens=200)
        next(stream)
        holders = box.status()["devices"]["hrx0"]["holders"]
        stream.close()
    assert [holder["lane"] for holder in holders] == ["story"]
