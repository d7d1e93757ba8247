"""Make the golden projects of version 0.1 with its own code: `make.py` runs this on a checkout of it."""

import csv
import json
import sqlite3
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from starlette.testclient import TestClient

from tests.golden.scripted import FOREVER, KNOWN_BY, Clock, People, texts


def main(out: Path) -> None:
    """Write both projects to a folder."""
    clock = Clock()
    patches: list[Any] = [
        mock.patch("everylabel.serving.desk.time", clock.module()),
        mock.patch("everylabel.serving.begin.time", clock.module()),
        mock.patch("everylabel.serving.run.Refitter", mock.MagicMock()),  # trained when we say so
        mock.patch("everylabel.serving.project.secrets.token_hex", return_value=KNOWN_BY),
    ]
    for each in patches:
        each.start()
    make_texts(out / "first")
    clock.now = Clock().now
    make_arrays(out / "first_arrays")


def make_texts(to: Path) -> None:
    """Two people label texts: every kind of event of 0.1, and every answer undone."""
    source, truth = to / "project" / "texts.csv", dict[str, str]()
    source.parent.mkdir(parents=True)
    with source.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", "kind"])
        for i, (text, kind) in enumerate(texts(40, seed=1)):
            truth[f"t{i}"] = kind
            table.writerow([f"t{i}", text, kind if i in (4, 9, 15) else ""])
    requests: list[dict[str, Any]] = []
    labels = import_module("everylabel.serving.imports").Label
    given = [labels("t20", "card", "Cem"), labels("t21", "money", "Cem"), labels("t22", "trip", None)]
    how: dict[str, Any] = {
        "text_column": "text", "id_column": "id", "label_column": "kind", "model": "tfidf",
        "classes": ["card", "money", "hello"],
    }  # fmt: skip
    settings = {"check_every": 3, "strategy": "margin", "lease_seconds": FOREVER}
    with served(source, how, settings, given, requests, truth) as (people, train):
        people.post("classes", person="me", name="travel", key="new-class")
        people.label("me", 6, keys="me-")
        train()
        for kind in ("skip", "cannot_tell"):
            item = people.next("me")
            people.post(kind, person="me", item=item, key=f"{kind}-1")
            people.post("undo", person="me", key=f"undo-{kind}")
            people.post(kind, person="me", item=item)
            people.label("me", 1)
        people.label("Ann", 5)
        people.post("undo", person="Ann")
        people.label("Ann", 2)
        people.send("PATCH", f"classes/{people.classes()['trip']}", person="me", name="trips")
        people.send("PATCH", "settings", person="me", strategy="entropy", check_every=2)
        people.post("jump", person="me", item="t4", key="jump-1")
        people.post("label", person="me", item="t4", class_="money")
        people.label("me", 5)
        train()
        people.post("undo", person="me")
        people.label("Ann", 1)
    write_requests(to, requests)


def make_arrays(to: Path) -> None:
    """Three people answer the same rows of numbers and disagree; the server starts twice."""
    rng = np.random.default_rng(2)
    kinds, rows = ["left", "middle", "right"], 36
    classes = rng.integers(3, size=rows)
    features = (rng.normal(size=(3, 5))[classes] + 0.6 * rng.normal(size=(rows, 5))).astype(np.float32)
    source = to / "project" / "arrays.npz"
    source.parent.mkdir(parents=True)
    np.savez(source, X=features)
    truth = {str(i): kinds[c] for i, c in enumerate(classes)}
    requests: list[dict[str, Any]] = []
    label = import_module("everylabel.serving.imports").Label
    settings = {"check_every": 2, "annotators_per_item": 3, "lease_seconds": FOREVER}
    with served(source, {"classes": kinds}, settings, (), requests, truth) as (people, train):
        for _ in range(5):
            for person in ("Ann", "Bob", "Cem"):
                people.label(person, 1, wrong=0.4)
        train()
    given = [label("30", "left"), label("31", "right", "Dora")]
    with served(source, {}, {"annotators_per_item": 2}, given, requests, truth) as (people, train):
        for person in ("Bob", "Cem", "Ann", "Bob"):
            people.label(person, 2, wrong=0.4, keys=f"{person}-{len(requests)}-")
        people.post("cannot_tell", person="Cem", item=people.next("Cem"))
        people.post("undo", person="Ann", key="undo-Ann")
        people.post("skip", person="Ann", item=people.until("Ann", "check"))
        train()
    older = """UPDATE everylabel_events SET body = replace(body, '"file"', 'true') WHERE person = 'Dora'"""
    with closing(sqlite3.connect(to / "project" / "arrays.npz.everylabel" / "labels.sqlite")) as log:
        assert log.execute(older).rowcount == 1  # before 0.1 an import did not say where from
        log.commit()
    write_requests(to, requests)


class served:
    """A project of 0.1 that is served in this process, with people and a function that trains."""

    def __init__(
        self,
        source: Path,
        how: dict[str, Any],
        settings: dict[str, Any],
        labels: Any,
        requests: Any,
        truth: Any,
    ) -> None:
        self.run, refit = (
            import_module("everylabel.serving.run"),
            import_module("everylabel.serving.refit").refit,
        )
        project = import_module("everylabel.serving.project").open_project(source, keep=False, **how)
        options = self.run.ServeOptions(settings=settings, labels=labels)
        self.project, self.opening = project, self.run._opened(project, options, lambda text: None)
        self.requests, self.truth, self.refit = requests, truth, refit

    def __enter__(self) -> Any:
        opened, about = self.opening.__enter__(), self.project
        files = self.run.Downloads(about, opened.prepared, "pca")
        made = self.run.make_app(
            opened.service, about.contents, files, name=about.name, kind=about.kind, project_id=about.id
        )
        people = People(TestClient(made, base_url="http://127.0.0.1"), self.truth, self.requests, seed=3)
        return people, lambda: self.refit(opened.service.desk)

    def __exit__(self, *problem: Any) -> None:
        self.opening.__exit__(*problem)


def write_requests(to: Path, requests: list[dict[str, Any]]) -> None:
    """Write the requests that had a key; have the project's folder say that its source lies in /golden."""
    (noted,) = (to / "project").glob("*/project.json")
    noted.write_text(noted.read_text().replace(str(to / "project"), f"/golden/{to.name}"))
    (to / "requests.json").write_text(json.dumps(requests, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
