"""Make the golden projects of version 0.2 with its own code: `make.py` runs this on a checkout of it."""

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from starlette.testclient import TestClient

from tests.golden.scripted import FOREVER, KNOWN_BY, START, WORDS, Clock, People, texts

ENCODER = "golden-words"
_annotations = import_module("everylabel.label_studio.annotations")
_server = import_module("everylabel.web.server")
Annotation, Marks = _annotations.Annotation, _annotations.Marks
Configuration = import_module("everylabel.label_studio.configuration").Configuration
Label = import_module("everylabel.projects.log").Label
Learning = import_module("everylabel.label_studio.learning").Learning
ServeOptions, opened_server = _server.ServeOptions, _server.opened_server
check_labelled = import_module("everylabel.projects.labelled").check_labelled
open_project = import_module("everylabel.projects.project").open_project
options_file = import_module("everylabel.projects.options")
refit = import_module("everylabel.labelling.refit").refit


def main(out: Path) -> None:
    """Write the projects to a folder."""
    for name, make in {"page": make_page, "named": make_named, "studio": make_studio}.items():
        with fixed():
            make(out / name)
        _move(out / name)


def _move(made: Path) -> None:
    """Write /golden as the source's place into a project's folder."""
    (about,) = (made / "project").glob("*.everylabel")
    noted = options_file.remembered(about)
    source = f"/golden/{made.name}/{Path(noted.source).name}"
    options_file.remember(about, noted._replace(source=source))


class Session:
    """A project that is served: people who label it, and its service."""

    def __init__(self, people: People, service: Any) -> None:
        self.people, self.service = people, service

    def train(self) -> None:
        """Run a background training, at a time that does not depend on speed."""
        refit(self.service.desk)


@contextmanager
def fixed() -> Iterator[None]:
    """Make time, ids and training deterministic: training runs only on request."""
    clock = Clock()
    with (
        mock.patch("everylabel.labelling.desk.time", clock.module()),
        mock.patch("everylabel.projects.log.time", clock.module()),
        mock.patch("everylabel.web.server.Refitter", mock.MagicMock()),
        mock.patch("everylabel.projects.project.secrets.token_hex", return_value=KNOWN_BY),
    ):
        yield


@contextmanager
def session(
    source: Path, truth: dict[str, str], requests: list[dict[str, Any]], options: Any, **how: Any
) -> Iterator[Session]:
    """Serve a source, as the command would."""
    accept = options.accept_changes or options.confirm_labels
    project = open_project(source, keep=False, check=check_labelled(None, accept=accept), **how)
    notes: list[str] = []
    with opened_server(project, replace(options, port=0), notes.append, notes.append, None) as opened:
        client = TestClient(opened.server.config.app, base_url="http://127.0.0.1")
        yield Session(People(client, truth, requests, seed=len(requests)), opened.service)
    print(source.name, *notes, sep="\n    ")


