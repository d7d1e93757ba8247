"""Many with one key, in the browser: queues, near copies, search results, the map."""

from tests.web.browser.pages import BACKSPACE, ENTER, ESCAPE, Page, plain
from tests.web.browser.servers import Server

TOGETHER = """
    const buttons = [...document.querySelectorAll("dialog .quiet")];
    buttons.find((each) => each.textContent.startsWith("Label")).click();
"""
CHOOSE = """
    const of = document.getElementById("queue-class");
    of.value = "3";
    of.dispatchEvent(new Event("change"));
"""


def _bulk(server: Server, person: str) -> list[dict[str, object]]:
    events = server.get(f"/api/history?person={person}&limit=500")["events"]
    return [event for event in events if event["kind"] == "label" and not event["undone"]]


def _several(page: Page) -> list[str]:
    """Return the ids that are ticked, once the list is there."""
    page.until(lambda: page.all("dialog.several .tick"))
    script = "return [...document.querySelectorAll('.tick:checked')].map((each) => each.dataset.item)"
    return list(page.script(script))


def _done(page: Page) -> None:
    page.until(lambda: not page.all("dialog[open]") and not page.busy and "Saved:" in page.text("#tick"))


def test_search_results_get_one_class_and_one_undo_takes_it_back(text_page: Page, texts: Server) -> None:
    page = text_page.open("several")
    page.dialog("/")
    page.press("word7")
    page.until(lambda: len(page.all("dialog .result")) > 1)
    page.press_with("\ue009", ENTER)
    ids = _several(page)
    assert len(ids) > 1
    page.script("document.querySelector('.several-list .tick').focus()")
    page.press(" ")  # takes the first out again
    assert _several(page) == ids[1:]
    before = page.labelled
    first = page.text("dialog .several-classes button span")
    page.script("document.querySelector('.several-filter').focus()")
    page.press(first, ENTER)
    _done(page)
    assert f"as {first}" in page.text("#tick")
    page.until(lambda: "One undo takes back all of them." in page.text("#toasts"))
    given = _bulk(texts, "several")[: len(ids) - 1]
    assert {event["item"] for event in given} == set(ids[1:])
    page.press(BACKSPACE)  # with many classes, letters filter them
    page.until(lambda: len(_bulk(texts, "several")) == 0)
    page.until(lambda: page.labelled == before)


def test_found_items_that_have_a_label_start_unticked(text_page: Page, texts: Server) -> None:
    page = text_page.open("relabel")
    page.jump("word9")
    label = str(texts.get("/api/session?person=relabel")["classes"][0]["name"])
    page.press("f")
    page.script("document.getElementById('filter').value = ''")
    page.press(label)
    labelled = page.answer(ENTER)
    page.dialog("/")
    page.press("word9")
    page.until(lambda: len(page.all("dialog .result")) > 1)
    page.press_with("\ue009", ENTER)
    ids = _several(page)
    assert ids
    assert labelled in [each.get_attribute("data-item") for each in page.all(".several-list .tick")]
    assert labelled not in ids  # one key would replace its label
    page.close()
    page.press(BACKSPACE)  # others share this server
    page.shows(labelled)


def test_queues_by_keyboard(page: Page, digits: Server) -> None:
    page.open("queues")
    for i in range(12):
        page.answer(str(i % 10))
    assert page.dialog("q") == "Queues"
    page.until(lambda: page.all("[data-queue]"))
    counts = {each["name"]: each["count"] for each in digits.get("/api/queues")["queues"]}
    assert page.text("[data-queue=predicted] .result-note").replace(",", "") == str(counts["predicted"])
    assert page.script("return document.querySelector('[data-queue=more]').disabled")  # of which class?
    page.script(CHOOSE)
    page.until(lambda: not page.script("return document.querySelector('[data-queue=more]').disabled"))
    page.script("document.querySelector('[data-queue=more]').focus()")
    page.press(ENTER)
    page.until(lambda: page.text("#dialog-title") == "Find more: 3")
    found = digits.get("/api/queues/more?class=3&limit=100")
    page.until(lambda: len(page.all("dialog .result")) == len(found["items"]))
    assert len({button.rect["y"] for button in page.all("dialog .row button")}) == 1
    page.script(TOGETHER)
    assert _several(page) == [item["id"] for item in found["items"]]
    keys = "return [...document.querySelectorAll('.several-classes button')].map((each) => each.dataset.key)"
    assert page.script(keys)[:10] == [
        str(digit) for digit in range(10)
    ]  # the keys that they have on the page
    assert page.text("dialog .several-classes .primary span") == "3"
    page.press(ESCAPE)
    page.until(lambda: not page.all("dialog[open]"))


