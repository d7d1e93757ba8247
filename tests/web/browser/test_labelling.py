"""Labelling digits in the page, with the keyboard alone unless said otherwise."""

import time
from pathlib import Path

from tests.web.browser.pages import BACKSPACE, CONTROL, ENTER, SHIFT, TAB, Page, plain
from tests.web.browser.servers import Server


def _answers(server: Server, person: str) -> list[dict[str, object]]:
    events = server.get(f"/api/history?person={person}&limit=100")["events"]
    return [event for event in events if not event["undone"]]


def test_thirty_digits_by_keys(page: Page, digits: Server) -> None:
    page.open("thirty")
    before = page.labelled
    items = [page.answer(str(i % 10)) for i in range(30)]
    assert len(set(items)) == 30
    page.until(lambda: page.labelled == before + 30)
    assert digits.get("/api/progress")["labelled"] == before + 30
    given = [(event["item"], event["class"]) for event in reversed(_answers(digits, "thirty"))]
    assert given == [(item, i % 10) for i, item in enumerate(items)]
    assert page.text("#tick") == "Saved: 9"
    assert "learned in" in page.text("#speed")
    page.until(lambda: page.all("#curve svg path.expected"))
    page.until(lambda: len(page.all("#balance tbody tr")) >= 10)
    while "Random check" in page.text("#reason"):
        page.answer("s")
    shares = {each.text for each in page.all("#classes .share")}
    assert "" in shares  # "0 %" beside most classes would say nothing
    assert not {"0\xa0%", "1\xa0%"} & shares


def test_feedback_does_not_wait_for_the_server(page: Page) -> None:
    page.open("feedback")
    seen = page.script("""
        const press = () => document.body.dispatchEvent(
            new KeyboardEvent("keydown", {key: "3", code: "Digit3", bubbles: true}));
        press(); press();  // the second is a double press
        return [document.querySelectorAll(".class.chosen").length,
                document.querySelector(".class.chosen").dataset.class,
                document.getElementById("item").classList.contains("leaving")];
    """)
    assert seen == [1, "3", True]
    page.until(lambda: not page.busy)


FIRST = """
    const done = arguments[arguments.length - 1];
    import("/static/state.js").then(({state}) => {
        state.progress.update_ms = null; // and the key at once, before news of the progress tell otherwise
        document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "3", code: "Digit3", bubbles: true}));
        done();
    });
"""


def test_waiting_is_explained(page: Page) -> None:
    page.size(360, 740)
    page.open("waiting")
    page.answer("1")
    page.hold()
    item = page.item
    page.press("2")
    page.until(lambda: page.text("#tick") == "Learning …")
    page.script("release()")
    page.moved_on(item)
    assert "Saved: 2" in page.text("#tick")
    page.hold()
    item = page.item
    page.driver.execute_async_script(FIRST)  # as before the first label of a server
    page.until(lambda: "compiling, once only" in page.text("#tick"))
    assert page.script(
        "const tick = document.getElementById('tick'); return tick.scrollWidth <= tick.clientWidth"
    )
    page.script("release()")
    page.moved_on(item)
    assert "Saved: 3" in page.text("#tick")


PROGRESS = """
    const [checks, estimate, low, high, share, labelled] = arguments;
    const done = arguments[arguments.length - 1];
    import("/static/state.js").then(({setProgress, state}) => {
        const known = {checks, needed: Math.max(0, 5 - checks), estimate, low, high, expected: 0.5,
                       labels: 28, unanswered: 0, commonest: 1, share, better: estimate > share};
        const point = {expected: 0.5, accuracy: estimate, checks, low, high};
        const curve = [10, 20, 30].map((labels) => ({labels, ...point}));
        const counts = {labelled: labelled === done ? 28 : labelled, left: 1768};
        setProgress({...state.progress, version: Infinity, ...counts, accuracy: known, curve});
        done();
    });
"""


