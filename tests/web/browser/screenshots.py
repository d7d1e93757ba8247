"""Take the README's pictures from the real page: `make screenshots`."""

import base64
import csv
import itertools
import random
import sys
import tempfile
import time
from pathlib import Path

from selenium.webdriver.common.action_chains import ActionChains
from sklearn.datasets import load_digits

from tests.web.browser.pages import Page, start_browser
from tests.web.browser.servers import Server

IMAGES = Path(__file__).parents[3] / "docs" / "images"
LARGEST = 250_000  # bytes of a picture
LABELS = 52  # with five random checks, so that the accuracy is shown
PACE = 0.45  # seconds a label, so that the speed shown is a person's
TOPICS = {
    "billing": (
        ["I was charged twice for", "The invoice shows the wrong amount for", "Why did the price go up for"],
        ["my subscription this month", "the order I placed on Monday", "the family plan"],
        [
            "Could you check that, please?",
            "My bank says both payments went through.",
            "The receipt is attached.",
        ],
    ),
    "refund": (
        ["I want my money back for", "Please cancel and refund", "I returned but never got the refund for"],
        ["the headphones that broke", "an order that never arrived", "two tickets we cannot use"],
        ["It has been three weeks now.", "The form on your site does not load.", "How long will it take?"],
    ),
    "delivery": (
        ["The parcel is late again with", "The driver lost the way with", "Tracking has not moved for"],
        ["my new kettle", "the birthday present for my niece", "the spare parts"],
        ["Can I collect it myself?", "Nobody rang the bell.", "I need it before Friday."],
    ),
    "account": (
        [
            "I cannot log in since",
            "The code to sign in never arrives after",
            "Please change the e-mail address before",
        ],
        ["the last update of the app", "I got a new phone", "we moved abroad"],
        ["I have tried three times.", "The old number is gone.", "Is there another way in?"],
    ),
}


def write_messages(path: Path) -> dict[str, str]:
    """Write messages to a shop and return the topic of each."""
    parts = [(topic, part) for topic, lists in TOPICS.items() for part in itertools.product(*lists)]
    topics = {f"{begin} {about}. {end}": topic for topic, (begin, about, end) in parts}
    texts = list(topics)
    random.Random(0).shuffle(texts)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["message"])
        rows.writerows([text] for text in texts)
    return topics


def save(page: Page, name: str, scale: float = 1.5) -> None:
    """Save what is seen, at most as large as a README should load."""
    ActionChains(page.driver).move_to_element_with_offset(page.find("body"), 0, 0).perform()
    time.sleep(1)  # figures that come a moment later
    metrics = page.driver.execute_script("return [innerWidth, innerHeight]")
    clip = {"x": 0, "y": 0, "width": metrics[0], "height": metrics[1], "scale": scale}
    shot = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
    picture = base64.b64decode(shot["data"])
    if len(picture) > LARGEST:
        raise ValueError(
            f"{name} has {len(picture):,} bytes; expected at most {LARGEST:,}: take a lower scale"
        )
    IMAGES.mkdir(parents=True, exist_ok=True)
    (IMAGES / f"label-{name}.png").write_bytes(picture)
    print(f"docs/images/label-{name}.png  {len(picture) / 1000:.0f} KB")


def click_class(page: Page, number: int) -> None:
    before = page.item
    page.find(f'[data-class="{number}"]').click()
    page.moved_on(before)
    time.sleep(PACE)


def shoot_digits(page: Page) -> None:
    truth = load_digits().target
    page.open()
    while page.labelled < LABELS or "check" in page.text("#reason"):
        click_class(page, int(truth[int(page.item)]))
    save(page, "digits")
    page.size(1100, 720)
    page.find('[data-do="map"]').click()
    page.until(lambda: page.all("canvas.scatter"))
    page.script("document.activeElement.blur()")
    save(page, "map", 1.0)
    page.close()
    page.size(390, 780, mobile=True)
    page.open()
    save(page, "phone")


def shoot_texts(page: Page, topics: dict[str, str]) -> None:
    names = list(TOPICS)
    page.open()
    while page.labelled < LABELS // 2 or "check" in page.text("#reason"):
        click_class(page, names.index(topics[page.text("#item .text")]))
    save(page, "texts-dark")


def main() -> int:
    """Take all pictures."""
    driver = start_browser()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        topics = write_messages(folder / "messages.csv")
        classes = ["--classes", ",".join(TOPICS)]
        texts = Server(folder, "messages.csv", "--text-column", "message", *classes, "--model", "tfidf")
        digits = Server(folder, "digits")
        try:
            for server in (digits, texts):
                page = Page(driver, server.start().url)
                page.size(1280, 820)
                page.prefer("light" if server is digits else "dark")
                if server is digits:
                    shoot_digits(page)
                else:
                    shoot_texts(page, topics)
                server.stop()
        finally:
            driver.quit()
            digits.stop()
            texts.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
