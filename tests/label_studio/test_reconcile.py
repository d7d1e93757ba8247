"""Backends that missed webhooks, or were stopped or killed, end equal to one that missed nothing."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.annotations import read_annotation
from everylabel.label_studio.api import ApiError
from everylabel.label_studio.sync import SUGGEST_EVERY
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.state.reducer import apply_all
from everylabel.labelling.state.state import digest, new_state
from everylabel.log import events
from everylabel.log.store import Store, StoreError
from tests.label_studio.running import TEXTS, Running, kind_of, running, until
from tests.label_studio.stand_in import TOKEN, LabelStudio


def work(studio: LabelStudio) -> None:
    """Annotate, change, skip, delete, import and remove tasks, as people do."""
    tasks = list(studio.tasks)
    made = [studio.annotate(task, kind_of(studio.tasks[task]["data"]["text"])) for task in tasks[:12]]
    studio.update(made[0], "fruit")
    studio.update(made[1], None)
    studio.delete(made[2], made[3])
    studio.skip(tasks[20])
    studio.update(studio.skip(tasks[21]), "animal", was_cancelled=False)
    studio.annotate(tasks[4], "größe & 大きさ", user=2, ground_truth=True)
    new = studio.add_tasks(
        [{"text": "a tame whale runs away in summer"}, {"text": "the old plum tastes sour"}]
    )
    studio.delete_tasks(tasks[5], tasks[30])
    studio.annotate(new[0], "animal", user=2)


def state(made: Running) -> tuple[dict[str, str], set[str], set[str], int]:
    """Return labels, skipped and removed tasks, and the number of valid answers."""
    state = made.project.service.state
    labels = made.labels()
    names = state.ids
    return labels, {names[i] for i in state.skipped}, {names[i] for i in state.missing}, state.n_answers


def equal_models(one: Running, other: Running) -> None:
    """Compare the models after training on all labels, as when nobody annotates."""
    for each in (one, other):
        retrain(each.project.service.desk)
    ours, theirs = one.probabilities(), other.probabilities()
    assert ours.keys() == theirs.keys()
    for name, probs in ours.items():
        np.testing.assert_allclose(probs, theirs[name], atol=1e-4)  # to the tolerance of training


def test_missed_annotations_are_learned(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path / "deaf") as deaf:
        hooks, studio.webhooks = studio.webhooks, []
        with running(studio, tmp_path / "listening") as listening:
            work(studio)
            new = max(studio.tasks)
            listening.look(new)  # new tasks are embedded then
            assert listening.project.reconciler.look() == 0
            studio.webhooks = hooks
            assert deaf.labels() == {}
            assert deaf.look(new) > 10
            assert deaf.project.reconciler.look() == 0
            assert state(deaf) == state(listening)
            equal_models(deaf, listening)


def test_restarted_backend_continues(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        work(studio)
        made.look(max(studio.tasks))
        before = state(made)
    with running(studio, tmp_path) as again:
        assert state(again) == before
        number = again.told()
        assert again.project.reconciler.look() == 0
        for each in list(studio.annotations):  # all reports are repeated
            studio.tell_of("ANNOTATION_UPDATED", each)
        assert state(again) == before
        assert again.told() == number
    with running(studio, tmp_path / "new") as new:  # one that learns all of it at once
        until(lambda: not new.project.service.desk.learner.deferred)
        assert state(new)[0] == before[0]


def test_state_follows_from_the_log(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        work(studio)
        made.look(max(studio.tasks))
        desk = made.project.service.desk
        ours, stored = desk.read(lambda: digest(desk.state)).result(), desk.log.read()
        assert digest(apply_all(new_state(stored, desk.rows.ids), stored, "the log")) == ours


def test_backend_continues_on_sqlite_and_postgresql(studio: LabelStudio, tmp_path: Path, where: str) -> None:
    for _ in range(2):
        with running(studio, tmp_path, store=where) as made:
            if not studio.annotations:
                work(studio)
                made.look(max(studio.tasks))
            assert len(made.labels()) == 10


def test_outdated_reading_of_the_api_does_not_undo_newer_annotations(
    studio: LabelStudio, tmp_path: Path
) -> None:
    with running(studio, tmp_path) as made:
        one, two, three = list(studio.tasks)[:3]
        first, second = studio.annotate(one, "fruit"), studio.annotate(two, "fruit")
        learning = made.project.learning
        mark = learning.mark().result()
        seen = [read_annotation(studio.annotations[number], "kind") for number in (first, second)]
        studio.update(first, "animal")
        studio.delete(second)
        studio.annotate(three, "animal")
        assert learning.compare(seen, mark) == 0  # as the API was before
        assert made.labels() == {str(one): "animal", str(three): "animal"}


def test_change_with_the_same_time_is_noticed(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        task = next(iter(studio.tasks))
        number = studio.annotate(task, "fruit")
        studio.annotations[number]["result"] = studio.annotations[number]["result"] and [
            {**studio.annotations[number]["result"][0], "value": {"choices": ["animal"]}}
        ]
        assert made.project.reconciler.look() == 1
        assert made.labels() == {str(task): "animal"}


def test_returning_label_is_learned_again(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        task = next(iter(studio.tasks))
        number = studio.annotate(task, "fruit")
        stored, kept = studio.annotations.pop(number), studio.tasks.pop(task)
        made.project.reconciler.look()
        assert (made.labels(), len(made.project.service.state.missing)) == ({}, 1)
        studio.annotations[number], studio.tasks[task] = stored, kept
        made.project.reconciler.look()
        assert (made.labels(), len(made.project.service.state.missing)) == ({str(task): "fruit"}, 0)


def test_label_studio_can_be_unreachable_for_a_while(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        studio.telling = False
        task = next(iter(studio.tasks))
        studio.annotate(task, "fruit")
        studio.broken = 2  # asked again
        assert made.project.reconciler.look() == 1
        studio.broken = 100
        with pytest.raises(ApiError, match="503"):
            made.project.reconciler.look()
        studio.broken = 0
        assert made.labels() == {str(task): "fruit"}


def test_failed_write_is_reported_and_retried(
    studio: LabelStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(studio, tmp_path) as made:
        studio.telling = False
        task = next(iter(studio.tasks))
        number = studio.annotate(task, "fruit")
        log = made.project.service.desk.log

        def full(_: object) -> None:
            raise StoreError("nothing was saved, the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(log, "append", full)
            assert made.post("/webhook", studio.payload("ANNOTATION_CREATED", number))[0] in (200, 507)
            assert made.labels() == {}
        assert made.project.reconciler.look() == 1
        assert made.labels() == {str(task): "fruit"}


@contextmanager
def process(studio: LabelStudio, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run the command as a process, until it is ready and registered."""
    command = [sys.executable, "-m", "everylabel.cli", "label-studio", "--project", str(studio.number)]
    command += ["--model", "tfidf", "--folder", str(folder), "--port", "0"]
    place = {"LABEL_STUDIO_URL": studio.url, "LABEL_STUDIO_TOKEN": TOKEN}
    studio.webhooks.clear()
    studio.backends.clear()
    made = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **place})
    assert made.stdout is not None
    try:
        assert made.stdout.readline().startswith("everylabel is ready: ")
        until(lambda: bool(studio.backends))
        yield made
    finally:
        if made.poll() is None:
            made.kill()
        made.wait()
        made.stdout.close()