def test_few_checks_are_not_made_a_sure_figure(page: Page) -> None:
    page.open("few")

    def shown(*figures: object) -> list[str]:
        page.driver.execute_async_script(PROGRESS, *figures)
        return [page.text(name) for name in ("#accuracy", "#accuracy-range", "#accuracy-note")]

    def summary() -> str:
        return plain(page.script("return document.getElementById('side-summary').textContent"))

    assert shown(2, None, None, None, None) == [
        "",
        "",
        "Known after 3 more random checks. One item in 10 is a random check.",
    ]
    assert summary() == "28 labels, 1,768 left"
    assert page.text("#accuracy-baseline") == ""
    told = "On unlabelled items, estimated from 12 random checks"
    assert shown(12, 0.9, 0.62, 0.97, 0.3) == ["62–97 %", "", told]
    assert summary() == "28 labels, 1,768 left · accuracy 62–97 %"
    assert "random checks say 62–97 %" in plain(page.find("#curve svg").get_attribute("aria-label"))
    assert page.text("#accuracy-baseline") == ""  # not known well, either
    assert shown(12, 0.9, 0.62, 0.97, 0.3, 34)[2] == f"{told} (at label 28)"
    assert shown(20, 0.95, 0.76, 0.99, 0.96)[:2] == ["95 %", "76–99 %"]
    assert page.text("#accuracy-baseline").endswith("The model is no better than that yet.")
    assert "accuracy 95 % (76–99 %)" in summary()
    assert shown(50, 0.9978, 0.95, 0.9999, 0.3)[0] == "above 99 %"
    assert page.text("#accuracy-baseline") == "Always answering “1” would be right on about 30 %."


ARRIVING = """const [coming, done] = arguments;
    import("/static/state.js").then(({setProgress, state}) => {
        const arriving = {joined: 2, coming, problem: coming ? "" : "the source has changed"};
        setProgress({...state.progress, version: Infinity, arriving, finished: {items: 544}});
        done(document.getElementById("arriving").textContent);
    });"""


def test_problem_of_the_source_and_items_of_the_model_are_shown(page: Page) -> None:
    page.open("arriving")
    told = [page.driver.execute_async_script(ARRIVING, coming) for coming in (0, 3, 0)]
    assert told == [
        "The source has changed",
        "1,797 items loaded, 3 more on the way",
        "All 1,797 items loaded. The source has changed",
    ]
    assert "544 labelled by the model" in page.text("#speed")


def test_accuracy_curve_has_a_line_only_with_enough_checks(page: Page) -> None:
    page.open("line")
    looks: list[tuple[int, list[float | None]]] = [
        (4, [None] * 3),
        (5, [0.9, 0.4, 0.99]),
        (19, [1e-3, 1e-4, 0.3]),
        (20, [0.9, 0.6, 0.97]),
    ]
    for checks, figures in looks:
        page.driver.execute_async_script(PROGRESS, checks, *figures, 0.3)
        assert bool(page.all("#curve path.band")) == (checks >= 5)
        assert bool(page.all("#curve path.checked")) == (checks >= 20)
        assert bool(page.all("#curve .legend .checked")) == (checks >= 20)


def test_undo_any_number_of_times(page: Page, digits: Server) -> None:
    page.open("undo")
    first, second = page.answer("1"), page.answer("2")
    page.answer("s")
    page.answer("u")
    assert page.text("#tick") == "Undone"  # the skip
    for key, item, answer in (("u", second, "2"), (BACKSPACE, first, "1")):
        page.answer(key)
        assert page.item == item
        assert page.text("#tick") == f"Undone: {answer}"
    assert _answers(digits, "undo") == []
    page.answer("5")
    page.press_with(CONTROL, "z")
    page.shows(first)
    page.answer("7")
    assert [event["class"] for event in _answers(digits, "undo")] == [7]


def test_nothing_to_undo_is_reported(page: Page) -> None:
    page.open("nothing").press("u")
    assert "undone" in page.until(lambda: page.text(".toast.problem"))
    assert page.item
    page.console()  # the browser notes the 409


def test_skip_and_cannot_tell(page: Page, digits: Server) -> None:
    page.open("skips")
    skipped, untold = page.answer(" "), page.answer("x")
    kinds = {event["item"]: event["kind"] for event in _answers(digits, "skips")}
    assert kinds == {skipped: "skip", untold: "cannot_tell"}


def test_a_new_class_is_used_at_once(page: Page, digits: Server) -> None:
    page.open("adding")
    assert page.dialog("n") == "New class"
    page.press("3", ENTER)
    assert "already" in page.until(lambda: page.text(".problem-note"))
    page.console()  # the browser notes the 409
    page.press(BACKSPACE, "not a digit", ENTER)
    page.until(lambda: "not a digit" in page.text("#classes"))
    item = page.item
    page.press_with(SHIFT, "1")  # the eleventh
    page.moved_on(item)
    assert _answers(digits, "adding")[0]["class"] == 10
    assert [button.get_attribute("data-key") for button in page.all("#classes .class")] == [
        *"0123456789",
        "⇧1",
    ]