COPIES = """
    const done = arguments[arguments.length - 1];
    import("/static/state.js").then(({setTask, state}) => {
        const usual = window.fetch;
        window.fetch = async (url, ...rest) => {
            if (!String(url).includes("/api/queues/copies")) return usual(url, ...rest);
            const {items: some} = await (await usual("/api/queues/between?limit=4")).json();  // never empty
            const items = some.filter((item) => item.id !== state.task.item.id).slice(0, 3);
            const headers = {"content-type": "application/json"};
            return new Response(JSON.stringify({guess: 3, items}), {headers});
        };
        setTask({...state.task, reason: "chosen", probabilities: Array(10).fill(0.1)});
        done();
    });
"""


def test_near_copies_are_offered_and_enter_labels_all(page: Page, digits: Server) -> None:
    page.open("copies")
    page.answer("1")
    while "Random check" in page.text("#reason"):
        page.answer(" ")
    page.driver.execute_async_script(COPIES)
    page.until(lambda: "near copies" in page.text("#copies"))
    reason, link = page.find("#reason").rect, page.find("#copies").rect
    assert 0 < link["x"] - (reason["x"] + reason["width"]) < 30  # both at the end of the line
    assert page.dialog("g") == "Near copies"
    assert "The model says 3" in page.text("dialog [role=status]")
    ids = _several(page)
    page.press(ENTER)
    _done(page)
    given = _bulk(digits, "copies")[: len(ids)]
    assert {event["item"] for event in given} == set(ids)
    assert {event["class"] for event in given} == {3}


def test_a_key_in_the_list_is_not_taken_for_an_answer_to_the_item(page: Page) -> None:
    page.open("bulk key")
    page.answer("1")
    while "Random check" in page.text("#reason"):  # its copies are not offered
        page.answer("1")
    page.driver.execute_async_script(COPIES)
    page.until(lambda: "near copies" in page.text("#copies"))
    page.dialog("g")
    _several(page)
    page.press("3")
    _done(page)
    assert page.text("#missed") == ""  # no "1 answer did not count"


def test_a_loop_on_the_map(page: Page, digits: Server) -> None:
    page.open("lasso")
    page.dialog("m")
    page.until(lambda: page.all("canvas.scatter"))
    page.script("""
        const canvas = document.querySelector("canvas.scatter");
        const {width, height, left, top} = canvas.getBoundingClientRect();
        const at = (kind, x, y) => {
            const place = {clientX: left + x * width, clientY: top + y * height};
            canvas.dispatchEvent(new PointerEvent(kind, {pointerId: 1, shiftKey: true, ...place}));
        };
        canvas.setPointerCapture = () => {};
        at("pointerdown", 0.4, 0.4);
        for (const [x, y] of [[0.6, 0.4], [0.6, 0.6], [0.4, 0.6]]) at("pointermove", x, y);
        at("pointerup", 0.4, 0.6);
    """)
    ids = _several(page)
    assert 0 < len(ids) <= 500
    before = digits.get("/api/progress")["labelled"]
    page.press("2")
    _done(page)
    assert before < digits.get("/api/progress")["labelled"] <= before + len(ids)  # others have some of them
    page.press("u")
    page.until(lambda: digits.get("/api/progress")["labelled"] == before)


