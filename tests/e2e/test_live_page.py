"""The live page in a real browser, beside a box under contention: it is seen to change as the box does."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.amd_tree import CARD, GPU, K10, plant, put
from support.box import Box
from support.busy import DOCUMENT, write_table
from support.contrast import contrasts
from support.http import ROW, call, chat
from support.ports import free_port
from support.wait import until
from support.webdriver import Browser

EVIL = "<b onmouseover=alert(1)>evil</b>"
LANES = ("reviewer", "night-batch", "opencode", EVIL)
HOLD_S = 3.0  # the longest that the null engine holds its seat
PHONE, NARROW, DESKTOP = (390, 844), (360, 740), (1440, 900)
WIDTHS = [PHONE, NARROW, (320, 568), (768, 1024), DESKTOP]
HOLDER = "#first .holder .who"
SINCE = "#first .holder .since"
QUEUE = "#first .queue li"
WAITING = f"{QUEUE} bdi"
HEAT = "#curves figure:first-child .curve"
SECRET = "Write a regex for a secret nobody is to read."


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sensors of a box that works."""
    return plant(tmp_path_factory.mktemp("tree"), "decode")


@pytest.fixture(scope="module")
def box(tree: Path) -> Iterator[Box]:
    """A box with one seat a device, a rule for documents and a line of heat."""
    table = write_table(tree, queue_depth=1)
    settings = {"null_seats": 1, "null_hold_s": HOLD_S, "engine": "null"}
    with Box(
        **{f"workers__{name}": value for name, value in settings.items()},
        sensors__root=tree, table=table, limits__stop_tctl_c=95,
    ) as box:  # fmt: skip
        yield box


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, box: Box) -> Iterator[Browser]:
    """The page, live; it may say nothing on the console and ask nobody but its box."""
    browser.screen(*DESKTOP, dark=False)
    browser.get(f"{box.url}/")
    until(lambda: browser.text("#link") == "live", "a live page", within_s=30.0)
    yield browser
    assert browser.complaints() == []
    assert browser.hosts() == {urlsplit(box.url).netloc}


