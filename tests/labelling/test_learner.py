"""The model that applies changes of labels equals one trained from scratch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from everylabel.core import fit_map
from everylabel.core.arrays import softmax
from everylabel.labelling.model import learner as module
from everylabel.labelling.model.learner import DEFERRED_FROM, Learner
from everylabel.labelling.model.training import FeatureTable, TrainingSet, train
from everylabel.labelling.state.types import FREE, Place
from everylabel.selection.pool import Where
from tests.labelling.desks import FEATURES, IDS, N, Y

LEASED, EXCLUDED = Place(Where.LEASED), Place(Where.EXCLUDED)
LABELS = {i: int(Y[i]) for i in range(20)}
CLOSE = 5e-3  # of a probability: exact updates are solved to this


def labelled(number: int) -> Place:
    return Place(Where.LABELLED, number)


def doubtful(*numbers: int, where: Where = Where.FREE) -> Place:
    return Place(where, None, frozenset(numbers))


def known(
    places: Mapping[int, Place], k: int | tuple[int, ...] = 10, n: int = N, names: Any = None
) -> TrainingSet:
    """Return a training set of the first twenty labels and of other places."""
    columns = tuple(range(k)) if isinstance(k, int) else k
    first = {i: labelled(c) for i, c in LABELS.items() if c in columns}
    now = {item: place for item, place in {**first, **places}.items() if place != FREE}
    return TrainingSet(columns, now, names or {}, n)


def learner(training: TrainingSet, features: np.ndarray = FEATURES, **how: Any) -> Learner:
    return Learner(
        FeatureTable(IDS[: len(features)], features, ready=True), IDS[: len(features)], training, **how
    )


@pytest.fixture(params=["exact", "stepwise"])
def exact(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param != "exact":
        monkeypatch.setattr(module, "EXACT_UP_TO", 0)
    return bool(request.param == "exact")


def mean(made: Learner) -> np.ndarray:
    return np.asarray(made.pool.posterior.mean)


def probabilities(weights: np.ndarray, n: int = N) -> np.ndarray:
    return np.asarray(softmax(FEATURES[:n].astype(float) @ weights[:-1] + weights[-1]))


def from_scratch(training: TrainingSet) -> np.ndarray:
    """Return the weights of exact training, from zero."""
    posterior = train(FEATURES, training.labels(), training.n_classes, ruled_out=training.ruled_out())
    return np.asarray(posterior.mean)


def is_where_it_belongs(made: Learner, training: TrainingSet) -> None:
    """Check the place, label and ruled-out classes of each item in the pool."""
    pool, labels = made.pool, training.labels()
    assert {i: int(pool.labels[i]) for i in pool.labelled_idx.tolist()} == labels
    doubts = {i: some for i, some in pool.ruled_out.items() if made.exact or i not in labels}
    assert doubts == training.ruled_out()  # by steps, those of a labelled item go with the next training
    assert (len(pool), pool.n_classes) == (training.n_items, max(1, training.n_classes))
    expected = np.full(len(pool), Where.FREE)
    for item, place in training.places.items():
        expected[item] = place.where
    np.testing.assert_array_equal(pool.state, expected)
    assert made.places == training.places
    assert made.columns == training.columns


def test_training_does_not_depend_on_the_order_of_labelling() -> None:
    backwards = TrainingSet(tuple(range(10)), dict(reversed(list(known({}).places.items()))), {}, N)
    np.testing.assert_array_equal(mean(learner(known({}))), mean(learner(backwards)))
    nothing = learner(TrainingSet((), {}, {}, N))
    np.testing.assert_array_equal(mean(nothing), np.zeros((FEATURES.shape[1] + 1, 1)))


def test_training_is_the_same_from_wherever_it_starts() -> None:
    now = known({30: labelled(3), 31: doubtful(4)})
    twin = probabilities(from_scratch(now))
    other = np.random.default_rng(0).normal(size=(FEATURES.shape[1] + 1, 10))
    before = learner(known({40: labelled(0), 41: labelled(1)}))
    others = (
        learner(now),
        learner(now, before=before),
        learner(now, mean=(range(10), other)),
        learner(now, mean=([3, 77, 5], other[:, :3])),  # of other classes
        learner(now, mean=([3], other[:5, :1])),  # of other features
        learner(now, mean=([], np.zeros((0, 0)))),
    )
    for made in others:
        np.testing.assert_allclose(probabilities(mean(made)), twin, atol=1e-3)


DIFFERENCES: dict[str, dict[int, Place]] = {
    "a label": {30: labelled(3)},
    "two labels": {30: labelled(3), 31: labelled(1)},
    "a label taken back": {0: FREE},
    "another label": {0: labelled(5)},
    "a class ruled out": {30: doubtful(2)},
    "classes ruled out, skipped": {30: doubtful(2, 3, where=Where.EXCLUDED)},
    "all classes ruled out": {30: doubtful(*range(10))},
    "leased": {30: LEASED},
    "excluded": {30: EXCLUDED, 1: EXCLUDED},
    "several": {30: labelled(3), 0: labelled(5), 1: FREE, 2: LEASED, 35: doubtful(4), 36: EXCLUDED},
    "many labels": {i: labelled(int(Y[i])) for i in range(20, 40)},
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_a_difference_is_learned_as_training_from_scratch_would(exact: bool, difference: str) -> None:
    made, now = learner(known({})), known(DIFFERENCES[difference])
    assert made.exact == exact
    assert made.move_to(now)
    is_where_it_belongs(made, now)
    twin, found = probabilities(from_scratch(now)), probabilities(mean(made))
    if exact:
        np.testing.assert_allclose(found, twin, atol=CLOSE)
    before = probabilities(from_scratch(known({})))
    for item, place in DIFFERENCES[difference].items():
        if place.label is not None and len(DIFFERENCES[difference]) < 10:
            assert found[item, place.label] > before[item, place.label]
        if 0 < len(place.ruled_out) < 10:
            gone = list(place.ruled_out)
            assert found[item, gone].sum() < before[item, gone].sum()
    np.testing.assert_allclose(probabilities(mean(learner(now, before=made))), twin, atol=1e-3)


@pytest.mark.parametrize("difference", ["a label", "another label", "a class ruled out", "leased"])
def test_reverted_difference_leaves_no_trace_in_the_model(exact: bool, difference: str) -> None:
    made, start = learner(known({})), known({})
    before = probabilities(mean(made))
    made.move_to(known(DIFFERENCES[difference]))
    made.move_to(start)
    is_where_it_belongs(made, start)
    np.testing.assert_allclose(probabilities(mean(made)), before, atol=CLOSE if exact else 1e-6)


@pytest.mark.parametrize("back", [FREE, LEASED, EXCLUDED, labelled(5)])
def test_item_moves_between_all_states(exact: bool, back: Place) -> None:
    there, twin = learner(known({})), learner(known({}))
    for place in (labelled(4), LEASED, EXCLUDED, labelled(7), FREE, LEASED, doubtful(4), back):
        there.move_to(known({40: place}))
    twin.move_to(known({40: back}))
    assert there.pool.where(40) is back.where
    assert there.pool.labels[40] == (-1 if back.label is None else back.label)
    np.testing.assert_allclose(probabilities(mean(there)), probabilities(mean(twin)), atol=0.01)
    np.testing.assert_allclose(there.pool.posterior.cov, twin.pool.posterior.cov, atol=1e-3)


def test_a_difference_equals_its_changes_one_by_one(exact: bool) -> None:
    changes = {30: labelled(3), 32: EXCLUDED, 33: labelled(1), 34: labelled(2), 31: LEASED}
    one, many = learner(known({})), learner(known({}))
    for n in range(1, len(changes) + 1):
        one.move_to(known(dict(list(changes.items())[:n])))
    many.move_to(known(changes))
    np.testing.assert_allclose(mean(one), mean(many), atol=1e-6)
    np.testing.assert_allclose(one.pool.logits(), many.pool.logits(), atol=1e-4)
    np.testing.assert_array_equal(one.pool.state, many.pool.state)


def test_labels_are_learned_before_leases_that_come_with_them(exact: bool) -> None:
    lease_first, label_first = learner(known({})), learner(known({}))
    lease_first.move_to(known({31: LEASED, 32: labelled(3), 33: labelled(1)}))
    label_first.move_to(known({32: labelled(3), 33: labelled(1)}))
    np.testing.assert_array_equal(mean(lease_first), mean(label_first))
    for made in (lease_first, label_first):  # an answer to the leased item is one step then
        made.move_to(known({31: labelled(2), 32: labelled(3), 33: labelled(1)}))
    np.testing.assert_allclose(lease_first.pool.logits(), label_first.pool.logits(), atol=1e-4)


def test_many_labels_at_once_are_learned_by_one_training(monkeypatch: pytest.MonkeyPatch) -> None:
    made, trainings = learner(known({})), list[int]()

    def counted(*given: Any, **how: Any) -> Any:
        trainings.append(len(given[1]))
        return train(*given, **how)

    monkeypatch.setattr(module, "train", counted)
    now = known({30: labelled(3), 33: labelled(1), 0: labelled(5), 1: FREE, 2: LEASED, 35: doubtful(4)})
    made.move_to(now)
    assert trainings == [20]  # two more, two fewer
    is_where_it_belongs(made, now)
    np.testing.assert_allclose(probabilities(mean(made)), probabilities(from_scratch(now)), atol=1e-3)


def test_very_many_labels_of_a_large_pool_wait_for_the_next_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_UP_TO", 0)
    made, more = learner(known({})), {i: labelled(int(Y[i])) for i in range(20, 21 + DEFERRED_FROM)}
    now = known({**more, 200: LEASED, 201: doubtful(3)})
    before = mean(made)
    made.move_to(now)
    assert made.deferred == set(more)
    assert (made.pool.state[list(more)] == Where.EXCLUDED).all()  # not asked for meanwhile
    assert made.pool.where(200) is Where.LEASED
    assert np.abs(mean(made)[:, 3] - before[:, 3]).max() > 0  # the ruled-out class is learned
    made.move_to(known({**more, 20: labelled(int(Y[20] + 1) % 10), 200: LEASED, 201: doubtful(3)}))
    assert made.deferred == set(more) - {20}  # one at a time is learned as ever
    assert made.pool.where(20) is Where.LABELLED
    trained = learner(now, before=made)
    assert trained.deferred == set()
    is_where_it_belongs(trained, now)
    np.testing.assert_allclose(probabilities(mean(trained)), probabilities(from_scratch(now)), atol=1e-3)


def test_very_many_labels_taken_back_at_once_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_UP_TO", 0)
    many = {i: labelled(int(Y[i])) for i in range(20, 21 + DEFERRED_FROM)}
    made = learner(known(many))
    made.move_to(known({}))
    is_where_it_belongs(made, known({}))
    assert made.deferred == set()


def test_new_classes_are_added_before_they_are_learned(exact: bool) -> None:
    made = learner(TrainingSet((), {}, {}, N))
    assert made.move_to(TrainingSet((0, 1), {}, {}, N))
    assert made.move_to(TrainingSet((0, 1, 5), {0: labelled(5)}, {}, N))
    assert made.pool.n_classes == 3
    assert made.probabilities(0).argmax() == 2
    assert made.probabilities(0).sum() == pytest.approx(1.0)


def test_a_new_class_is_learned_on_the_prior_before_it_until_the_next_training() -> None:
    made, now = learner(known({})), known({30: labelled(10)}, k=11)
    prior = made.pool.posterior.prior_precision
    assert made.move_to(now)
    is_where_it_belongs(made, now)
    labels = now.labels()
    x, y = FEATURES[sorted(labels)].astype(float), [labels[i] for i in sorted(labels)]
    twin = probabilities(np.asarray(fit_map(x, y, 11, prior)))
    np.testing.assert_allclose(probabilities(mean(made)), twin, atol=CLOSE)
    trained = learner(now, before=made)
    np.testing.assert_allclose(probabilities(mean(trained)), probabilities(from_scratch(now)), atol=1e-3)


def test_items_that_join_are_there_as_if_they_always_had_been(exact: bool) -> None:
    made, now = learner(known({}, n=60)), known({30: LEASED, 31: EXCLUDED})
    assert len(made.pool) == 60
    assert made.move_to(now)
    is_where_it_belongs(made, now)
    twin = learner(now)
    np.testing.assert_allclose(made.pool.logits(), twin.pool.logits(), atol=1e-4)
    np.testing.assert_allclose(made.pool.variances(), twin.pool.variances(), rtol=1e-4)
    np.testing.assert_array_equal(made.sample, twin.sample)


@pytest.mark.parametrize(
    "now",
    [
        known({}, k=9),
        known({}, k=(1, 0, *range(2, 10))),
        known({}, k=(*range(9), 11)),
        known({}, names={0: np.ones((1, 64))}),
    ],
    ids=["a class less", "another order", "another class", "other names"],
)
def test_changed_classes_or_names_need_training(now: TrainingSet) -> None:
    made = learner(known({}))
    before, places = mean(made), dict(made.places)
    assert not made.move_to(now)
    np.testing.assert_array_equal(mean(made), before)
    assert made.places == places


@pytest.mark.parametrize("seed", range(6))
def test_after_any_changes_the_model_is_that_of_the_labels(exact: bool, seed: int) -> None:
    """Random differences of all kinds: places are exact, and training gives what it gives from scratch."""
    rng, k, n, places = np.random.default_rng(seed), 10, 200, dict[int, Place]()
    made = learner(known({}, n=n))
    for _ in range(25):
        for item in rng.integers(n, size=int(rng.choice([1, 1, 2, 6, 80]))).tolist():
            number = int(Y[item]) if rng.random() < 0.8 else int(rng.integers(k))
            drawn = rng.choice(k - 1, int(rng.integers(1, 4)), replace=False)
            some = [int(c + (c >= Y[item])) for c in drawn]  # what it is not
            may: list[Place] = [labelled(number), labelled(number), FREE, LEASED, EXCLUDED, doubtful(*some)]
            places[item] = may[int(rng.integers(len(may)))]
        n = min(N, n + int(rng.choice([0, 0, 7])))
        k += int(rng.random() < 0.1)
        now = known(places, k, n)
        assert made.move_to(now)
        if not made.deferred:
            is_where_it_belongs(made, now)
        assert not made.exact or not made.deferred
    np.testing.assert_allclose(made.pool.logits(), made.pool.rows(range(n)) @ mean(made), atol=1e-3)
    trained, twin = learner(now, before=made), probabilities(from_scratch(now), n)
    is_where_it_belongs(trained, now)
    np.testing.assert_allclose(probabilities(mean(trained), n), twin, atol=1e-3)


def test_the_model_depends_on_the_labels_alone_where_people_contradict_them(exact: bool) -> None:
    """Classes that are ruled out make the loss non-convex: training must not depend on where it starts."""
    rng, places = np.random.default_rng(5), dict[int, Place]()
    for _ in range(100):
        item, number = int(rng.integers(20, 90)), int(rng.integers(10))
        may = [labelled(number), doubtful(number), doubtful(number, int(Y[item])), doubtful(int(Y[item]))]
        places[item] = may[int(rng.integers(4))]
    now, twin = known(places), probabilities(from_scratch(known(places)))
    for seed in range(4):
        other = np.random.default_rng(seed).normal(size=(FEATURES.shape[1] + 1, 10))
        made = learner(now, mean=(range(10), other))
        np.testing.assert_allclose(probabilities(mean(made)), twin, atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_single_labels_on_a_small_pool_are_learned_exactly(seed: int) -> None:
    """Random labels, relabels and undone labels one at a time, without any training between."""
    rng, places = np.random.default_rng(seed), dict[int, Place]()
    made = learner(known({}))
    for _ in range(40):
        item = int(rng.integers(60))
        number = int(Y[item]) if rng.random() < 0.8 else int(rng.integers(10))
        places[item] = [labelled(number), labelled(number), FREE, EXCLUDED][int(rng.integers(4))]
        made.move_to(known(places))
    now = known(places)
    is_where_it_belongs(made, now)
    np.testing.assert_allclose(probabilities(mean(made)), probabilities(from_scratch(now)), atol=0.02)


def test_a_pool_that_classes_make_large_continues_by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {30: labelled(3), 31: LEASED, 32: EXCLUDED, 33: doubtful(2)}
    made, now = learner(known(places)), known(places, k=11)
    assert made.exact
    monkeypatch.setattr(module, "EXACT_UP_TO", FEATURES.size * 10)
    made.move_to(now)
    assert not made.exact
    np.testing.assert_allclose(probabilities(mean(made)), probabilities(from_scratch(now)), atol=1e-3)
    is_where_it_belongs(made, now)
    made.move_to(known({**places, 40: labelled(10)}, k=11))
    assert made.pool.labels[40] == 10


def test_a_new_project_of_many_classes_learns_by_steps_from_the_first_label(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EXACT_UP_TO", FEATURES.size * 5)
    made = learner(TrainingSet((), {}, {}, N))  # as a log begins
    assert made.exact
    made.move_to(TrainingSet(tuple(range(10)), {}, {}, N))
    assert not made.exact


def test_probabilities_are_current_while_the_logits_are_late() -> None:
    made = learner(known({}))
    with made.pool.together():
        made.pool.put(50, Where.LABELLED, 6)
        soon = made.probabilities(51)
    np.testing.assert_allclose(soon, made.pool.probs([51])[0], atol=1e-5)


def test_the_expected_accuracy_is_the_mean_over_items_without_a_label() -> None:
    made = learner(known({}))
    left = np.setdiff1d(np.arange(N), list(LABELS))  # the sample is the whole pool
    assert made.expected_accuracy() == pytest.approx(made.pool.probs(left).max(axis=1).mean(), rel=1e-6)
    everything = learner(
        TrainingSet(tuple(range(10)), {i: labelled(int(Y[i])) for i in range(9)}, {}, 9), FEATURES[:9]
    )
    assert 0.5 < everything.expected_accuracy() <= 1.0


def test_picks_are_free_and_no_copies_of_leased_items() -> None:
    twice = np.concatenate([FEATURES[:60], FEATURES[:60]])
    places = {i: labelled(int(Y[i])) for i in range(10)} | {20: LEASED, 21: EXCLUDED}
    made = learner(TrainingSet(tuple(range(10)), places, {}, 120), twice)
    rng = np.random.default_rng(0)
    for strategy in ("lookahead", "margin", "random"):
        picked = made.pick(strategy, 5, rng)
        assert len({i % 60 for i in picked}) == 5
        assert not {20, 80} & set(picked)
        assert all(made.pool.where(i) is Where.FREE for i in picked)
    assert made.pick("margin", 0, rng) == []


def test_near_copies_are_picked_at_the_end() -> None:
    made = learner(TrainingSet((0, 1), {0: LEASED}, {}, 4), np.repeat(FEATURES[:1], 4, axis=0))
    assert sorted(made.pick("margin", 9, np.random.default_rng(0))) == [1, 2, 3]


def test_a_drawn_item_is_any_free_one() -> None:
    places = {0: labelled(1), 1: LEASED, 2: EXCLUDED}
    made, rng = learner(TrainingSet((0, 1), places, {}, 8), FEATURES[:8]), np.random.default_rng(0)
    counts = np.bincount([made.draw(rng) or 0 for _ in range(500)], minlength=8)
    assert not counts[:3].any()
    assert counts[3:].min() > 60
    made.move_to(TrainingSet((0, 1), {**places, **dict.fromkeys(range(3, 8), EXCLUDED)}, {}, 8))
    assert made.draw(rng) is None
