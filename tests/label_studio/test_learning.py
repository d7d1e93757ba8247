"""Label Studio's webhooks against the real HTTP application: labels are learned, changed and forgotten."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from everylabel.label_studio.sync import OURS, Renewal
from tests.label_studio.running import Running, kind_of, running, until
from tests.label_studio.stand_in import LabelStudio


@pytest.fixture
def backend(studio: LabelStudio, tmp_path: Path) -> Iterator[Running]:
    with running(studio, tmp_path) as made:
        yield made


def renewal_of(backend: Running) -> Renewal:
    """Return a renewal thread that is not started."""
    return Renewal(backend.project.api, backend.project.number, backend.project.predictions)


def first(studio: LabelStudio, n: int) -> list[int]:
    return list(studio.tasks)[:n]


def test_annotation_is_learned_changed_and_deleted(studio: LabelStudio, backend: Running) -> None:
    one, two = first(studio, 2)
    number = studio.annotate(one, "animal")
    assert backend.labels() == {str(one): "animal"}
    studio.update(number, "fruit")
    assert backend.labels() == {str(one): "fruit"}
    studio.annotate(two, "größe & 大きさ")
    studio.delete(number)
    assert backend.labels() == {str(two): "größe & 大きさ"}


def test_deleted_annotation_leaves_no_trace_in_the_model(studio: LabelStudio, backend: Running) -> None:
    for task in first(studio, 6):
        studio.annotate(task, kind_of(studio.tasks[task]["data"]["text"]))
    before = backend.probabilities()
    odd = studio.annotate(list(studio.tasks)[40], "fruit")
    assert not np.allclose(
        before[str(list(studio.tasks)[50])], backend.probabilities()[str(list(studio.tasks)[50])]
    )
    studio.delete(odd)
    for name, probs in backend.probabilities().items():
        np.testing.assert_allclose(probs, before[name], atol=2e-3)


def test_people_vote_and_ground_truth_outvotes_them(studio: LabelStudio, backend: Running) -> None:
    task = first(studio, 1)[0]
    for user in (1, 2):
        studio.annotate(task, "fruit", user)
    odd = studio.annotate(task, "animal", 3)
    assert backend.labels() == {str(task): "fruit"}
    studio.update(odd, "animal", ground_truth=True)
    assert backend.labels() == {str(task): "animal"}
    studio.update(odd, "animal", ground_truth=False)
    assert backend.labels() == {str(task): "fruit"}


def test_person_can_annotate_a_task_twice(studio: LabelStudio, backend: Running) -> None:
    task = first(studio, 1)[0]
    studio.annotate(task, "fruit")
    second = studio.annotate(task, "animal")
    assert backend.labels() == {str(task): "animal"}
    studio.delete(second)
    assert backend.labels() == {str(task): "fruit"}


def test_skipped_and_empty_annotations_are_not_learned(studio: LabelStudio, backend: Running) -> None:
    one, two = first(studio, 2)
    skipped = studio.skip(one)
    studio.annotate(two, None)
    state = backend.project.service.state
    assert (backend.labels(), state.n_cannot_tell()) == ({}, 1)
    assert list(state.skipped) == [state.position[str(one)]]
    studio.update(skipped, "fruit", was_cancelled=False)  # it was asked again
    assert backend.labels() == {str(one): "fruit"}
    assert state.skipped == {}


def test_latest_state_counts_in_any_order_of_webhooks(studio: LabelStudio, backend: Running) -> None:
    task = first(studio, 1)[0]
    studio.telling = False
    number = studio.annotate(task, "fruit")
    created = studio.payload("ANNOTATION_CREATED", number)
    studio.update(number, "animal")
    updated = studio.payload("ANNOTATION_UPDATED", number)
    before = backend.told()
    for payload in (updated, created, updated, created):
        assert backend.post("/webhook", payload)[0] == 200
    assert backend.labels() == {str(task): "animal"}
    assert backend.told() == before + 1
    gone = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": number}], "project": studio.about()}
    for payload in (gone, gone, updated, created):
        assert backend.post("/webhook", payload)[0] == 200
    assert backend.labels() == {}
    assert backend.told() == before + 2


MALFORMED = [
    b"no json",
    [],
    {},
    {"action": "ANNOTATION_CREATED"},
    {"action": "ANNOTATION_CREATED", "project": {"id": 8}},
    {"action": "ANNOTATION_CREATED", "project": {"id": "7; drop"}},
    {"action": "ANNOTATION_CREATED", "project": 7},
    {"action": "ANNOTATION_CREATED", "project": 7, "annotation": {"id": True, "task": 101}},
    {
        "action": "ANNOTATION_CREATED",
        "project": 7,
        "annotation": {"id": 1, "task": 101, "updated_at": "soon"},
    },
    {"action": "ANNOTATIONS_DELETED", "project": 7, "annotations": [{"id": "x"}]},
    {"action": "ANNOTATIONS_DELETED", "project": 7, "annotations": 3},
]


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: str(body)[:40])
def test_malformed_request_is_refused(backend: Running, body: object) -> None:
    status, reply = backend.post("/webhook", body)
    assert 400 <= status < 500
    assert "expected" in reply["error"]["message"]
    assert backend.labels() == {}


def test_malformed_results_are_no_labels(studio: LabelStudio, backend: Running) -> None:
    task = first(studio, 1)[0]
    several = [{"from_name": "kind", "value": {"choices": ["fruit", "animal"]}}]
    other = [{"from_name": "mood", "value": {"choices": ["fruit"]}}]
    for odd in (several, other, "fruit", [3, {"from_name": "kind", "value": 3}]):
        studio.annotate(task, None, result=odd)
    studio.annotate(task, "\n")
    assert backend.labels() == {}
    studio.annotate(task, "vegetable")  # not in the configuration (any more)
    assert backend.labels() == {str(task): "vegetable"}


def test_predictions_are_those_of_the_model(studio: LabelStudio, backend: Running) -> None:
    tasks = [{"id": task} for task in first(studio, 3)]
    status, reply = backend.post("/predict", {"tasks": [*tasks, {"id": 5}], "project": "7.1794771916"})
    assert status == 200
    assert [each["result"] for each in reply["results"]] == [[]] * 4
    for task in list(studio.tasks)[10:30]:
        studio.annotate(task, kind_of(studio.tasks[task]["data"]["text"]))
    results = backend.post("/predict", {"tasks": tasks, "project": "7.1794771916"})[1]["results"]
    for task, each in zip(first(studio, 3), results, strict=True):
        told = each["result"][0]
        assert (told["from_name"], told["to_name"], told["type"]) == ("kind", "text", "choices")
        assert told["value"]["choices"] == [kind_of(studio.tasks[task]["data"]["text"])]
        assert max(each["probabilities"].values()) == pytest.approx(told["score"], abs=1e-6)
        assert each["model_version"].startswith("20 labels ")
    assert backend.post("/setup", {"project": "7.1"})[1] == {"model_version": results[0]["model_version"]}
    assert backend.get("/versions") == {"versions": [results[0]["model_version"]]}
    assert backend.get("/health")["status"] == "UP"


def test_next_task_is_the_strategys_choice(studio: LabelStudio, backend: Running) -> None:
    renewal = renewal_of(backend)
    for n in range(8):
        assert renewal.renew()
        assert not renewal.renew()  # nothing was learned since
        best = backend.project.predictions.ranking().result().tasks[0]
        assert best == backend.project.predictions.ranking().result().tasks[0]
        task = studio.next_task()
        assert str(task) == best
        assert task is not None
        studio.annotate(task, kind_of(studio.tasks[task]["data"]["text"]))
        assert studio.project["model_version"].startswith(f"{n} label")


def test_scores_are_ranks_and_the_same_in_every_endpoint(studio: LabelStudio, backend: Running) -> None:
    for task in first(studio, 3):
        studio.annotate(task, kind_of(studio.tasks[task]["data"]["text"]))
    renewal = renewal_of(backend)
    assert renewal.renew()
    asked = backend.post("/predict", {"tasks": [{"id": task} for task in studio.tasks], "project": "7.1"})[1][
        "results"
    ]
    scores = dict(zip(studio.tasks, (each["score"] for each in asked), strict=True))
    pushed = {each["task"]: each["score"] for each in studio.predictions}
    assert len(pushed) == 40
    assert pushed == {task: scores[task] for task in pushed}
    assert sorted(pushed.values()) == [rank / 400 for rank in range(40)]
    assert min(score for task, score in scores.items() if task not in pushed) > 0.5
    renewal.tidy()  # the rest follows when it is quiet
    assert {each["task"] for each in studio.predictions} == set(studio.tasks) - set(first(studio, 3))


def test_old_versions_of_ours_are_removed_and_others_stay(
    studio: LabelStudio, backend: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewal, foreign = renewal_of(backend), {"id": 1, "task": 101, "model_version": "their own"}
    studio.predictions.append(foreign)
    versions = []
    for task in first(studio, 3):
        renewal.renew()
        versions.append(studio.project["model_version"])
        studio.annotate(task, "fruit")
    renewal.tidy()
    assert {each["model_version"] for each in studio.predictions} == {"their own", *versions}
    monkeypatch.setattr("everylabel.label_studio.sync.KEPT", 0.0)
    renewal.tidy()
    assert {each["model_version"] for each in studio.predictions} == {"their own", versions[-1]}
    assert all(OURS.fullmatch(version) for version in versions)


def test_tasks_join_and_leave_the_pool(studio: LabelStudio, backend: Running) -> None:
    new = studio.add_tasks([{"text": "a tame dog sleeps at night"}, {"text": ""}, {"other": 3}])
    backend.look(new[0])
    studio.annotate(new[0], "animal")
    assert backend.labels() == {str(new[0]): "animal"}
    studio.delete_tasks(new[0], first(studio, 1)[0])
    backend.project.reconciler.look()
    assert backend.labels() == {}
    assert len(backend.project.service.state.missing) == 2
    views = backend.project.service.views
    assert views.figures("me")["items"] == 59
    left = views.guesses.page(None, 0, 100)["ids"]
    assert left == [str(task) for task in studio.tasks if task not in new]
    predictions = backend.project.predictions
    wanted = {*predictions.ranking().result().tasks, *predictions.unsure(100).result()}
    assert wanted == {str(task) for task in studio.tasks if task not in new}


def test_training_button_trains(studio: LabelStudio, backend: Running) -> None:
    for task in first(studio, 4):
        studio.annotate(task, kind_of(studio.tasks[task]["data"]["text"]))
    desk = backend.project.service.desk
    before = desk.learner
    assert backend.post("/webhook", {"action": "START_TRAINING", "project": studio.about()})[0] == 200
    until(lambda: desk.learner is not before)
    assert backend.post("/train", {"project": "7.1", "annotations": []}) == (200, {"status": "training"})


def test_new_choices_become_classes(studio: LabelStudio, backend: Running) -> None:
    more = studio.project["label_config"].replace("</Choices>", '<Choice value="plant"/></Choices>')
    studio.project["label_config"] = more
    studio.tell({"action": "PROJECT_UPDATED"})
    until(lambda: "plant" in backend.project.service.state.names)
    studio.tell({"action": "PROJECT_UPDATED", "project": {**studio.about(), "label_config": "<View/>"}})
    assert backend.get("/health")["status"] == "UP"