def test_the_page_says_why_an_item_comes(page: Page, digits: Server) -> None:
    page.open("why")
    for _ in range(12):
        if "Random check" not in page.text("#reason"):
            assert page.text("#reason").startswith("Why this one: ")
        page.answer("1")
    page.press("u")
    page.until(lambda: "Undone" in page.text("#reason"))


def test_rename_keeps_labels_and_keys(page: Page, digits: Server) -> None:
    page.open("renaming")
    assert page.dialog("c") == "Classes"
    box = page.find("#class-9")
    box.clear()
    box.send_keys("nine", ENTER)
    page.until(lambda: "nine" in page.text("#classes"))
    page.close()
    assert digits.get("/api/classes")["classes"][9]["name"] == "nine"
    page.dialog("c")
    box = page.find("#class-9")
    box.clear()
    box.send_keys("9", ENTER)
    page.until(lambda: "nine" not in page.text("#classes"))


def test_reload_keeps_the_place(page: Page) -> None:
    page.open("reload")
    page.answer("4")
    item, labelled = page.item, page.labelled
    page.driver.refresh()
    page.ready()
    assert (page.item, page.labelled) == (item, labelled)
    assert page.text("#person") == "reload"


def test_a_second_person_gets_another_item(page: Page) -> None:
    first = page.open("anna").item
    second = page.open("ben").item
    assert first != second
    assert "anna" in page.text("#people")
    assert page.open("anna").item == first


def test_a_dispute_is_found_and_settled(page: Page, digits: Server) -> None:
    item = digits.answered_by(anna=1, ben=2)
    page.open("clara")
    page.until(lambda: "1 disputed item" in page.text("#disputed"))
    page.find("#disputed").click()
    page.until(lambda: page.all("dialog .result"))
    assert "anna: 1 · ben: 2" in page.text("dialog .result .meta")
    page.find("dialog .result").click()
    page.shows(item)
    page.answer("1")
    assert digits.get(f"/api/items/{item}")["label"] == 1  # two say so against one
    page.until(lambda: not page.find("#disputed").is_displayed())


def test_changing_the_name(page: Page) -> None:
    page.open("bert")
    assert page.text("#person") == "bert"
    page.find(".person").click()
    page.until(lambda: page.all("dialog.person-dialog"))
    page.press("clara", ENTER)
    page.until(lambda: page.text("#person") == "clara" and not page.busy)
    page.driver.refresh()
    page.ready()
    assert page.text("#person") == "clara"


def test_probabilities_are_hidden_on_request_and_on_checks(page: Page, digits: Server) -> None:
    page.open("hiding")
    page.answer("1")

    def shown() -> bool:  # of a class with a tiny probability none is shown
        return any(page.text(f'[data-class="{number}"] .share') for number in range(10))

    reasons = set()
    for i in range(25):
        check = "Random check" in page.text("#reason")
        assert shown() != check
        reasons.add(check)
        if reasons == {True, False}:
            break
        page.answer(str(i % 10))
    assert reasons == {True, False}
    while "Random check" in page.text("#reason"):
        page.answer("1")
    page.press("p")
    page.until(lambda: not shown())
    page.driver.refresh()
    page.ready()
    assert not shown()
    page.press("p")
    page.until(shown)


def test_search_and_jump(page: Page, digits: Server) -> None:
    page.open("search")
    assert page.dialog("/") == "Search"
    box = page.places("#search-box")
    page.press("17")
    found = page.until(lambda: page.all(".result"))
    assert page.places("#search-box") == box
    there = {each["id"]: each["state"] for each in digits.get("/api/search?q=17")["items"]}
    free = next(each for each in found[1:] if there[str(each.get_attribute("data-item"))] == "free")
    wanted = free.get_attribute("data-item")
    free.click()
    page.shows(str(wanted))
    assert "asked" in page.text("#reason")


def test_enter_opens_the_first_result_however_slow_the_server_is(page: Page) -> None:
    page.open("slow search")
    page.dialog("/")
    page.hold()
    page.press("17", ENTER)
    time.sleep(0.5)  # longer than the search waits for further typing
    page.script("window.release()")
    page.until(lambda: not page.all("dialog[open]") and not page.busy)
    assert "17" in page.item