def make_page(to: Path) -> None:
    """Texts that three people label on the page with all its functions, in three starts."""
    source, truth, requests = to / "project" / "texts.csv", dict[str, str](), list[dict[str, Any]]()
    source.parent.mkdir(parents=True)
    rows = [[f"t{i}", text, kind if i < 3 else "", f"row {i}"] for i, (text, kind) in enumerate(texts(72, 5))]
    truth |= {f"t{i}": kind for i, (_, kind) in enumerate(texts(72, 5))}
    _write(source, rows)
    how = {"text_column": "text", "id_column": "id", "label_column": "kind", "model": "tfidf"}
    options = ServeOptions(
        settings={"check_every": 2, "strategy": "margin", "lease_seconds": FOREVER},
        labels=[Label("t40", "card", "Cem"), Label("t41", "money", "Cem"), Label("t43", "hello")],
        descriptions={"card": "plastic that pays", "travel": "on the way"},
        class_keys={"card": "c", "money": "1"},
        test="4",
    )
    with session(source, truth, requests, options, **how) as begun:
        _page_answers(begun)
        _page_classes(begun)
        _page_people(begun)
    rows[5][1] += " changed"  # answered by then
    rows[6][1] += " changed"
    rows[40][1] += " changed"
    _write(source, [*rows[:70], ["t80", "hello friend thanks the flight", "", "row 80"]])
    settings = {"annotators_per_item": 2, "tester": "Bob", "names": False, "lease_seconds": FOREVER + 1}
    with session(source, truth, requests, ServeOptions(settings=settings, accept_changes=True)) as again:
        again.people.label("Ann", 3)
        again.people.label("Bob", 4, wrong=0.4)
        again.train()
    settings = {"names": True, "annotators_per_item": 1}
    with session(source, truth, requests, ServeOptions(confirm_labels=True, settings=settings)) as last:
        last.people.label("me", 2, keys="last-")
        last.train()
        _page_finish(last)
        more = [{"text": text, "id": f"later-{i}"} for i, (text, _) in enumerate(texts(40, seed=6))]
        last.people.post("items", items=more)
        last.train()  # enough for the scale of features to be estimated again, from all of them
        last.people.label("me", 1)
        last.people.post("undo", person="Bob", key="undo-Bob")
        last.people.next("Ann")
    _write_requests(to, requests)


def _page_answers(begun: Session) -> None:
    """Give, undo and repeat every kind of answer."""
    people = begun.people
    people.label("me", 8, keys="me-")
    begun.train()
    for kind in ("skip", "cannot_tell", "none"):
        item = people.next("me")
        people.post(kind, person="me", item=item, key=f"{kind}-1")
        people.post("undo", person="me", key=f"undo-{kind}")
        people.post(kind, person="me", item=item, key=f"{kind}-2")
        people.label("me", 1)
    people.post("skip", person="me", item=people.until("me", "check"))
    people.post("none", person="me", item=people.until("me", "check"))
    item, known = people.next("me"), people.classes()
    wrong = [number for name, number in known.items() if name != people.truth[item]]
    people.post("not", person="me", item=item, class_=wrong[0], key="not-1")
    people.post("not", person="me", item=item, class_=wrong[1])
    people.post("undo", person="me", key="undo-not")
    people.label("me", 1)
    people.post("label", person="me", item=people.next("me"), class_=known["card"])
    people.post("undo", person="me", key="undo-label")
    people.label("me", 2)
    item = people.next("Ann")
    people.post("not", person="Ann", item=item, class_="card")  # and it stays so
    people.post("jump", person="Ann", item=people.free(1)[0], key="jump-1")
    several = people.free(6)
    people.post("label_many", person="me", items=several[:3], class_=known["hello"], key="many-1")
    people.post("label_many", person="me", items=several[3:], class_="card", key="many-2")
    people.post("undo", person="me", key="undo-many")
    sent = [{"text": "why is my card blocked", "id": "sent-1", "fields": {"from": "mail", "urgent": True}},
            {"text": "send money to a friend"}]  # fmt: skip
    people.post("items", items=sent)
    begun.train()