def test_connecting_a_model_keeps_the_order_of_tasks(studio: LabelStudio, tmp_path: Path) -> None:
    studio.connecting = 1.0
    with process(studio, tmp_path):
        until(lambda: studio.project["model_version"].startswith("0 labels"))
        assert studio.next_task() is not None


def test_killed_backend_loses_nothing_and_learns_nothing_twice(studio: LabelStudio, tmp_path: Path) -> None:
    tasks = list(studio.tasks)
    for start in (0, 10):
        with process(studio, tmp_path) as made:
            for i, task in enumerate(tasks[start : start + 10]):
                if i == 7:
                    made.send_signal(signal.SIGKILL)  # and the rest is not reported
                studio.annotate(task, kind_of(studio.tasks[task]["data"]["text"]))
    with process(studio, tmp_path) as made:
        version = studio.project["model_version"]
        until(lambda: studio.project["model_version"] != version or version.startswith("20 "))
        until(lambda: studio.project["model_version"].startswith("20 labels"))
        made.send_signal(signal.SIGINT)
        assert made.wait() == 0
    store = Store(
        tmp_path / "label-studio-7.everylabel" / "labels.sqlite", "label-studio-7.jsonl", write=False
    )
    labels = [event.body for event in store.read() if isinstance(event.body, events.Label)]
    store.close()
    assert sorted(int(body.item) for body in labels) == sorted(tasks[:20])


