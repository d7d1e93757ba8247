"""Texts that are hard to show, and more classes than there are keys."""

from pathlib import Path

from selenium import webdriver

from tests.web.browser.conftest import fresh
from tests.web.browser.pages import BACKSPACE, ENTER, SHIFT, Page
from tests.web.browser.servers import Server
from tests.web.browser.texts import ARABIC, CLASSES, JOINED_NAME, LONG_NAME, MARKUP, write_texts


def test_markup_is_shown_as_text(text_page: Page) -> None:
    text_page.open("markup").jump("hacked")
    assert text_page.text("#item .text") == MARKUP
    text_page.press_with(SHIFT, "h")  # with many classes letters filter: commands need Shift
    text_page.until(lambda: text_page.all("dialog[open]"))
    text_page.close()
    assert text_page.script("return window.hacked === undefined")


def test_right_to_left(text_page: Page) -> None:
    text_page.open("arabic").jump("عربي")
    assert text_page.text("#item .text") == ARABIC
    assert (
        text_page.script("return getComputedStyle(document.querySelector('#item .text')).direction") == "rtl"
    )


def test_a_long_text_scrolls_in_its_box_by_keys(text_page: Page) -> None:
    text_page.size(1280, 900)
    text_page.open("long").jump("needle")
    assert text_page.all("#item .fields")  # its hidden caption once made the page as long as the text
    box = text_page.until(lambda: text_page.find("#item.scrolls"))
    assert box.get_attribute("tabindex") == "0"
    assert text_page.script("return document.documentElement.scrollHeight <= innerHeight")
    box.send_keys(" ")  # scrolls, does not skip
    text_page.until(lambda: text_page.script("return document.getElementById('item').scrollTop > 50"))
    assert text_page.find("#classes .class").is_displayed()


TOP = "return document.querySelector('.stage').getBoundingClientRect().top"


def test_the_next_item_is_seen_from_its_beginning_on_a_phone(text_page: Page) -> None:
    text_page.size(390, 700, mobile=True)
    text_page.open("thumb")
    item = text_page.item
    button = text_page.all("#classes .class")[-1]
    text_page.script("arguments[0].scrollIntoView({block: 'center'})", button)
    assert text_page.script(TOP) < 0
    button.click()
    text_page.moved_on(item)
    assert text_page.script(TOP) >= 0
    text_page.press(BACKSPACE)  # others share this server
    text_page.shows(item)


def test_an_unbroken_text_breaks(text_page: Page) -> None:
    text_page.open("unbroken").jump("unbrokenunbroken")
    for width in (1280, 360):
        text_page.size(width, 800)
        assert text_page.script("return document.documentElement.scrollWidth <= innerWidth")
        assert text_page.script(
            "const b = document.getElementById('item'); return b.scrollWidth <= b.clientWidth"
        )