def test_search_shows_what_the_reader_has_open_and_what_the_keys_do(page: Page, digits: Server) -> None:
    page.open("mine")
    other = str(digits.post("/api/next", person="other")["next"]["item"]["id"])
    page.dialog("/")

    def said(item: str) -> str:
        page.script("document.getElementById('search-box').value = ''")
        page.press(item)
        page.until(lambda: page.all(f'.result[data-item="{item}"]'))
        return page.text(f'.result[data-item="{item}"] .result-note')

    assert said(page.item) == "you have it open"
    assert said(other) == "open on another screen"
    said("1789")
    page.until(lambda: len(page.all(".result")) == 1)
    assert [note.text for note in page.all("dialog .note")] == ["1 item.", "Enter opens it."]
    page.close()


def test_history_relabels(page: Page, digits: Server) -> None:
    page.open("history")
    item = page.answer("2")
    page.answer("3")
    assert page.dialog("h") == "History"
    page.until(lambda: len(page.all(".result")) == 2)
    assert "history" not in page.text(".result .meta")  # one's own name says nothing
    page.find("#history-mine").click()
    page.until(lambda: "history · " in page.text(".result .meta"))
    page.find("#history-mine").click()
    page.until(lambda: len(page.all(".result")) == 2)
    page.all(".result")[1].click()
    page.shows(item)
    assert page.find('[data-class="2"]').get_attribute("aria-description")
    assert page.text("#reason") == "Your answer so far: 2. A new answer replaces it"
    page.answer("8")
    assert _answers(digits, "history")[0]["class"] == 8


def test_the_map_opens_items(page: Page) -> None:
    page.open("map")
    assert page.dialog("m") == "Map"
    page.until(lambda: page.all("canvas.scatter"))
    before = page.item

    def to_the_right(card: str) -> str:
        page.press("\ue014")
        page.until(lambda: page.text(".map-card") not in ("", card))
        return page.text(".map-card")

    card = to_the_right("")
    while card.endswith(("open on another screen", "you have it open")):
        card = to_the_right(card)
    page.press(ENTER)
    page.until(lambda: not page.all("dialog[open]") and page.item != before)


POINT_AT = """
const canvas = document.querySelector("canvas.scatter"), { left, top } = canvas.getBoundingClientRect();
const map = await (await fetch("/api/map")).json(), i = map.ids.indexOf(arguments[0]), margin = 18;
const along = (share, length) => margin + share * (length - 2 * margin);
const clientX = left + along(map.x[i], canvas.clientWidth);
const clientY = top + along(1 - map.y[i], canvas.clientHeight);
canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
"""


def test_the_map_shows_what_someone_has_open(page: Page, digits: Server) -> None:
    page.open("map")
    other = digits.post("/api/next", person="another")["next"]["item"]
    page.dialog("m")
    page.until(lambda: page.all("canvas.scatter"))
    page.script(POINT_AT, str(other["id"]))
    page.until(lambda: page.text(".map-card").startswith(f"Item {other['name']}"))
    assert page.text(".map-card").endswith("open on another screen")


def test_settings_choose_the_strategy(page: Page, digits: Server) -> None:
    page.open("settings")
    assert page.dialog(",") == "Settings"
    body = "const body = document.querySelector('.dialog-body'); return body.scrollHeight - body.clientHeight"
    assert page.script(body) <= 1  # all settings are in sight
    page.find("#strategy [value=margin]").click()
    page.until(lambda: digits.get("/api/session")["settings"]["strategy"] == "margin")
    assert "two best guesses" in page.text("#strategy + .note")
    page.find("#strategy [value=lookahead]").click()
    page.until(lambda: digits.get("/api/session")["settings"]["strategy"] == "lookahead")


def test_export_saves_a_file_or_says_why_not(page: Page, digits: Server, tmp_path: Path) -> None:
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    page.open("export")
    page.answer("6")
    page.dialog("e")
    page.until(lambda: page.all('[aria-label="Answers as CSV"]'))[0].click()
    page.until(lambda: "Saved" in page.text("dialog"))
    files = page.until(lambda: list(tmp_path.glob("*.csv")))
    assert "export" in files[0].read_text()
    offered = [link.get_attribute("aria-label") for link in page.all('.download[href*="labelstudio"]')]
    assert offered == ["Answers as Label Studio"]  # the server refuses the others
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/api/model*"]})
    page.find('[aria-label="Model: ONNX"]').click()
    page.until(lambda: "does not answer" in page.text("dialog"))
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.console()  # the browser notes what was blocked