def test_model_version_counts_the_labels(studio: LabelStudio, tmp_path: Path) -> None:
    assert len(studio.tasks) == len(TEXTS)
    with running(studio, tmp_path, background=True) as made:
        until(lambda: studio.project["model_version"].startswith("0 labels"))
        version = studio.project["model_version"]
        task = studio.next_task()
        assert task is not None
        studio.annotate(task, "animal")
        until(lambda: studio.project["model_version"] != version)
        assert studio.project["model_version"].startswith("1 label ")
        studio.telling = False
        studio.annotate(list(studio.tasks)[9], "fruit")
        made.project.reconciler.ask()  # as every minute
        until(lambda: studio.project["model_version"].startswith("2 labels "))


def test_swapped_log_is_noticed(studio: LabelStudio, tmp_path: Path) -> None:
    home = tmp_path / "label-studio-7.everylabel"
    log = home / "labels.sqlite"
    (tmp_path / "other").mkdir()
    with running(studio, tmp_path):
        pass
    with running(studio, tmp_path):  # the same log again
        pass
    with running(studio, tmp_path / "other"):
        pass
    shutil.copyfile(tmp_path / "other" / log.relative_to(tmp_path), log)
    with (
        pytest.raises(EverylabelError, match=r"with the labels of this project, is another one; .* delete '"),
        running(studio, tmp_path),
    ):
        pass
    shutil.rmtree(home)
    with running(studio, tmp_path):  # begun again, by the annotations of Label Studio
        pass


def test_stored_predictions_of_other_models_are_suggestions(studio: LabelStudio, tmp_path: Path) -> None:
    tasks = list(studio.tasks)

    def stored(task: int, choice: str, version: str, score: float | None = 0.9) -> dict[str, object]:
        result = {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [choice]}}
        return {"id": task, "task": task, "result": [result], "score": score, "model_version": version}

    studio.predictions += [
        stored(tasks[0], "fruit", "bert-1"),
        stored(tasks[1], "animal", "bert-1", 7.5),
        stored(tasks[2], "no such choice", "bert-1"),
        stored(tasks[3], "fruit", "3 labels 0123abcd"),
        stored(10**6, "fruit", "bert-1"),
    ]
    with running(studio, tmp_path) as made:
        state = made.project.service.state
        assert list(state.suggestions) == ["bert-1"]
        said = {
            name: (state.classes[one.class_], one.score) for name, one in state.suggestions["bert-1"].items()
        }
        assert said == {str(tasks[0]): ("fruit", 0.9), str(tasks[1]): ("animal", None)}
        studio.predictions.append(stored(tasks[4], "animal", "bert-2"))
        for _ in range(SUGGEST_EVERY):
            made.project.reconciler.look()
        assert list(state.suggestions) == ["bert-1", "bert-2"]
