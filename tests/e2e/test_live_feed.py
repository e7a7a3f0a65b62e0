"""The live page's files and feed over HTTP: what they are, what they never hold, and how they end."""

import http.client
import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import pytest

from scheduler.gateway.feed import VIEWERS
from support.box import Box
from support.front import Front, holding
from support.http import Stream, call
from support.wait import at_best, until

EVENTS = "/v1/live/events"
SECRET = "hold a secret nobody is to read"
KEY = "sk-1234567890abcdef"
EVIL = "<img src=x onerror=alert(1)>"


class Watch:
    """One who watches. Leaving its `with` block hangs up."""

    def __init__(self, url: str) -> None:
        self._line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        self._line.request("GET", EVENTS)
        self.response = self._line.getresponse()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self._line.close()

    def events(self) -> Iterator[tuple[str, str]]:
        """Yield name and data of the events."""
        name = ""
        for raw in self.response:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, line.removeprefix("data: ")

    def next(self, name: str) -> Any:
        """Return the data of the next event of a name."""
        return next(json.loads(data) for told, data in self.events() if told == name)


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    """A box with one seat."""
    with Front() as front:
        yield front


class Links(HTMLParser):
    """What a page takes from elsewhere, and what it runs or styles by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.taken += [str(given[name]) for name in ("src", "href") if name in given]
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)


def test_the_page_takes_everything_from_this_box_and_runs_nothing_inline(front: Front) -> None:
    reply = call(front.url, "/")
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    links = Links()
    links.feed(reply.raw.decode())
    assert links.inline == []
    files = sorted(set(links.taken))
    assert files == ["page/curves.js", "page/icon.svg", "page/page.css", "page/page.js"]
    for file in files:
        got = call(front.url, f"/{file}")
        assert got.status == 200
        assert got.headers["x-content-type-options"] == "nosniff"
        assert not re.search(rb"(https?:)?//(?!www\.w3\.org/2000/svg)[a-z]", got.raw), file


def test_the_policy_lets_the_browser_run_and_load_nothing_else(front: Front) -> None:
    rules = dict(
        rule.strip().split(" ", 1)
        for rule in call(front.url, "/").headers["content-security-policy"].split(";")
    )
    assert rules["default-src"] == "'none'"
    assert {rules[kind] for kind in ("script-src", "style-src", "img-src", "connect-src")} == {
        "'self'"
    }
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"


def test_names_are_written_as_text_only(front: Front) -> None:
    for file in ("page.js", "curves.js"):
        code = call(front.url, f"/page/{file}").raw.decode()
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
        ):
            assert way not in code


def test_a_file_that_did_not_change_is_not_sent_again(front: Front) -> None:
    tag = call(front.url, "/page/page.js").headers["etag"]
    again = call(front.url, "/page/page.js", headers={"if-none-match": tag})
    assert (again.status, again.raw) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/page/nothing.js", "/page/..%2fapp.py", "/page/%2e%2e/app.py", "/page/"]
)
def test_there_are_no_other_files(front: Front, path: str) -> None:
    assert call(front.url, path).status == 404


@pytest.mark.parametrize("path", ["/", "/page/page.js", EVENTS])
@pytest.mark.parametrize("header", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
def test_a_foreign_host_or_page_sees_none_of_it(
    front: Front, path: str, header: dict[str, str]
) -> None:
    assert call(front.url, path, headers=header).status == 403


def test_the_feed_tells_who_holds_and_who_waits_and_nothing_of_what_they_asked(
    front: Front,
) -> None:
    headers = {"x-fairlane-lane": EVIL, "authorization": f"Bearer {KEY}"}
    with ExitStack() as stack:
        body = holding(300.0) | {"prompt": SECRET}
        stack.enter_context(front.ask("one", body)).first()
        stack.enter_context(Stream(front.url, "/v1/completions", body, headers))
        until(lambda: front.waiting() == 1, "a request that waits")
        watch = stack.enter_context(Watch(front.url))
        assert watch.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        told: list[tuple[str, str]] = []
        for event in watch.events():
            told.append(event)
            if event[0] == "snapshot":
                break
    seen = json.loads(told[-1][1])
    hrx = seen["devices"]["hrx0"]
    assert [one["lane"] for one in hrx["holders"]] == ["one"]
    assert [(one["lane"], one["position"]) for one in hrx["waiting"]] == [(EVIL, 1)]
    text = "".join(data for _, data in told)
    for word in (SECRET, KEY, str(front.home)):
        assert word not in text
    assert told[0][0] == "curves"
    until(lambda: not front.status()["devices"]["hrx0"]["holders"], "an empty box")


def test_snapshots_come_once_a_second_to_everybody(front: Front) -> None:
    with Watch(front.url) as one, Watch(front.url) as other:
        instants = [one.next("snapshot")["at"] for _ in range(4)]
        assert set(instants) & {other.next("snapshot")["at"] for _ in range(4)}
    assert (instants[-1] - instants[0]) / 3 > 0.7  # a late one is sooner followed by the next


def test_viewers_are_bounded_and_whoever_leaves_makes_room_at_once(front: Front) -> None:
    with ExitStack() as stack:
        watching = [stack.enter_context(Watch(front.url)) for _ in range(VIEWERS)]
        assert {watch.response.status for watch in watching} == {200}
        refused = call(front.url, EVENTS)
        assert (refused.status, refused.error["code"]) == (503, "too_many_viewers")
        assert refused.headers["retry-after"] == "10"
        assert str(VIEWERS) in refused.error["message"]

    def room() -> bool:
        with Watch(front.url) as watch:
            return watch.response.status == 200

    until(room, "room again")


def test_a_broker_that_dies_is_said_to_be_gone_and_the_feed_goes_on_by_itself(
    new_box: Callable[..., Box],
) -> None:
    box = new_box(workers__engine="null", sensors__enabled="false")
    with Watch(box.url) as watch:
        first = watch.next("snapshot")
        broker = box.kill("broker", signal.SIGSTOP)
        assert watch.next("lost")["for_s"] >= 0.0
        assert watch.next("lost")["for_s"] > 0.0
        box.kill("broker")
        box.wait_for_new("broker", broker)
        again = watch.next("snapshot")
    assert again["boot"] == first["boot"] + 1


def test_a_gateway_that_stops_sends_its_viewers_away_and_need_not_cut_them_off(
    new_box: Callable[..., Box],
) -> None:
    def stopped_s() -> float:
        box = new_box(workers__engine="null", sensors__enabled="false")
        with Watch(box.url) as watch:
            watch.next("snapshot")
            status, took_s = box.stop()
            assert status == 0
            assert "lost" not in {name for name, _ in watch.events()}  # it ended well, and it ended
        assert [record for record in box.log() if record["level"] == "error"] == []
        return took_s

    at_best(stopped_s, 5.0, "seconds until a box that is watched has stopped")
