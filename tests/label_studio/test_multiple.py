"""Multiple choices per task: annotations, predictions, answers on everylabel's page, and restarts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everylabel.labelling.model.retrainer import retrain
from everylabel.log import events
from tests.label_studio.running import TEXTS, Running, running
from tests.label_studio.stand_in import CONFIGURATION, LabelStudio

MULTIPLE = """<View><Text name="text" value="$text"/><Choices name="kind" toName="text" choice="multiple">
<Choice value="fruit"/><Choice value="outside" alias="out"/><Choice value="winter"/></Choices></View>"""


@pytest.fixture
def studio() -> Iterator[LabelStudio]:
    made = LabelStudio(TEXTS, MULTIPLE)
    yield made
    made.close()


def kinds_of(text: str) -> list[str]:
    """Return the choices of a text as Label Studio stores them, by alias."""
    outside = "garden" in text or "road" in text
    said = {"fruit": "tastes" in text, "out": outside, "winter": "winter" in text}
    return [name for name, yes in said.items() if yes]


def sets(made: Running) -> dict[str, tuple[list[str], list[str]]]:
    """Return the present and absent classes of each labelled task."""
    desk = made.project.service.desk

    def look() -> dict[str, Any]:
        names = desk.state.classes
        found: dict[str, Any] = {desk.state.ids[i]: label for i, label in desk.state.labels.items()}
        return {
            task: ([names[c] for c in label.present], [names[c] for c in label.absent])
            for task, label in found.items()
        }

    found: dict[str, Any] = desk.read(look).result()
    return found


def test_annotations_with_several_choices_or_none_are_learned(studio: LabelStudio, tmp_path: Path) -> None:
    one, two, three = list(studio.tasks)[:3]
    with running(studio, tmp_path) as made:
        assert made.project.service.state.multi_label
        number = studio.annotate(one, ["fruit", "out"])
        empty = studio.annotate(two, [])
        studio.skip(three)
        known = {
            str(one): (["fruit", "outside"], ["winter"]),
            str(two): ([], ["fruit", "outside", "winter"]),
        }
        assert sets(made) == known
        assert made.look() == 0  # the API says the same
        studio.update(number, ["winter"])
        assert sets(made)[str(one)] == (["winter"], ["fruit", "outside"])
        studio.delete(empty)
        assert [*sets(made)] == [str(one)]
    with running(studio, tmp_path) as again:
        assert (sets(again), again.look()) == ({str(one): (["winter"], ["fruit", "outside"])}, 0)


def test_new_choice_is_unanswered_by_older_annotations(studio: LabelStudio, tmp_path: Path) -> None:
    one, two = list(studio.tasks)[:2]
    with running(studio, tmp_path) as made:
        studio.annotate(one, ["fruit"])
        studio.project["label_config"] = MULTIPLE.replace('<Choice value="winter"/>', "<Choice value='x'/>")
        studio.tell({"action": "PROJECT_UPDATED"})
        studio.annotate(two, ["x"])
        assert made.look() == 0
        assert sets(made)[str(one)] == (["fruit"], ["outside", "winter"])
        assert "x" in sets(made)[str(two)][0]


def test_people_vote_class_by_class_and_ground_truth_outvotes_them(
    studio: LabelStudio, tmp_path: Path
) -> None:
    task = next(iter(studio.tasks))
    with running(studio, tmp_path) as made:
        studio.annotate(task, ["fruit", "out"], 1)
        studio.annotate(task, ["fruit", "winter"], 2)
        odd = studio.annotate(task, ["out"], 3)
        assert sets(made)[str(task)] == (["fruit", "outside"], ["winter"])
        studio.update(odd, [], ground_truth=True)
        assert sets(made)[str(task)][0] == []


def test_predictions_hold_all_classes_above_their_thresholds(studio: LabelStudio, tmp_path: Path) -> None:
    tasks = list(studio.tasks)
    with running(studio, tmp_path) as made:
        for task in tasks[:40]:
            studio.annotate(task, kinds_of(studio.tasks[task]["data"]["text"]))
        retrain(made.project.service.desk)
        status, reply = made.post(
            "/predict", {"project": studio.number, "tasks": [{"id": t} for t in tasks[40:]]}
        )
        assert status == 200
        right, sizes = 0, set()
        for task, each in zip(tasks[40:], reply["results"], strict=True):
            choices = [c for part in each["result"] for c in part["value"]["choices"]]
            sizes.add(len(choices))
            right += set(choices) == set(kinds_of(studio.tasks[task]["data"]["text"]))
            assert len(each["result"]) <= 1  # one region holds all choices
            assert all(0.0 <= p <= 1.0 for p in each["probabilities"].values())
        assert right >= 15
        assert len(sizes) > 1  # some have one choice, others several or none
        made.project.renewal.renew()
        assert studio.next_task() in tasks[40:]


def test_answers_of_our_page_become_annotations(studio: LabelStudio, tmp_path: Path) -> None:
    def given() -> dict[int, tuple[list[str], bool]]:
        return {
            each["task"]: (
                [c for part in each["result"] for c in part["value"]["choices"]],
                each["was_cancelled"],
            )
            for each in studio.annotations.values()
        }

    one, two, three = list(studio.tasks)[:3]
    with running(studio, tmp_path) as made:
        service, outbox = made.project.service, made.project.outbox
        service.label_set("anna", str(one), ["fruit", "outside"]).result()
        service.label_set("anna", str(two), []).result()
        service.label_set("anna", str(three), ["winter"], []).result()  # yes / no: about one class
        assert outbox.send() == 2
        assert given() == {one: (["fruit", "out"], False), two: ([], False)}
        service.label_set("anna", str(three), [], ["fruit", "outside"]).result()  # now all are answered
        service.label_set("anna", str(one), [], ["fruit"]).result()
        outbox.send()
        assert given() == {one: (["out"], False), two: ([], False), three: (["winter"], False)}
        before = sets(made)
        assert made.look() == 0  # nothing is learned twice
        assert sets(made) == before
    with running(studio, tmp_path) as again:
        assert (sets(again), again.project.outbox.send(), again.look()) == (before, 0, 0)


def test_single_choice_project_becomes_multiple_at_the_next_start(tmp_path: Path) -> None:
    studio = LabelStudio(TEXTS, CONFIGURATION)
    task = next(iter(studio.tasks))
    try:
        with running(studio, tmp_path) as made:
            studio.annotate(task, "fruit")
            studio.project["label_config"] = CONFIGURATION.replace("single", "multiple")
            studio.tell({"action": "PROJECT_UPDATED"})
            assert not made.project.service.state.multi_label
        with running(studio, tmp_path) as again:
            assert again.project.service.state.multi_label
            assert sets(again)[str(task)][0] == ["fruit"]
            assert again.look() == 0
            answers = [e for e in again.project.service.desk.log.read() if isinstance(e.body, events.Label)]
            assert len(answers) == 1
    finally:
        studio.close()
