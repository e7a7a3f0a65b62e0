"""A small WebDriver client: what the tests of the live page ask of a browser, over the standard library."""

import base64
import http.client
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.chromium import FLAGS, programs
from support.opened import Opened
from support.wait import until

_STARTED = re.compile(r"started successfully on port (\d+)")


class Browser(Opened):
    """A browser with an empty profile of its own. `with Browser(folder) as browser:` starts and ends it."""

    def __init__(self, folder: Path) -> None:
        """Prepare.

        Args:
            folder: Empty; for the profile and the driver's log.
        """
        self._folder = folder
        self._driver: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._session = ""
        self._requests: list[str] = []  # addresses that were asked for

    def open(self) -> None:
        """Start the driver, and a browser by it."""
        chromium, chromedriver = programs()
        log = self._folder / "driver.log"
        with log.open("wb") as out:
            self._driver = subprocess.Popen(
                [chromedriver, "--port=0"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, "HOME": str(self._folder)},
            )  # fmt: skip
        found = until(lambda: _STARTED.search(log.read_text()), "the driver", within_s=60.0)
        self._port = int(found[1])
        self._open(chromium)

    def _open(self, chromium: str) -> None:
        profile = f"--user-data-dir={self._folder / 'profile'}"
        options = {"binary": chromium, "args": [*FLAGS, profile]}
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self._call("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self._session = f"/{made['sessionId']}"

    def close(self) -> None:
        """End the browser and its driver."""
        driver = self._driver
        if driver is None:
            return
        try:
            if self._session:
                self._call("DELETE", "", None)
        except OSError:
            pass  # it died before
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            self._driver, self._session = None, ""

    # --- what a test asks -------------------------------------------------------------------------

    def get(self, url: str) -> None:
        """Open a page."""
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return what it returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        """Return the text of the first element that a selector finds, empty where it finds none."""
        script = "return (document.querySelector(arguments[0]) || {}).innerText || ''"
        return str(self.run(script, selector))

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements that a selector finds."""
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)"
        found: list[str] = self.run(script, selector)
        return found

    def changes(
        self, look: Callable[[], Any], what: str, *, within_s: float = 30.0
    ) -> tuple[Any, Any]:
        """Wait until what is looked at is another than now; return both."""
        before = look()
        after = until(lambda: (look(),) if look() != before else None, what, within_s=within_s)
        return before, after[0]

    def screen(self, wide: int, high: int, *, dark: bool, phone: bool = False) -> None:
        """Be a screen of that size in CSS pixels."""
        size = {
            "width": wide,
            "height": high,
            "deviceScaleFactor": 2 if phone else 1,
            "mobile": phone,
        }
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.emulate(**{"prefers-color-scheme": "dark" if dark else "light"})

    def emulate(self, **features: str) -> None:
        """Be a browser whose user prefers these things."""
        told = [{"name": name, "value": value} for name, value in features.items()]
        self.command("Emulation.setEmulatedMedia", features=told)

    def picture(self, file: Path, *, whole: bool = False) -> Path:
        """Write what is seen, or the whole length of the page, as PNG."""
        clip: dict[str, object] = {"captureBeyondViewport": whole}
        if whole:
            script = "const r = document.documentElement; return [r.clientWidth, r.scrollHeight]"
            wide, high = self.run(script)
            clip["clip"] = {"x": 0, "y": 0, "width": wide, "height": high, "scale": 1}
        taken = self.command("Page.captureScreenshot", format="png", **clip)
        file.write_bytes(base64.b64decode(taken["data"]))
        return file

    def command(self, name: str, **parameters: object) -> Any:
        """Give the browser a command of its own protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def complaints(self) -> list[str]:
        """Return what the console said since the last call, of whatever level."""
        return [line["message"] for line in self._call("POST", "/se/log", {"type": "browser"})]

    def addresses(self) -> list[str]:
        """Return every address that pages asked for so far."""
        for line in self._call("POST", "/se/log", {"type": "performance"}):
            event = json.loads(line["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                self._requests.append(event["params"]["request"]["url"])
        return list(self._requests)

    def hosts(self) -> set[str]:
        """Return every host and port that pages asked so far."""
        return {urlsplit(url).netloc for url in self.addresses() if url.startswith("http")}

    def _call(self, method: str, path: str, body: object) -> Any:
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            raw = json.dumps(body).encode() if body is not None else None
            line.request(method, f"/session{self._session}{path}", raw)
            value = json.loads(line.getresponse().read())["value"]
        finally:
            line.close()
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{path}: {value['error']}: {value['message'][:500]}")
        return value