def test_page_works_with_tab_and_enter_alone(page: Page, digits: Server) -> None:
    page.open("tab")
    for _ in range(40):
        page.press(TAB)
        if page.script("return document.activeElement.dataset.class") == "6":
            break
    item = page.item
    page.press(ENTER)
    page.moved_on(item)
    assert _answers(digits, "tab")[0]["class"] == 6
    assert page.script("return document.activeElement.dataset.class") == "6"  # the focus stays


def test_typing_is_not_taken_for_shortcuts(page: Page) -> None:
    item = page.open("typing").item
    page.dialog("/")
    page.press("1 u s x n")
    assert page.find("#search-box").get_attribute("value") == "1 u s x n"
    page.close()
    assert page.item == item


def test_single_keys_can_be_switched_off(page: Page) -> None:
    item = page.open("off").item
    page.dialog(",")
    page.find("#plain-keys").click()
    page.close()
    page.press("1", "s", "x")
    assert page.item == item
    page.find('[data-class="1"]').click()
    page.moved_on(item)
    page.press_with(CONTROL, "z")
    page.shows(item)


def test_an_echo_of_a_key_is_no_answer(page: Page, digits: Server) -> None:
    page.open("echo")
    item = page.item
    press = """document.body.dispatchEvent(
        new KeyboardEvent("keydown", {key: "3", code: "Digit3", bubbles: true}));"""
    page.script(f"""{press}
        new MutationObserver(() => {{ {press} }}).observe(
            document.getElementById("item"), {{attributes: true, attributeFilter: ["data-item"]}});
    """)
    page.moved_on(item)
    assert len(_answers(digits, "echo")) == 1
    assert not page.all(".class.chosen")


def test_sentence_on_the_accuracy_claims_no_more_than_is_known(page: Page) -> None:
    page.open("claims")
    script = """const [accuracy, every, done] = arguments;
        import("/static/accuracy.js").then((told) => done(told.howMeasured(accuracy, every)));"""

    def told(**more: object) -> str:
        known: dict[str, object] = {"checks": 50, "estimate": 0.9, "low": 0.79, "high": 0.96}
        known |= {"expected": 0.85, "unanswered": 0, **more}
        return str(page.driver.execute_async_script(script, known, 10))

    text = told()
    assert "The 50 random checks correct for the other items, which are harder" in text
    assert "the model expects to be right on 85\u00a0% of the unlabelled items" in text
    assert "skipped or left" not in text
    assert "3 checks were skipped or not answered, so the figure may be too high." in told(unanswered=3)
    assert "1 check was skipped" in told(unanswered=1)
    assert "figure" not in told(estimate=None)


def test_the_end_explains_what_becomes_of_skipped_items(page: Page) -> None:
    page.open("end")
    page.script("""import("/static/state.js").then((state) => state.setTask(null));""")
    page.until(lambda: "Skipped items come back at the end, the oldest first" in page.text("#item"))


OUT_OF_SIGHT = """const room = document.querySelector("dialog .dialog-body").getBoundingClientRect();
const out = (part) => {
    const box = part.getBoundingClientRect();
    return box.left < room.left || box.right > room.right || part.scrollWidth > part.clientWidth + 1;
};
const parts = [...document.querySelectorAll(`dialog :is(${arguments[0]})`)];
return parts.filter(out).map((part) => part.innerText)"""


def test_figures_by_class_and_a_class_to_test_more(page: Page, digits: Server) -> None:
    page.open("figures")
    for key in "1234123412341234":
        page.answer(key)
    page.until(lambda: digits.get("/api/figures")["checks"] is not None)
    page.find("[data-do=figures]").click()
    page.until(lambda: "to go" in page.text(".figures-table"))
    assert "A figure needs 10 random checks" in page.text("dialog .note")
    assert "Each item is predicted by a model that did not learn its label." in page.text("dialog .note")
    for width, height in ((1280, 820), (1440, 900), (390, 844)):
        page.size(width, height)
        assert page.script(OUT_OF_SIGHT, "h2, h3, th, .figures-table button") == []
        assert (
            page.script("return getComputedStyle(document.querySelector('dialog h3')).textAlign") == "start"
        )
    page.find(".figures-table button").click()
    page.until(lambda: page.text(".figures-table button") == "10 checks to come")
    wishes = digits.get("/api/figures")["wishes"]
    assert [wish["class"] for wish in wishes] == [0]