def test_without_a_guess_a_line_says_what_the_number_keys_do(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    server = Server(tmp_path, *write_texts(tmp_path)).start()
    try:
        page = fresh(driver, server).open("keys")
        assert "as soon as a label is learned" in page.text("#no-keys")
        page.press("pic 03")
        page.answer(ENTER)
        while "Random check" in page.text("#reason"):
            assert "on a random check" in page.text("#no-keys")
            page.answer(" ")
        assert page.text("#no-keys") == ""
        page.press_with(SHIFT, "p")
        assert "⇧P shows it" in page.until(lambda: page.text("#no-keys"))
        page.press_with(SHIFT, "p")
        page.answer("1")
        assert page.console() == []
    finally:
        server.stop()


def test_yes_and_no_do_not_begin_to_filter(text_page: Page) -> None:
    text_page.open("yes and no")
    text_page.press(".")
    text_page.press_with(SHIFT, "p")  # as on a random check, nothing is proposed
    text_page.until(lambda: text_page.text("#no-proposal"))
    item = text_page.item
    for key in "ny":
        text_page.press(key)
        text_page.until(lambda: "⇧F filters the classes" in text_page.text("#missed"))
        assert text_page.find("#filter").get_property("value") == ""
    text_page.press_with(SHIFT, "f")
    text_page.press("n")
    assert text_page.find("#filter").get_property("value") == "n"
    assert text_page.item == item


def test_filter_picks_the_first(text_page: Page, texts: Server) -> None:
    text_page.open("filter")
    assert len(text_page.all("#classes .class")) == 25
    text_page.press("pic 07")
    text_page.until(lambda: len([b for b in text_page.all("#classes .class") if b.is_displayed()]) == 1)
    item = text_page.item
    text_page.press(ENTER)
    text_page.until(lambda: text_page.item != item and not text_page.busy)
    assert texts.get("/api/history?person=filter")["events"][0]["class"] == 7
    assert text_page.script("return document.activeElement === document.body")
    text_page.press("nowhere", ENTER)
    assert "No class" in text_page.text("#no-match")
    assert text_page.script("return document.activeElement.id") == "filter"


def test_likely_classes_have_keys(text_page: Page, texts: Server) -> None:
    texts.post(
        "/api/label",
        person="likely",
        item=texts.post("/api/next", person="likely")["next"]["item"]["id"],
        **{"class": 3},
    )
    text_page.open("likely")
    while "Random check" in text_page.text("#reason"):
        assert not text_page.all("#likely .class")
        text_page.answer(" ")
    wanted = text_page.until(lambda: text_page.all("#likely .class"))[1].get_attribute("data-class")
    text_page.answer("2")
    assert str(texts.get("/api/history?person=likely")["events"][0]["class"]) == wanted
    text_page.press_with(SHIFT, "p")
    text_page.until(lambda: not text_page.all("#likely .class"))
    item = text_page.item
    text_page.press("2")  # means nothing now, rather than something else
    assert text_page.item == item
    assert not text_page.busy


def test_a_long_class_name_stays_in_its_button(text_page: Page) -> None:
    text_page.open("names")
    for width in (1280, 360):
        text_page.size(width, 800)
        button = text_page.find(f'#classes [data-class="{CLASSES.index(LONG_NAME)}"]')
        assert text_page.script("return arguments[0].scrollWidth <= arguments[0].clientWidth", button)
        assert button.size["height"] < 140


CUT = """const cut = (part) => {
    const [box, room] = [part.getBoundingClientRect(), part.closest("button, tr").getBoundingClientRect()];
    return box.top < room.top || box.bottom > room.bottom || part.scrollHeight > part.clientHeight + 1;
};
return [...document.querySelectorAll(arguments[0])].filter(cut).map((part) => part.textContent)"""


LINES = """const [name, done] = arguments;
    import("/static/state.js").then(({state, setClasses}) => {
        const last = [...document.querySelectorAll("#classes .class:not([hidden])")].at(-1).dataset.class;
        setClasses(state.classes.map((each) => (String(each.id) === last ? {...each, name} : each)));
        const range = document.createRange();
        range.selectNodeContents(document.querySelector(`#classes [data-class="${last}"] .name`));
        done(new Set([...range.getClientRects()].map((line) => line.top)).size);
    });"""


def test_a_long_word_is_not_broken(text_page: Page) -> None:
    text_page.size(1400, 760)
    text_page.open("long word")
    assert text_page.driver.execute_async_script(LINES, "disappointment") == 1


def test_the_list_of_keys_explains_them_with_many_classes(text_page: Page) -> None:
    text_page.open("keys of many")
    text_page.dialog("?")
    first = text_page.text("dialog .key-list > div")
    assert first.startswith("1 … 5")
    assert "The most likely classes" in first
    assert "Letters\nFilter the classes by name" in text_page.text("dialog .key-list")
    text_page.close()


def test_names_are_not_cut(text_page: Page) -> None:
    text_page.open("cut")
    text_page.press("pic 05")
    text_page.answer(ENTER)
    while "Random check" in text_page.text("#reason"):
        text_page.answer(" ")  # probabilities take room, too
    for width in (1280, 360):
        text_page.size(width, 800)
        text_page.until(lambda: set(text_page.script(CUT, "#classes .name")) <= {LONG_NAME})
    text_page.size(1280, 800)
    assert set(text_page.script(CUT, "#balance .name")) <= {LONG_NAME}
    text_page.script("document.getElementById('balance-fold').click()")  # it is drawn again with the figures
    assert JOINED_NAME.replace("_", " ") in text_page.text("#balance")
    likely = """const button = document.querySelector(arguments[0]).cloneNode(true);
        const cap = document.createElement("kbd");
        cap.textContent = "1";
        button.prepend(cap);
        document.getElementById("likely-box").hidden = false;
        document.getElementById("likely").replaceChildren(button)"""
    text_page.script(likely, f'#classes [data-class="{CLASSES.index(JOINED_NAME)}"]')
    assert text_page.script(CUT, "#likely .name") == []


def test_each_of_many_classes_is_in_sight_on_a_phone(text_page: Page, texts: Server) -> None:
    item = texts.post("/api/next", person="thumb")["next"]["item"]["id"]
    texts.post("/api/label", person="thumb", item=item, **{"class": 4})
    text_page.size(390, 844, mobile=True)
    text_page.open("thumb")
    while "Random check" in text_page.text("#reason"):
        text_page.answer(" ")
    text_page.until(lambda: len(text_page.all("#likely .class")) == 3)
    for likely in (3, 5):
        shown = [each for each in text_page.all("#likely .class, #classes .class") if each.is_displayed()]
        assert len(shown) == len({each.get_attribute("data-class") for each in shown}) == len(CLASSES)
        assert len(text_page.all("#likely .class")) == likely
        text_page.size(1280, 820)  # turned, or another window
        text_page.until(lambda: len(text_page.all("#likely .class")) == 5)


def test_many_classes_stand_by_likelihood(text_page: Page, texts: Server) -> None:
    item = texts.post("/api/next", person="ranked")["next"]["item"]["id"]
    texts.post("/api/label", person="ranked", item=item, **{"class": 4})
    text_page.open("ranked")
    while "Random check" in text_page.text("#reason"):
        text_page.answer(" ")
    shown = text_page.until(lambda: text_page.script(ORDER))
    probabilities = texts.post("/api/next", person="ranked")["next"]["probabilities"]
    assert [probabilities[c] for c in shown] == sorted(probabilities, reverse=True)
    assert len(set(shown)) == len(shown) == 25  # none of them twice
    shares = text_page.script(
        "return [...document.querySelectorAll('#classes .share')].map((e) => e.innerText)"
    )
    assert not {"0\xa0%", "1\xa0%"} & set(shares)
    text_page.press("depo")  # the first letter begins to filter
    text_page.until(lambda: text_page.script(ORDER)[-1:] == [23])
    assert text_page.script("return document.querySelectorAll('#classes .class:not([hidden])').length") == 1
    text_page.answer(ENTER)
    assert texts.get("/api/history?person=ranked")["events"][0]["class"] == 23


ORDER = """const numbers = (id) => [...document.querySelectorAll(`#${id} .class:not([hidden])`)];
return [...numbers("likely"), ...numbers("classes")].map((each) => Number(each.dataset.class))"""


def test_the_balance_does_not_scroll_in_the_panel_and_toasts_cover_no_item(text_page: Page) -> None:
    text_page.open("panel")
    box = "const box = document.querySelector('.balance-box');"
    assert text_page.script(f"{box} return box.scrollHeight <= box.clientHeight + 1")
    assert len(text_page.all("#balance tbody tr")) == 12
    before = [button.rect for button in text_page.all(".actions button")]
    text_page.press_with(SHIFT, "p")
    toast = text_page.until(lambda: text_page.all(".toast"))[0].rect
    below = text_page.find(".stage").rect["y"]
    assert toast["y"] + toast["height"] <= below
    assert [button.rect for button in text_page.all(".actions button")] == before  # no button moves
    text_page.press_with(SHIFT, "p")
