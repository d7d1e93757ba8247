"""Drive the labelling page in a real browser."""

import shutil
import time
from collections.abc import Callable
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking "
    "--disable-component-update --disable-sync --no-first-run --hide-scrollbars"
)
PATIENCE = 120  # seconds until the page must have changed, however busy the machine is
SHORTEST, LONGEST = 0.02, 0.25  # seconds between two looks at the page, each of which takes 9 ms of a core
ECHO = 0.11  # seconds in which the page takes a key for the echo of the last one
LOOPBACK = "http://127.0.0.1:"
ENTER, ESCAPE, BACKSPACE, TAB, SHIFT, CONTROL = "\ue007", "\ue00c", "\ue003", "\ue004", "\ue008", "\ue009"
HOLD = """
    const usual = window.fetch;
    const held = new Promise((resolve) => { window.release = () => { window.fetch = usual; resolve(); }; });
    window.fetch = async (...request) => { await held; return usual(...request); };
"""


def start_browser(*more: str, requests: bool = False) -> webdriver.Chrome:
    """Return a browser with a fresh profile that records its console, and on request its requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in [*FLAGS.split(), *more]:
        options.add_argument(flag)
    kept = {"browser": "ALL", **({"performance": "ALL"} if requests else {})}
    options.set_capability("goog:loggingPrefs", kept)
    driver = webdriver.Chrome(options=options, service=Service(str(CHROMEDRIVER)))
    driver.set_script_timeout(PATIENCE)
    return driver


def plain(text: object) -> str:
    """Return a text with plain spaces: units have no-break spaces before them."""
    return str(text).replace("\xa0", " ")


class Page:
    """One open page."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, person: str | None = None) -> "Page":
        self.driver.get(f"{self.url}/?person={person}" if person else self.url)
        return self.ready()

    def ready(self) -> "Page":
        """Wait until the first item is there."""
        self.until(lambda: self.script("return document.documentElement.dataset.ready === 'yes'"))
        time.sleep(ECHO)
        return self

    def size(self, width: int, height: int, *, mobile: bool = False) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Make the system's preference light or dark."""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def script(self, text: str, *values: Any) -> Any:
        return self.driver.execute_script(text, *values)

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for something to become true and return it."""
        end, pause = time.monotonic() + PATIENCE, SHORTEST
        while not (found := condition()):
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain; the page says: {self.text('body')[-2000:]}")
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST)
        return found

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return plain(self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    @property
    def item(self) -> str:
        return str(self.script("return document.getElementById('item').dataset.item"))

    @property
    def labelled(self) -> int:
        return int(self.text("#labelled").replace(",", ""))

    @property
    def busy(self) -> bool:
        return bool(self.script("return document.getElementById('item').classList.contains('leaving')"))

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def press_with(self, modifier: str, key: str) -> None:
        ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()

    def hold(self) -> None:
        """Hold all requests until the page runs `release()`."""
        self.script(HOLD)

    def places(self, selector: str) -> list[dict[str, float]]:
        """Return the places of elements that a person may be about to press."""
        return [each.rect for each in self.all(selector)]

    def answer(self, key: str) -> str:
        """Press a key that leads to the next item; return the answered item."""
        before = self.item
        self.press(key)
        self.moved_on(before)
        return before

    def moved_on(self, before: str) -> None:
        """Wait until another item is there and can be answered."""
        self.until(lambda: self.item != before and not self.busy)
        time.sleep(ECHO)

    def shows(self, item: str) -> None:
        """Wait until this item is there and can be answered."""
        self.until(lambda: self.item == item and not self.busy)
        time.sleep(ECHO)

    def dialog(self, key: str) -> str:
        """Open a dialog by its key and return its title."""
        self.press(key)
        again = time.monotonic() + PATIENCE / 2
        while not self.all("dialog[open]") and time.monotonic() < again:
            time.sleep(SHORTEST)
        if not self.all("dialog[open]"):  # a busy browser may lose a key
            self.press(key)
        self.until(lambda: self.all("dialog[open]"))
        return self.text("#dialog-title")

    def close(self) -> None:
        self.press(ESCAPE)
        self.until(lambda: not self.all("dialog[open]"))

    def jump(self, words: str) -> None:
        """Search for something and open the first result."""
        self.dialog("/")
        self.press(words, ENTER)
        self.until(lambda: not self.all("dialog[open]") and not self.busy)
        time.sleep(ECHO)

    def violations(self, axe: str) -> list[tuple[str, list[str]]]:
        """Return axe-core's findings on the current page: rules and the elements that break them."""
        self.script(f"if (!window.axe) {{ {axe} }}")
        run = "const done = arguments[arguments.length - 1]; axe.run().then(done)"
        report = self.driver.execute_async_script(run)
        return [(each["id"], [node["html"] for node in each["nodes"]]) for each in report["violations"]]

    def console(self) -> list[str]:
        """Return the browser's console errors since the last call, only those of the current page."""
        log = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        said = [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]
        return [text for text in said if text.startswith(self.url) or not text.startswith(LOOPBACK)]