def _page_classes(begun: Session) -> None:
    """Make every change of classes, and undo some."""
    people = begun.people
    known = people.classes()
    people.post("classes", person="me", name="Trips", key="class-1")
    people.post("classes", person="me", name="other", sure=True)
    people.post("classes", person="me", name="spare")
    known = people.classes()
    trips, hello = known["Trips"], known["hello"]
    people.send("PATCH", f"classes/{hello}", person="Ann", name="greeting")
    people.truth |= {item: "greeting" for item, name in people.truth.items() if name == "hello"}  # type: ignore[operator]
    people.send("PATCH", f"classes/{known['money']}", person="Ann", description="what it costs", own_key="2")
    card = f"classes/{known['card']}"
    for change in ({"name": "cards"}, {"description": ""}, {"own_key": "7"}, {"colour": "#12ab9f"}):
        people.send("PATCH", card, person="me", **change)
        _undo_classes(people)
    people.post("classes", person="me", name="never")
    _undo_classes(people)
    people.post("classes/order", person="me", order=sorted(people.classes().values(), reverse=True))
    _undo_classes(people)
    people.send("PATCH", f"classes/{known['card']}", person="me", colour="#aa0011", own_key="")
    for item in people.free(3):
        people.post("jump", person="Ann", item=item)
        people.post("label", person="Ann", item=item, class_=trips)
    people.post(f"classes/{trips}/remove", person="me", into=known["travel"])
    people.post(f"classes/{known['other']}/remove", person="me")
    people.post(f"classes/{known['other']}/restore", person="me")
    _undo_classes(people)
    people.post(f"classes/{known['other']}/restore", person="Bob")
    people.post(f"classes/{hello}/remove", person="me")
    _undo_classes(people)
    people.post(f"classes/{known['spare']}/remove", person="me")
    order = sorted(people.classes().values(), reverse=True)
    people.post("classes/order", person="me", order=order)
    people.send("PATCH", "settings", person="me", strategy="entropy", check_every=4, names=True)
    begun.train()


def _undo_classes(people: People) -> None:
    last = people.client.get("/api/classes").json()["last"]
    people.post("classes/undo", person="me", saved=last["saved"])


def _page_people(begun: Session) -> None:
    """Request more checks of a class; let people disagree."""
    people = begun.people
    people.post("wish", person="me", class_=people.classes()["money"], checks=3, key="wish-1")
    people.post("wish", person="me", class_=people.classes()["card"], checks=5)
    people.post("wish", person="me", class_=people.classes()["card"], checks=0)
    people.label("me", 8)
    people.label("Bob", 3)
    for item in ("t5", "t6", "t7"):
        for person, name in (("Ann", "card"), ("Bob", "money"), ("me", "travel")):
            people.post("jump", person=person, item=item)
            people.post("label", person=person, item=item, class_=name)
    people.post("jump", person="me", item="t7")
    people.post("label", person="me", item="t7", class_="card")
    begun.train()


def _page_finish(last: Session) -> None:
    """Let the model finish, stop it, and let it finish again; a person checks a sample."""
    people = last.people
    people.post("finish", person="me", rate=0.5, confidence=0.5, audit=2)
    people.post("finish/undo", person="me")
    people.post("finish", person="me", rate=0.5, confidence=0.5, audit=3)
    people.until("Cem", "audit")
    people.label("Cem", 1)


def make_named(to: Path) -> None:
    """Features with vectors of class names, by an encoder that is not installed."""
    rng = np.random.default_rng(7)
    meaning = {word: rng.normal(size=8) for word in [*WORDS, "trips", "words", "about"]}
    names = list(WORDS)
    classes = rng.integers(4, size=50)
    features = np.stack([meaning[names[c]] for c in classes]) + 0.8 * rng.normal(size=(50, 8)) + 0.5
    source = to / "project" / "numbers.npz"
    source.parent.mkdir(parents=True)
    np.savez(source, X=features.astype(np.float32))
    truth = {str(i): names[c] for i, c in enumerate(classes)}
    requests: list[dict[str, Any]] = []

    def encode(phrases: list[str], *_: Any, **__: Any) -> np.ndarray:
        return np.stack([np.mean([meaning[word] for word in phrase.split()], axis=0) for phrase in phrases])

    options = ServeOptions(settings={"check_every": 3, "lease_seconds": FOREVER})
    with mock.patch("everylabel.projects.features.embed", encode):
        how = {"model": ENCODER, "classes": names}
        with session(source, truth, requests, options, **how) as begun:
            begun.people.label("me", 5, keys="me-")
            begun.train()
            number = begun.people.classes()["travel"]
            begun.people.send(
                "PATCH", f"classes/{number}", person="me", name="trips", description="words about"
            )
            _named(begun)
            begun.people.send("PATCH", "settings", person="me", names=False)
            begun.people.label("me", 3)
            begun.people.send("PATCH", "settings", person="me", names=True)
            begun.people.label("Ann", 6)
            begun.train()
    with session(source, truth, requests, ServeOptions(), model="tfidf") as other:  # which knows no words
        other.people.label("me", 1)
    with (
        mock.patch("everylabel.projects.features.embed", encode),
        session(source, truth, requests, ServeOptions(), model=ENCODER) as last,
    ):
        last.people.label("me", 2)
        last.train()
    _write_requests(to, requests)


