"""Answers on everylabel's page become annotations in Label Studio exactly once, despite kills."""

from pathlib import Path
from typing import Any

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.api import ApiError
from everylabel.label_studio.service import page_of
from everylabel.log import events
from everylabel.simulation.people import Client
from tests.label_studio.running import TEXTS, Running, kind_of, running, until
from tests.label_studio.stand_in import LabelStudio


def answer(made: Running, n: int, person: str = "anna") -> list[int]:
    """Label the next n tasks on everylabel's page; return their numbers."""
    service, studio = made.project.service, []
    reply = service.next(person).result()
    for _ in range(n):
        task = reply["next"]["item"]
        reply = service.label(person, task["id"], kind_of(task["text"])).result()
        studio.append(int(task["id"]))
    return studio


def given(studio: LabelStudio) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for each in studio.annotations.values():
        choices = [part["value"]["choices"][0] for part in each["result"]]
        found.setdefault(each["task"], []).extend(
            choices or ["skipped" if each["was_cancelled"] else "nothing"]
        )
    return found


def n_labels(made: Running) -> int:
    log = made.project.service.desk.log
    return sum(isinstance(event.body, events.Label) for event in log.read())


def test_answers_become_annotations_once(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        tasks = answer(made, 5)
        outbox = made.project.outbox
        assert outbox.send() == 5
        assert given(studio) == {task: [kind_of(studio.tasks[task]["data"]["text"])] for task in tasks}
        assert outbox.waiting() == ([], [])
        assert (len(made.labels()), n_labels(made)) == (5, 5)  # the webhooks reported nothing new
        assert made.project.reconciler.look() == 0
        assert (len(made.labels()), n_labels(made)) == (5, 5)
    with running(studio, tmp_path) as again:
        assert again.project.outbox.send() == 0
        assert (len(again.labels()), len(studio.annotations)) == (5, 5)


def test_lost_acknowledgement_makes_no_second_annotation(studio: LabelStudio, tmp_path: Path) -> None:
    studio.telling = False
    with running(studio, tmp_path) as made:
        tasks = answer(made, 3)
        studio.losing = 1
        made.project.outbox.send()
        assert (made.project.outbox.waiting(), len(studio.annotations)) == (([], []), 3)
        assert n_labels(made) == 3
        answer(made, 1)
        studio.losing = 9
        sent = studio.annotations.keys()
        entry = made.project.outbox.waiting().answers[0]
        body = {"result": [], "unique_id": made.project.learning.marks.of(entry.seq), "was_cancelled": True}
        studio.answer("POST", f"/api/tasks/{entry.body.item}/annotations/", {}, body)  # and we are killed
        studio.losing = 0
        assert len(sent) == 4
    with running(studio, tmp_path) as again:  # recognised by its id, though it says something else by now
        assert again.project.outbox.waiting().answers == []
        assert set(tasks) <= set(map(int, again.labels()))
        assert len(studio.annotations) == 4


def test_undone_and_changed_answers_are_synced(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        one, two = answer(made, 2)
        made.project.outbox.send()
        service = made.project.service
        service.undo("anna").result()
        service.jump("anna", str(one)).result()
        service.label("anna", str(one), "größe & 大きさ").result()
        assert made.project.outbox.send() == 3  # one more, two fewer
        assert given(studio) == {one: ["größe & 大きさ"]}
        assert made.labels() == {str(one): "größe & 大きさ"}
        service.undo("anna").result()  # back to what was said first, though its annotation is gone
        kind = kind_of(studio.tasks[one]["data"]["text"])
        assert made.labels() == {str(one): kind}
        made.project.outbox.send()
        assert given(studio) == {one: [kind]}
        service.label("anna", str(one), "größe & 大きさ").result()
        made.project.outbox.send()
        service.jump("anna", str(two)).result()
        service.cannot_tell("anna", str(two)).result()
        made.project.outbox.send()
        assert given(studio) == {one: ["größe & 大きさ"], two: ["skipped"]}
        assert made.project.reconciler.look() == 0


def test_skips_and_exclusions_are_not_sent(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        service = made.project.service
        task = service.next("anna").result()["next"]["item"]["id"]
        service.rule_out("anna", task, "fruit").result()
        service.skip("anna", task).result()
        assert made.project.outbox.send() == 0
        service.jump("anna", task).result()
        service.label("anna", task, "animal").result()
        assert made.project.outbox.send() == 1
        assert given(studio) == {int(task): ["animal"]}


def test_annotation_of_ours_can_be_changed_in_label_studio(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        one, two = answer(made, 2)
        made.project.outbox.send()
        first, second = sorted(studio.annotations)
        studio.update(first, "größe & 大きさ")
        studio.delete(second)
        assert made.labels() == {str(one): "größe & 大きさ"}
        assert made.project.outbox.waiting() == ([], [])
        assert given(studio) == {one: ["größe & 大きさ"]}
        assert str(two) not in made.labels()


def test_annotations_of_label_studio_are_not_sent_back(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        for task in list(studio.tasks)[:3]:
            studio.annotate(task, "fruit")
        studio.telling = False
        for task in list(studio.tasks)[3:9]:
            studio.annotate(task, "fruit")
        made.project.reconciler.look()
        assert made.project.outbox.waiting() == ([], [])


def test_refused_answer_is_sent_once(studio: LabelStudio, tmp_path: Path) -> None:
    studio.telling = False
    with running(studio, tmp_path) as made:
        task = answer(made, 1)[0]
        del studio.tasks[task]
        assert made.project.outbox.send() == 1
        assert made.project.outbox.waiting().answers == []


def test_outbox_sends_in_the_background(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        made.project.outbox.start()
        tasks = answer(made, 2)
        until(lambda: len(studio.annotations) == 2)
        assert set(given(studio)) == set(tasks)


def test_page_and_label_studio_share_a_project(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        told: list[str] = []
        with page_of(made.project, "127.0.0.1", 0, "", told.append):
            until(lambda: bool(told))
            client = Client(told[0])
            task = client.post("/api/next", person="anna")["next"]["item"]
            assert task["text"] in TEXTS
            client.post("/api/label", person="anna", item=task["id"], **{"class": "fruit"})
            with pytest.raises(EverylabelError):  # it would have no task there
                client.post("/api/items", items=[{"text": "a wild dog"}])
            client.close()
            made.project.outbox.send()
        assert given(studio) == {int(task["id"]): ["fruit"]}


def test_answer_is_sent_again_after_a_temporary_refusal(studio: LabelStudio, tmp_path: Path) -> None:
    usual, refused = studio.answer, list[str]()

    def limited(method: str, path: str, query: Any, body: Any) -> Any:
        if method == "POST" and path.endswith("/annotations/") and len(refused) < 3:
            refused.append(path)
            return 429, {"detail": "slow down"}
        return usual(method, path, query, body)

    with running(studio, tmp_path) as made:
        studio.answer = limited  # type: ignore[method-assign]
        answer(made, 3)
        with pytest.raises(ApiError):
            made.project.outbox.send()
        made.project.outbox.send()
        assert len(studio.annotations) == 3


def test_answers_sent_after_a_class_merge_keep_their_person(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        service = made.project.service
        answer(made, 4)
        before = dict(service.state.labels)
        service.classes.remove("anna", 0, 1).result()
        made.project.outbox.send()
        assert made.project.reconciler.look() == 0
        service.classes.undo("anna", service.state.class_changes[-1].seq).result()
        assert dict(service.state.labels) == before


def test_client_key_is_not_mistaken_for_an_annotation(studio: LabelStudio, tmp_path: Path) -> None:
    with running(studio, tmp_path) as made:
        service, taken = made.project.service, set[str]()
        for key in ("annotation", "annotation x", "annotation 1 inf 1", "annotation 1 -- 1"):
            item = service.next("eve").result()["next"]["item"]["id"]
            service.label("eve", item, 0, key=key).result()
            taken.add(item)
        studio.annotate(next(number for number in studio.tasks if str(number) not in taken), "fruit")
        made.project.reconciler.look()
        assert len(service.state.labels) == 5
        assert len(made.project.outbox.waiting().answers) == 4
