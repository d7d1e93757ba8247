"""Label Studio's own page in a real browser: signing in, and the stream of tasks to label."""

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.live.label_studio.studio import PASSWORD, USER, Studio
from tests.web.browser.pages import Page, start_browser

TEXT, CHOICE, SUBMIT = (
    ".lsf-htx-richtext",
    ".lsf-choice__item input",
    '[data-testid="bottombar-submit-button"]',
)


def open_browser() -> webdriver.Chrome:
    """Return a browser that knows this machine only."""
    return start_browser("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


class Stream(Page):
    """The page on which a person labels what comes next."""

    def __init__(self, driver: webdriver.Chrome, studio: Studio) -> None:
        super().__init__(driver, studio.url)

    def sign_in(self) -> None:
        self.driver.get(f"{self.url}/user/login/")
        self.until(lambda: self.all('input[name="email"]'))
        self.find('input[name="email"]').send_keys(USER)
        self.find('input[name="password"]').send_keys(PASSWORD)
        self.find('button[type="submit"], button[aria-label="Log In"]').click()
        self.until(lambda: "/login" not in self.driver.current_url)

    def begin(self, project: int) -> None:
        """Open the stream of a project by its button: by its address it would follow the order of a tab."""
        self.driver.get(f"{self.url}/projects/{project}/data")
        self.until(lambda: self._button()).click()
        self.until(lambda: self.shown and self.all(CHOICE))

    def _button(self) -> WebElement | None:
        return next((each for each in self.all("button") if each.text == "Label All Tasks"), None)

    @property
    def shown(self) -> str:
        """Return the text of the task on the screen."""
        return self.text(TEXT).strip()

    @property
    def filled_in(self) -> str | None:
        """Return the choice that is made already."""
        found = self.script("return document.querySelector(arguments[0] + ':checked')?.name", CHOICE)
        return None if found is None else str(found)

    def choose(self, name: str) -> None:
        """Click on a choice, unless the prediction has made it."""
        if self.filled_in != name:
            boxes = self.driver.find_elements(By.CSS_SELECTOR, CHOICE)
            box = next(box for box in boxes if box.get_attribute("name") == name)
            self.script("arguments[0].scrollIntoView({block: 'center'})", box)
            box.click()
            self.until(lambda: self.filled_in == name)

    def submit(self) -> None:
        """Submit, and wait for the next task."""
        before = self.shown
        self.find(SUBMIT).click()
        self.until(lambda: self.shown not in ("", before) and self.all(CHOICE))
