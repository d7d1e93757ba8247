"""The dialog of classes: order, merge, remove, bring back, by keyboard and on a phone."""

from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests.web.browser.conftest import fresh
from tests.web.browser.pages import BACKSPACE, ENTER, ESCAPE, TAB, Page
from tests.web.browser.servers import Server

DOWN = "\ue015"
TEXTS = [f"{word} number {i}" for i in range(20) for word in ("card", "cash", "cheque")]


@pytest.fixture(scope="module")
def bank(browser_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("bank")
    rows = [f"{text},app,2024,{text.split()[0]}" for text in TEXTS]
    (folder / "bank.csv").write_text("\n".join(["text,channel,date,label", *rows]) + "\n")
    (folder / "guide.md").write_text("# Rules\n\nA **lost** card.\n\n<script>window.hacked = 1</script>\n")
    described = "name,description\ncard_lost,gone or stolen\ncash,\ncheque,\n"
    (folder / "classes.csv").write_text(described)
    arguments = (
        "--text-column",
        "text",
        "--classes",
        "classes.csv",
        "--model",
        "tfidf",
        "--check-every",
        "0",
    )
    server = Server(folder, "bank.csv", *arguments, "--guidelines", "guide.md").start()
    yield server
    server.stop()


@pytest.fixture
def bank_page(driver: webdriver.Chrome, bank: Server) -> Iterator[Page]:
    page = fresh(driver, bank)
    yield page
    assert page.console() == []


LONG_NAME = """const done = arguments[arguments.length - 1];
    import("/static/state.js").then(({state}) => {
        state.classes[0].name = "balance_not_updated_after_cheque_or_cash_deposit";
        done();
    });"""


def names(server: Server) -> list[str]:
    return [each["name"] for each in server.get("/api/classes")["classes"]]


def shown(page: Page) -> list[str]:
    script = "return [...document.querySelectorAll('#classes .class')].map((each) => each.dataset.class)"
    return list(page.script(script))


def test_names_are_shown_as_words_and_described_on_hover(bank_page: Page) -> None:
    button = bank_page.open("hover").find('#classes [data-class="0"]')
    assert "card lost" in button.text
    assert button.get_attribute("title") == "card_lost: gone or stolen"


BROKEN = r"""const names = [...document.querySelectorAll("#classes .name")];
const parts = names.flatMap((name) => [...name.childNodes]);
const texts = parts.filter((part) => part.nodeType === Node.TEXT_NODE);
const rows = (text, from, to) => {
    const range = document.createRange();
    range.setStart(text, from);
    range.setEnd(text, to);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
};
const broken = (text, word) => rows(text, word.index, word.index + word[0].length) > 1;
return texts.flatMap((text) =>
    [...text.data.matchAll(/\S+/g)].filter((word) => broken(text, word)).map(String))"""


NAMED = """const names = ["abbreviation", "description", "entity or thing", "location", "measurements"];
return import("/static/state.js").then(({ state, setClasses }) =>
    setClasses(names.map((name, id) => ({ ...state.classes[0], id, name, key: "" }))))"""
SIZES = [(1400, 760), (1000, 700), (390, 844)]


@pytest.mark.parametrize("size", SIZES)
def test_a_word_of_a_class_name_is_not_broken(bank_page: Page, size: tuple[int, int]) -> None:
    bank_page.size(*size, mobile=size[0] < 400)
    bank_page.open("words")
    bank_page.script(NAMED)
    bank_page.until(lambda: len(bank_page.all("#classes .class")) == 5)
    assert bank_page.script(BROKEN) == []


TWELVE = """document.querySelector("#item .fields").remove();
const short = "card payment declined";
const named = (first, id) => ({ ...first, id, name: `${id} ${short}`, key: "" });
return import("/static/state.js").then(({ state, setClasses }) =>
    setClasses([...Array(12).keys()].map((id) => named(state.classes[0], id))))"""
WHOLE = """const seen = (button) => {
    const { x, top, bottom } = button.getBoundingClientRect();
    return [top + 2, bottom - 2].every((y) => button.contains(document.elementFromPoint(x + 20, y)));
};
return [...document.querySelectorAll("#classes .class")].filter(seen).length"""


@pytest.mark.parametrize("size", SIZES)
def test_twelve_classes_are_in_sight(bank_page: Page, size: tuple[int, int]) -> None:
    bank_page.open("twelve")
    bank_page.script(TWELVE)
    bank_page.until(lambda: len(bank_page.all("#classes .class")) == 12)
    bank_page.size(*size, mobile=size[0] < 400)
    bank_page.until(lambda: bank_page.script(WHOLE) == 12)


def test_menu_of_a_phone_switches_yes_no(bank_page: Page) -> None:
    page = bank_page
    page.size(390, 844, mobile=True)
    page.open("menu")
    switch = page.find('.actions [data-do="yesno"]')
    assert not switch.is_displayed()
    page.find(".menu-button").click()
    page.until(lambda: page.all("dialog[open] .menu-entry"))
    next(entry for entry in page.all(".menu-entry") if entry.text == "Yes / no").click()
    page.until(switch.is_displayed)  # so that it can be switched off
    switch.click()
    page.until(lambda: not switch.is_displayed())


def test_order_merge_and_bring_back_by_keyboard(bank_page: Page, bank: Server) -> None:
    page = bank_page.open("keyboard")
    page.answer("1")
    page.dialog("c")
    page.script("document.getElementById('class-0').focus()")
    page.press(TAB, TAB, ENTER)  # what it is about, then what is folded away; Save is off
    page.until(lambda: page.find("#more-0").get_attribute("open"))
    page.script("document.getElementById('down-0').focus()")
    page.press(ENTER)
    page.until(lambda: shown(page) == ["1", "0", "2"])
    assert page.script("return document.activeElement.id") == "down-0"  # to press it again
    page.script("document.getElementById('remove-0').focus()")
    page.press(ENTER)
    page.until(lambda: page.script("return document.activeElement.id") == "into-0")
    page.press(DOWN)
    page.until(lambda: page.text("#sure-0") == "Merge the classes")
    page.press(TAB, ENTER)
    page.until(lambda: shown(page) == ["1", "2"])
    assert page.script("return document.activeElement.id") == "undo-classes"  # its class is gone
    page.until(lambda: page.text("dialog .live") == "“card_lost” is merged into “cash”")  # the page is inert
    assert bank.get("/api/progress?person=keyboard")["classes"][0]["labels"] == 1
    assert "merged “card_lost” into “cash”" in page.text(".class-dialog")
    page.script("document.getElementById('undo-classes').focus()")
    page.press(ENTER)
    page.until(lambda: shown(page) == ["1", "0", "2"])
    assert {each["id"]: each["labels"] for each in bank.get("/api/classes")["classes"]} == {1: 0, 0: 1, 2: 0}
    page.find("#more-0 summary").click()
    page.find("#remove-0").click()
    page.find("#sure-0").click()
    page.until(lambda: shown(page) == ["1", "2"])
    page.until(lambda: page.labelled == 0)
    page.find("#back-0").click()
    page.until(lambda: shown(page) == ["1", "2", "0"])
    page.until(lambda: page.labelled == 1)
    page.press(ESCAPE)


def test_a_name_that_hardly_differs_is_asked_about(bank_page: Page, bank: Server) -> None:
    page = bank_page.open("alike")
    page.dialog("n")
    page.press("Cash", ENTER)
    page.until(lambda: "is 'Cash' another?" in page.text(".add"))
    assert "Cash" not in names(bank)
    assert len(page.console()) == 1  # the refusal
    page.press(ENTER)
    page.until(lambda: "Cash" in names(bank))
    page.until(lambda: page.text(".toast p") == "Added “Cash”. Its key is 4.")
    number = bank.get("/api/classes")["classes"][-1]["id"]
    bank.post(f"/api/classes/{number}/remove", person="alike")


def test_a_name_that_is_not_saved_is_not_lost_without_a_word(bank_page: Page, bank: Server) -> None:
    page = bank_page.open("unsaved")
    before = names(bank)
    page.dialog("c")
    page.script("document.getElementById('new-class').focus()")
    page.press("loan")
    page.press(ESCAPE)
    page.until(lambda: page.text("dialog .leaving").startswith("Not saved: loan."))
    assert page.find("#new-class").get_attribute("value") == "loan"
    page.close()  # now it may go
    page.dialog("c")
    page.script("document.getElementById('class-1').focus()")
    page.press("s")
    page.find("dialog .close").click()
    page.until(lambda: "Not saved:" in page.text("dialog .leaving"))
    page.find("dialog .close").click()
    page.until(lambda: not page.all("dialog[open]"))
    page.dialog("c")
    page.close()  # nothing is typed: one Escape is enough
    assert names(bank) == before


def test_how_to_remove_is_in_sight_at_once(bank_page: Page) -> None:
    page = bank_page
    page.size(1280, 480)
    page.open("sight")
    page.dialog("c")
    page.until(lambda: page.all("#more-2"))
    page.find("#more-1 summary").click()
    page.script("""const room = document.querySelector(".dialog-body");
        const bottom = document.getElementById("remove-1").getBoundingClientRect().bottom;
        room.scrollTop += bottom - room.getBoundingClientRect().bottom + 90; // the first box in sight
        document.getElementById("remove-1").click()""")
    script = """const box = document.querySelector("#more-1 .removal").getBoundingClientRect();
        const room = document.querySelector(".dialog-body").getBoundingClientRect();
        return box.height > 0 && box.top >= room.top && box.bottom <= room.bottom + 1"""
    page.until(lambda: page.script(script))
    page.close()


def test_key_and_colour_on_a_phone(bank_page: Page, bank: Server) -> None:
    page = bank_page
    page.size(390, 800, mobile=True)
    page.open("phone")
    page.find('[data-do="menu"]').click()
    page.until(lambda: page.all("dialog[open] [data-do='classes'], dialog[open] button"))
    page.script("document.querySelector('[data-do=classes]').click()")
    page.until(lambda: page.all("#more-2"))
    page.find("#more-2 summary").click()
    page.find("#remove-2").click()
    fits = "const box = document.querySelector('.dialog-body'); return box.scrollWidth <= box.clientWidth"
    assert page.script(fits)
    page.find("#remove-2").click()
    button = page.find(".class-list form:has(#class-2) [type=submit]")
    assert not button.is_displayed()  # nothing to save
    page.find("#class-2").send_keys("s")
    page.until(button.is_displayed)
    name, save = page.find("#class-2").rect, page.find(".class-list form:has(#class-2) [type=submit]").rect
    assert save["x"] >= name["x"] + name["width"]  # beside its name
    assert save["width"] >= 60
    page.find("#class-2").send_keys(BACKSPACE)
    page.script(
        """for (const [id, value] of [["key-2", "w"], ["colour-2", "#112233"]]) {
        const box = document.getElementById(id); box.value = value;
        box.dispatchEvent(new Event("change", { bubbles: true })); }"""
    )
    told = {"key": "w", "colour": "#112233"}
    page.until(lambda: any(told.items() <= each.items() for each in bank.get("/api/classes")["classes"]))
    page.close()
    item = page.item
    page.press("w")
    page.moved_on(item)
    assert bank.get("/api/history?person=phone")["events"][0]["class"] == 2


def test_a_long_text_gets_the_height_that_few_classes_leave(bank_page: Page) -> None:
    page = bank_page
    page.size(1280, 800)
    page.open("long text")
    page.script("document.querySelector('#item .text').textContent = 'many words '.repeat(2000)")
    card, bottom = page.script("""return [document.querySelector(".stage").offsetHeight,
        document.querySelector(".actions").getBoundingClientRect().bottom]""")
    assert card > 450
    assert bottom <= 800


WORDS = """const [text] = arguments;
return import("/static/state.js").then(({ state, setTask }) =>
    setTask({ ...state.task, item: { ...state.task.item, fields: [], text } }))"""


def test_classes_stay_in_place_from_a_longer_text_to_a_shorter_one(bank_page: Page) -> None:
    bank_page.open("steady")
    tops = []
    for words in (3, 16, 3, 22, 9, 3):
        bank_page.script(WORDS, "a few more words " * words)
        tops.append(bank_page.find("#classes").rect["y"])
    assert tops[0] < tops[1] == tops[2] < tops[3] == tops[4] == tops[5]
    bank_page.size(390, 844, mobile=True)  # the page scrolls there: no room is kept
    bank_page.until(lambda: bank_page.find(".stage").rect["height"] < tops[3] / 2)


def test_queues_fit_a_phone(bank_page: Page) -> None:
    page = bank_page
    page.size(390, 800, mobile=True)
    page.open("queues on a phone")
    page.driver.execute_async_script(LONG_NAME)
    page.dialog("q")
    page.until(lambda: page.all("[data-queue]"))
    fits = "const box = document.querySelector('.dialog-body'); return box.scrollWidth <= box.clientWidth"
    assert page.script(fits)
    cut = """return [...document.querySelectorAll("[data-queue] .result-text")]
        .filter((text) => text.scrollHeight > text.clientHeight + 1).length"""
    assert page.script(cut) == 0
    page.close()


def test_none_of_these_is_an_answer_that_can_be_taken_back(bank_page: Page, bank: Server) -> None:
    page = bank_page.open("none")
    item = page.answer("-")
    assert bank.get("/api/history?person=none")["events"][0]["kind"] == "none"
    assert "none of these" in page.text("#tick")
    page.press("h")
    page.until(lambda: "none of these" in page.text(".history"))
    page.close()
    page.press("u")
    page.shows(item)
    page.find('[data-do="none"]').click()
    page.moved_on(item)
    page.press("u")
    page.shows(item)


def test_guidelines_stand_beside_the_task_and_labels_are_not_shown(bank_page: Page) -> None:
    page = bank_page.open("guided")
    assert "A lost card." in page.until(lambda: page.text("#guidelines-text"))
    assert page.all("#guidelines-text h1")
    assert page.script("return window.hacked === undefined")
    fields = page.text("#item .fields")
    assert "app" in fields
    assert "label" not in fields  # it would tell the answer