def test_the_list_can_be_read_by_everybody(page: Page, axe: str) -> None:
    page.open("axe several")
    page.answer("1")
    page.dialog("q")
    page.until(lambda: page.all("[data-queue]"))
    assert page.violations(axe) == []
    page.script("document.querySelector('[data-queue=predicted]').click()")
    page.until(lambda: page.all("dialog.queue .result"))  # not of the list of queues, which is closing
    page.script(TOGETHER)
    _several(page)
    assert page.violations(axe) == []
    page.size(360, 740, mobile=True)
    assert page.script("return document.documentElement.scrollWidth <= 360")


RATE = """const box = document.getElementById("finish-rate");
box.value = arguments[0];
box.dispatchEvent(new Event("input"))"""


def test_a_model_that_cannot_promise_does_not_finish(page: Page, axe: str) -> None:
    page.open("finish")
    page.answer("1")
    page.script("document.querySelector('.side [data-do=finish]').click()")
    page.until(lambda: page.text("dialog .note[role=status]"))
    page.script(RATE, "0.1")  # no model is that good
    page.until(lambda: "sure enough of" in page.text("dialog .note[role=status]"))
    assert page.script("return document.querySelector('dialog .primary').disabled")
    colour = "return getComputedStyle(document.querySelector('dialog .primary')).backgroundColor"
    disabled = page.script(colour)
    page.script("document.querySelector('dialog .primary').disabled = false")
    assert page.script(colour) != disabled  # one sees that it does nothing
    page.script("document.querySelector('dialog .primary').disabled = true")
    assert page.violations(axe) == []
    page.close()


NEEDED = """const [needed, done] = arguments;
    import("/static/state.js").then(({state, setProgress}) => {
        setProgress({...state.progress, finishing: {needed, rate: 0.05, confirmed: 9, wrong: 3}});
        done();
    });"""


def test_confirmations_that_cannot_succeed_end_with_a_word(page: Page) -> None:
    page.open("hopeless")
    for needed in (40, None):
        assert not page.all("dialog[open]")
        page.driver.execute_async_script(NEEDED, needed)
    page.until(lambda: page.text("#dialog-title") == "Let the model finish")
    page.close()


def test_boxes_begin_at_one_place_and_buttons_stand_apart(page: Page) -> None:
    page.size(1400, 760)
    page.open("boxes")
    assert len({button.rect["y"] for button in page.all("[aria-labelledby=accuracy-heading] button")}) == 1
    gap = """const place = (name) => document.querySelector(name).getBoundingClientRect();
        return place(".explain ~ .row button").top - place(".explain").bottom"""
    assert page.script(gap) >= 6
    page.script("document.querySelector('.side [data-do=finish]').click()")
    page.until(lambda: len(page.all("dialog input")) == 2)
    assert len({box.rect["x"] for box in page.all("dialog input")}) == 1
    page.close()


SUSPECT = """
    const usual = window.fetch;
    window.fetch = async (url, ...rest) => {
        if (!String(url).includes("/api/queues/suspect")) return usual(url, ...rest);
        const text = "a message that was labelled in a hurry ".repeat(5);
        const known = {id: "1", name: "1", image: null, text, state: "labelled", guess: null};
        const verdict = {label: 1, doubt: 2, score: 0.72, otherwise: [{label: 2, text}, {label: 2, text}]};
        const headers = {"content-type": "application/json"};
        const told = {count: 1, labels: 58, expected_errors: 1.8, items: [{...known, ...verdict}]};
        return new Response(JSON.stringify(told), {headers});
    };
    const button = document.querySelector("[data-queue=suspect]");
    button.disabled = false;
    button.click();
"""


def test_suspect_label_can_be_read_and_errors_are_counted(page: Page) -> None:
    page.open("suspect")
    page.dialog("q")
    page.until(lambda: page.all("[data-queue=suspect]"))
    page.script(SUSPECT)
    page.until(lambda: "Wrong with a probability of 72" in page.text("dialog .result-note"))
    assert page.text("dialog [role=status]") == (
        "About 2 of 58 labels may be wrong. The most suspect one is shown."
    )
    cut = """const text = document.querySelector("dialog .result-text");
        return text.scrollHeight > text.clientHeight + 1"""
    assert not page.script(cut)
    text, note = page.find("dialog .result-text").rect, page.find("dialog .result-note").rect
    assert note["y"] >= text["y"] + text["height"]
    page.close()


