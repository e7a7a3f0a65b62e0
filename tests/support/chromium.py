"""A real browser without a window: Debian's chromium, driven by its chromedriver."""

from support import debian

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


def programs() -> tuple[str, str]:
    """Return the paths of chromium and chromedriver."""
    (browser,) = debian.require("chromium", "chromium")
    (driver,) = debian.require("chromium-driver", "chromedriver")
    return str(browser), str(driver)