def _named(begun: Session) -> None:
    """Wait until the class names are learned: they are embedded in the background."""
    begun.service.classes._naming.submit(lambda: None).result()


def make_studio(to: Path) -> None:
    """Tasks of Label Studio: annotations that come, change and go, votes, ground truth, sent answers."""
    source, truth, requests = to / "project" / "tasks.csv", dict[str, str](), list[dict[str, Any]]()
    source.parent.mkdir(parents=True)
    found = texts(32, seed=9)
    truth |= {str(i + 1): kind for i, (_, kind) in enumerate(found)}
    _write(source, [[str(i + 1), text, "", ""] for i, (text, _) in enumerate(found)])
    how = {"text_column": "text", "id_column": "id", "model": "tfidf", "classes": ["card", "money"]}
    options = ServeOptions(settings={"check_every": 4, "lease_seconds": FOREVER})
    with session(source, truth, requests, options, **how) as begun:
        people, choices = begun.people, {name: name.title() for name in WORDS}
        asked = Configuration("kind", "text", "Text", "text", choices)
        marks = Marks("golden")
        learning = Learning(begun.service, asked, marks)
        learning.add_classes().result()

        def said(number: int, task: int, name: str, person: int = 1, at: int = 0, **more: Any) -> Any:
            chosen = () if name == "" else (name.title(),)
            return Annotation(number, str(task), f"annotator {person}", START + at, chosen, **more)

        for i in range(6):
            learning.receive(said(10 + i, 1 + i, truth[str(1 + i)])).result()
        begun.train()
        for person, name in ((2, "card"), (3, "card")):
            learning.receive(said(20 + person, 2, name, person)).result()
        learning.receive(said(24, 2, "travel", 4, truth=True)).result()  # outvotes them
        learning.receive(said(10, 1, "hello", at=60)).result()  # said again
        learning.receive(said(25, 7, "", 2)).result()
        learning.receive(said(26, 8, "", 2, skipped=True)).result()
        learning.deleted([15, 25]).result()
        several = [said(30 + i, 10 + i, truth[str(10 + i)], 5) for i in range(4)]
        learning.compare([*several, *map(_again, learning.known().items(), [said] * 99)], 10**6)
        learning.tasks_gone(["3", "12", "30"]).result()
        learning.tasks_there(["12"]).result()
        people.label("me", 4)
        history = people.client.get("/api/history", params={"person": "me"}).json()["events"]
        for i, one in enumerate(history[:3]):
            sent = said(50 + i, int(one["item"]), one["class_name"], 9, unique_id=marks.of(one["saved"]))
            learning.sent(sent).result()
        people.post("undo", person="me", key="undo-1")
        learning.removing(50).result()
        learning.removed(50).result()
        begun.train()
    _write_requests(to, requests)


def _again(known: Any, said: Any) -> Any:
    """Return an annotation of the log in the form of the API; it is not new."""
    number, one = known
    return Annotation(number, "no such task", one.person, one.updated, ())


def _write(source: Path, rows: list[list[str]]) -> None:
    with source.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text", "kind", "note"], *rows])


def _write_requests(to: Path, requests: list[dict[str, Any]]) -> None:
    (to / "requests.json").write_text(json.dumps(requests, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