def test_suspect_labels_are_not_known_before_the_first_estimate(page: Page) -> None:
    page.open("early")
    page.script("""
        const usual = window.fetch;
        window.fetch = async (url, ...rest) => {
            const found = await (await usual(url, ...rest)).json();
            for (const each of found.queues ?? []) if (each.name === "suspect") each.count = null;
            return new Response(JSON.stringify(found), {headers: {"content-type": "application/json"}});
        };
    """)
    page.dialog("q")
    page.until(lambda: page.all("[data-queue=suspect]"))
    assert page.text("[data-queue=suspect] .result-note") == "not known yet"
    assert page.script("return document.querySelector('[data-queue=suspect]').disabled")
    assert page.text("[data-queue=more] .result-note") == "choose a class"
    page.close()


def test_saved_message_is_not_cut(page: Page) -> None:
    page.open("tick")
    before = [button.rect for button in page.all(".actions button")]
    page.script("document.getElementById('tick').textContent = 'Saved: transfer not received by recipient'")
    cut = """const tick = document.getElementById("tick");
        return tick.scrollWidth > tick.clientWidth || tick.scrollHeight > tick.clientHeight + 1"""
    assert not page.script(cut)
    assert [button.rect for button in page.all(".actions button")] == before


SENTENCE = """const [name, given, done] = arguments;
    import("/static/finishing.js").then((module) => done(module[name](given, {rate: 0.05})));"""


WHY = """const [probabilities, done] = arguments;
    const task = {reason: "chosen", by: "herding", answer: null, probabilities};
    import("/static/task.js").then((module) => done(module.reasonText(task)));"""


def test_a_sure_model_is_not_called_unsure(page: Page) -> None:
    page.open("why")
    told = {p: str(page.driver.execute_async_script(WHY, [p, 1 - p])) for p in (0.5, 0.99)}
    assert "the model is unsure here" in told[0.5]
    assert "the model is fairly sure" in told[0.99]


def test_confirmations_are_explained_in_plain_words(page: Page) -> None:
    page.open("finish")

    def told(name: str, **given: object) -> str:
        return plain(page.driver.execute_async_script(SENTENCE, name, given))

    assert told("planned", items=812, yes=None, needed=68).startswith(
        "The model would label the 812 items that it is surest of. First confirm 68 of them"
    )
    assert "too few for an error rate of 5 %" in told("planned", items=30, yes=None, needed=None)
    assert "say yes or no to this class on the 812 items that it is surest of (yes on 12, no on 800)" in told(
        "planned", items=812, yes=12, needed=68
    )
    now = {
        "class": None,
        "rate": 0.05,
        "confidence": 0.95,
        "items": 812,
        "confirmed": 37,
        "wrong": 0,
        "needed": 31,
        "ready": 0,
    }
    assert told("running", **now).startswith("37 of 68 confirmed, no error, for 812 items.")
    done = now | {"confirmed": 68, "needed": 0, "ready": 812}
    promise = "at most 5 % of them are wrong, with 95 % confidence."
    assert (
        told("running", **done) == f"68 of 68 confirmed, no error. The model may label 812 items: {promise}"
    )
    kept = {"of": 812, "rate": 0.05, "confidence": 0.95, "confirmed": 68, "wrong": 1}
    assert told("finished", items=744, classes=[], **kept) == (
        "The model has labelled 744 items. Of 812 items, 68 were confirmed (1 error). At most 5 % are wrong, "
        "with 95 % confidence."
    )
    page.script("document.querySelector('[data-do=finish]').click()")
    page.until(lambda: "The model" in page.text("dialog.finishing [role=status]"))
    page.press(ESCAPE)