@contextmanager
def contention(box: Box) -> Iterator[None]:
    """Let lanes ask again and again for as long as the block runs, more than the devices can serve."""
    stop = threading.Event()
    headers = [{"x-fairlane-lane": lane} for lane in LANES]

    def asks(number: int) -> None:
        said, model = ((SECRET, ROW), (DOCUMENT, "auto"))[number % 2]
        while not stop.is_set():
            call(box.url, body=chat(said, model=model), headers=headers[number % len(LANES)])

    threads = [threading.Thread(target=asks, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=60)


def warm(tree: Path, tctl_c: float, watts: float = 91.0) -> None:
    put(tree, f"{K10}/temp1_input", round(tctl_c * 1000))
    for file in (f"{GPU}/power1_average", f"{CARD}/hwmon/hwmon2/power1_average"):
        put(tree, file, round(watts * 1e6))


def shows(page: Browser, part: str, words: str) -> None:
    """Wait until a part of the page shows these words."""
    until(lambda: words in page.text(part), f"{words} in {part}", within_s=30.0)


def holder(page: Browser) -> str:
    return page.text(HOLDER)


def curve(page: Browser) -> str:
    """Return the path of the curve of heat."""
    return str(page.run("return document.querySelector(arguments[0]).getAttribute('d')", HEAT))


@pytest.mark.slow
def test_during_contention_holder_queue_and_heat_are_seen_to_change(
    page: Browser, box: Box, tree: Path, tmp_path: Path
) -> None:
    with contention(box):
        until(lambda: len(page.texts(QUEUE)) >= 3, "a queue", within_s=30.0)
        until(lambda: holder(page) in LANES and page.text(SINCE).endswith("s"), "a holder")
        print("holder:", *page.changes(lambda: holder(page), "another holder"), sep="\n  ")
        print("queue:", *page.changes(lambda: page.texts(WAITING), "another queue"), sep="\n  ")
        before = curve(page)
        for tctl_c in (60.0, 72.0, 66.0, 81.0, 78.0, 88.0):
            warm(tree, tctl_c, tctl_c + 20)
            shows(page, "#curves .now", f"{tctl_c:.1f}")
        until(lambda: curve(page).count("L") > before.count("L"), "a longer curve")
        assert "88 °C" in page.text("#say").replace("\u00a0", " ")
        moved = until(lambda: [t for t in page.texts("#landed li") if "gpu_busy" in t], "a move")
        assert "npu0" in moved[0]
        assert "hrx0 was busy" in moved[0]
        assert SECRET not in page.run("return document.documentElement.outerHTML")
        assert (
            page.run("return document.querySelectorAll('#landed b, #lanes li bdi b').length") == 0
        )
        for size, phone in ((DESKTOP, False), (PHONE, True)):
            for dark in (False, True):
                page.screen(*size, dark=dark, phone=phone)
                file = (
                    tmp_path
                    / f"{'phone' if phone else 'desktop'}-{'dark' if dark else 'light'}.png"
                )
                taken = page.picture(file)
                assert taken.stat().st_size > 20_000
                print(taken)


def test_no_width_scrolls_sideways_and_what_a_phone_shows_first_is_the_answer(
    page: Browser,
) -> None:
    for wide, high in WIDTHS:
        page.screen(wide, high, dark=False, phone=wide < 600)
        script = "return [document.documentElement.scrollWidth, innerWidth]"
        assert page.run(script) == [wide, wide]
    page.screen(*PHONE, dark=True, phone=True)
    bottom = "return document.querySelector(arguments[0]).getBoundingClientRect().bottom"
    for part in ("#say", "#first .holders"):
        assert page.run(bottom, part) < PHONE[1]


def test_the_curves_stand_on_one_line_whether_or_not_anything_is_known(page: Browser) -> None:
    page.screen(1120, 900, dark=False)
    feet = (
        "return [...new Set([...document.querySelectorAll('.plot')]"
        ".map((plot) => plot.getBoundingClientRect().bottom))].length"
    )
    assert page.run(feet) == 1
    unknown = (
        "points = []; const said = {value: null, reason: 'missing', source: '', label: ''};"
        "show({...last, readings: {...last.readings, tctl: said, socket_power: said}});"
    )
    assert page.run(unknown + feet) == 1
    assert "no value: missing" in page.text("#curves")


def test_a_box_that_drains_says_so_first(page: Browser, box: Box) -> None:
    assert page.text("#link") == "live"
    drained = box.cli("drain")
    assert (drained.returncode, drained.stdout) == (0, "drained: nothing is open\n")
    try:
        shows(page, "#link", "live, box drains")
        shows(page, "#say", "This box drains: it takes no new work, and nothing is open.")
    finally:
        assert box.cli("drain", "--undo").returncode == 0
    until(lambda: page.text("#link") == "live", "a box that works again", within_s=30.0)


def test_a_very_long_name_without_a_space_breaks_and_does_not_scroll(
    page: Browser, box: Box
) -> None:
    page.screen(*NARROW, dark=False, phone=True)
    name = "x" * 64
    assert call(box.url, body=chat(model=ROW), headers={"x-fairlane-lane": name}).status == 200
    until(lambda: name in page.text("#lanes"), "the lane")
    assert page.run("return document.documentElement.scrollWidth") == NARROW[0]


def test_a_pull_is_shown_with_how_far_it_is(page: Browser) -> None:
    """The page alone: a snapshot of the documented shape is handed to it."""
    assert page.text("#pulling") == "" or not page.run("return $('pulling').checkVisibility()")
    pull = {
        "model": "<i>big</i>", "done_bytes": 3 * 2**30, "total_bytes": 12 * 2**30, "since_s": 61.0,
        "asked": True, "waiting": 2,
    }  # fmt: skip
    script = "show({...last, pulls: arguments[0]}); return $('pulling').innerText"
    said = page.run(script, [pull]).replace("\u00a0", " ")
    for words in ("<i>big</i>", "25 %", "3.0 GiB of 12.0 GiB", "since 61 s", "2 tickets waiting"):
        assert words in said
    unknown = page.run(script, [{**pull, "total_bytes": None}]).replace("\u00a0", " ")
    assert "?" in unknown
    assert "3.0 GiB so far" in unknown


def test_the_heat_hold_is_said_in_words(page: Browser, tree: Path) -> None:
    warm(tree, 97.0)
    try:
        shows(page, "#say", "which is hot")
        shows(page, "#first .badge", "too hot")
        assert "no new grant from 95" in page.text("#curves")
    finally:
        warm(tree, 60.0)
    shows(page, "#say", "not hot")


def test_lines_of_heat_that_lie_close_together_can_all_be_read(page: Browser) -> None:
    page.screen(*NARROW, dark=False, phone=True)
    heat = [{"what": "hold", "class": "", "on_c": 92, "off_c": 82, "is_hot": False}]
    heat += [
        {"what": "move", "class": name, "on_c": on_c, "off_c": 70, "is_hot": False}
        for name, on_c in (("long_doc", 88), ("prose", 88), ("code", 87), ("short", 40))
    ]
    script = (
        "draw({...last, heat: arguments[0]});"
        "const box = document.querySelector('.plot').getBoundingClientRect();"
        "return [...document.querySelectorAll('.plot .at-limit')].map((one) => {"
        "const r = one.getBoundingClientRect();"
        "return [one.innerText, r.top, r.bottom, r.right <= box.right] })"
    )
    shown = sorted(page.run(script, heat), key=lambda one: float(one[1]))
    said = [text.replace("\u00a0", " ") for text, *_ in shown]
    assert said == [
        "no new grant from 92 °C; long_doc, prose move from 88 °C; code moves from 87 °C",
        "short moves from 40 °C",
    ]
    assert shown[0][2] <= shown[1][1]
    assert all(inside for *_, inside in shown)


def test_an_unknown_temperature_is_said_to_be_and_is_a_gap_never_zero(
    page: Browser, tree: Path
) -> None:
    warm(tree, 61.0)
    shows(page, "#say", "61")
    pieces = "return document.querySelector(arguments[0]).getAttribute('d').split('M').length - 1"
    before = page.run(pieces, HEAT)
    put(tree, f"{K10}/temp1_input", 0)
    shows(page, "#say", "Tctl is not known (zero)")
    assert page.text("#curves .now") == "unknown"
    time.sleep(5)  # longer than two points
    warm(tree, 62.0)
    shows(page, "#say", "62")
    until(lambda: page.run(pieces, HEAT) > before, "a gap in the curve")
    lowest = (
        "return Math.max(...document.querySelector(arguments[0]).getAttribute('d')"
        ".split(/[ML]/).filter(Boolean).map((one) => Number(one.split(' ')[1])))"
    )
    assert page.run(lowest, HEAT) < 95  # the bottom of the plot is 100


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_a_contrast_of_four_and_a_half(page: Browser, box: Box, dark: bool) -> None:
    page.screen(*DESKTOP, dark=dark)
    assert call(box.url, body=chat(DOCUMENT), headers={"x-fairlane-lane": "reader"}).status == 200
    shows(page, "#landed", "reader")
    found = contrasts(page)
    assert len(found) > 30
    assert min(found) >= 4.5, sorted(found)[:5]


def test_it_is_readable_without_eyes(page: Browser) -> None:
    """Landmarks, one heading above all, names for every picture, and nothing that speaks each second."""
    assert page.run("return document.documentElement.lang") == "en"
    assert page.run("return document.querySelectorAll('h1').length") == 1
    for one in ("header", "main", "footer"):
        assert page.run("return document.querySelectorAll(arguments[0]).length", one) == 1
    unnamed = (
        "return [...document.querySelectorAll('section, svg[role=img]')]"
        ".filter((one) => !one.ariaLabel && !one.getAttribute('aria-labelledby')).length"
    )
    assert page.run(unnamed) == 0
    speaking = (
        "return [...document.querySelectorAll('[role=status], [aria-live]')].map((one) => one.id)"
    )
    assert page.run(speaking) == ["link"]
    said = page.run("return document.querySelector('#curves svg').ariaLabel")
    assert said.startswith("Tctl over the last ten minutes: ")


def test_who_wants_no_motion_gets_none(page: Browser) -> None:
    page.emulate(**{"prefers-reduced-motion": "reduce"})
    script = "return getComputedStyle(document.querySelector('#shares i')).transitionDuration"
    until(lambda: page.run("return document.querySelectorAll('#shares i').length"), "a share")
    assert page.run(script) == "0s"


def test_a_hidden_page_hangs_up(page: Browser) -> None:
    hide = (
        "Object.defineProperty(document, 'hidden', {configurable: true, get: () => arguments[0]});"
        "document.dispatchEvent(new Event('visibilitychange')); return source === null"
    )
    assert page.run(
        f"const arguments_ = arguments; {hide.replace('arguments[0]', 'arguments_[0]')}", True
    )
    shown = page.text("#about")
    time.sleep(2.5)
    assert page.text("#about") == shown
    page.run(
        f"const arguments_ = arguments; {hide.replace('arguments[0]', 'arguments_[0]')}", False
    )
    until(lambda: page.text("#about") != shown, "the page goes on")


@pytest.mark.slow
def test_a_broker_or_a_gateway_that_is_gone_is_said_to_be_and_the_page_goes_on_by_itself(
    browser: Browser, new_box: Callable[..., Box]
) -> None:
    # a port of its own, so that a new gateway has the address of the old one
    box = new_box(workers__engine="null", sensors__enabled="false", gateway__port=free_port())
    browser.screen(*DESKTOP, dark=False)
    browser.get(f"{box.url}/")
    until(lambda: browser.text("#link") == "live", "a live page")
    assert "Tctl is not known (missing)" in browser.text("#say")
    for kind, words in (
        ("broker", "The broker has not answered"),
        ("gateway", "The gateway does not answer"),
    ):
        old = box.kill(kind, signal.SIGSTOP)
        shows(browser, "#lost", words)
        assert browser.text("#link") == "not live"
        assert browser.run("return document.body.className") == "is-stale"
        box.kill(kind)
        box.wait_for_new(kind, old)
        until(lambda: browser.text("#link").startswith("live"), "its return")
        assert browser.text("#lost") == ""
    until(lambda: browser.text("#link") == "live", "all is well")
    browser.complaints()  # of the connection that was refused, which a browser tells by itself
