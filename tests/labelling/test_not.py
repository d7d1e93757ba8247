"""Ruled-out classes: learned as -log(1 - p_c), compared with a general optimiser, and logged."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from everylabel.labelling.model.learner import fit_classes
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.service import Service, label_many
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import NONE, Refused
from everylabel.log import events
from everylabel.selection.pool import Where
from tests.labelling.desks import IDS, fingerprint, label, service, truth

close = np.testing.assert_allclose


def proposed(made: Service, person: str = "me") -> tuple[str, int]:
    """Return a person's item and the class that is proposed for it."""
    task = made.next(person).result()["next"]
    probs = np.array(task["probabilities"])
    probs[task["ruled_out"]] = -1.0
    return task["item"]["id"], int(probs.argmax())


def mean_of(made: Service) -> np.ndarray:
    return np.asarray(made.desk.learner.pool.posterior.mean)


def by_brute_force(made: Service, ruled_out: dict[str, set[int]]) -> np.ndarray:
    """Return the weights that L-BFGS finds for all labels and log(1 - p) of what is ruled out."""
    columns, features = made.state.columns, made.desk.features
    idx, numbers = zip(*sorted(made.state.labels.items()), strict=True)
    y = np.array([columns.index(c) for c in numbers])
    rows = [made.state.position[name] for name in ruled_out]
    x, g = (np.c_[features[list(some)].astype(float), np.ones(len(some))] for some in (idx, rows))
    left = np.array([[c not in gone for c in columns] for gone in ruled_out.values()])
    prior, k = made.desk.learner.pool.posterior.prior_precision, len(columns)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(-1, k)
        f, e = x @ w, g @ w
        p, r = (np.exp(each - logsumexp(each, axis=1, keepdims=True)) for each in (f, e))
        value = np.sum(logsumexp(f, axis=1) - f[np.arange(len(y)), y]) - np.sum(np.log(np.sum(r * left, 1)))
        pull = r - r * left / np.sum(r * left, axis=1, keepdims=True)
        gradient = x.T @ (p - np.eye(k)[y]) + g.T @ pull + prior * w
        return value + 0.5 * prior * np.sum(w * w), gradient.ravel()

    start = np.zeros(x.shape[1] * k)
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000, "maxfun": 10000}
    return minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x.reshape(-1, k)


def test_ruled_out_class_is_learned_at_once_and_by_training(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 40)
        retrain(made.desk)
        before = mean_of(made)
        item, guess = proposed(made)
        was = made.desk.read(made.views.item, item).result()["probabilities"][guess]
        reply = made.rule_out("me", item, guess).result()
        assert reply["next"]["item"]["id"] == item  # it stays
        assert reply["next"]["ruled_out"] == [guess]
        shown = reply["next"]["probabilities"]
        assert shown[guess] == 0.0 < was
        assert sum(shown) == pytest.approx(1.0, abs=1e-5)  # the others share the rest
        assert reply["progress"]["labelled"] == 40
        second = proposed(made)[1]
        assert second != guess
        made.rule_out("me", item, str(second)).result()
        made.skip("me", item).result()
        ruled_out = {item: {guess, second}}
        for _ in range(3):
            other, wrong = proposed(made)
            made.rule_out("me", other, wrong).result()
            made.cannot_tell("me", other).result()
            ruled_out[other] = {wrong}
        exact = by_brute_force(made, ruled_out)
        assert np.abs(mean_of(made) - exact).max() < 0.7 * np.abs(before - exact).max()  # a round of EM each
        retrain(made.desk)
        close(mean_of(made), exact, atol=1e-3)
        assert made.desk.learner.pool.where(made.state.position[item]) is Where.EXCLUDED
        state = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == state


@pytest.mark.parametrize("exact", [True, False])
def test_a_class_takes_its_place_and_undo_goes_back_step_by_step(
    tmp_path: Path, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exact:
        monkeypatch.setattr("everylabel.labelling.model.learner.EXACT_UP_TO", 0)
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 30)
        retrain(made.desk)
        before = mean_of(made)
        item, guess = proposed(made)
        made.rule_out("me", item, guess).result()
        once = mean_of(made)
        second = proposed(made)[1]
        made.rule_out("me", item, second).result()
        made.label("me", item, truth(item)).result()
        assert made.state.place(made.state.position[item]).ruled_out == frozenset()
        retrain(made.desk)
        close(mean_of(made), by_brute_force(made, {IDS[0]: set()}), atol=1e-3)
        history = made.desk.read(made.views.history, "me", 3, None).result()
        assert [(each["kind"], each["class"]) for each in history] == [
            ("label", truth(item)),
            ("not", second),
            ("not", guess),
        ]
        reply = made.undo("me").result()  # of the class: what was ruled out before counts again
        assert (reply["next"]["item"]["id"], reply["next"]["ruled_out"]) == (item, sorted({guess, second}))
        reply = made.undo("me").result()
        assert (reply["next"]["item"]["id"], reply["next"]["ruled_out"]) == (item, [guess])
        retrain(made.desk)
        made.undo("me").result()
        if exact:  # else it is one step back from what was trained
            close(mean_of(made), before, atol=0.05)
        retrain(made.desk)
        close(mean_of(made), before, atol=1e-4)
        assert np.abs(once - before).max() > 0.05
        state = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == state


def test_guess_before_the_answer_counts_for_the_accuracy(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=2) as made:
        label(made, 21)
        task = made.next("me").result()["next"]
        assert task["reason"] == "check"
        item = task["item"]["id"]
        i = made.state.position[item]
        guess, sure = made.desk.learner.guess(i)
        assert guess is not None
        made.rule_out("me", item, guess).result()
        reply = made.label("me", item, (guess + 1) % 10).result()
        assert list(made.state.checks.values())[-1].guess == guess
        assert made.state.first_answers()[i][1:] == (guess, sure)
        assert (reply["progress"]["people"][0]["answers"], made.state.n_answers) == (22, 22)
        assert made.state.tally.agreement == {}


def test_refusals_of_people_are_combined_until_somebody_gives_a_class(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0, annotators_per_item=2) as made:
        label(made, 12)
        item, i = IDS[200], 200
        for person, number in (("ann", 1), ("ann", 2), ("bob", 3)):
            made.rule_out(person, item, number).result()
        assert made.state.place(i).ruled_out == {1, 2, 3}
        assert made.state.ruled_out(i, "ann") == {1, 2}
        made.label("eve", item, 2).result()
        assert made.state.place(i) == (Where.LABELLED, 2, frozenset())
        assert (made.state.tally.disputed, made.state.n_cannot_tell()) == ({}, 0)
        made.label("ann", item, 2).result()  # which takes back what she said before,
        made.cannot_tell("ann", item).result()
        made.cannot_tell("eve", item).result()
        assert made.state.place(i).ruled_out == {3}  # and so only Bob's is left
        made.jump("eve", IDS[201]).result()
        with pytest.raises(Refused, match="is leased to"):
            made.rule_out("bob", IDS[201], 1).result()


def test_classes_that_are_merged_removed_or_new(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 30)
        item, i = IDS[250], 250
        for number in (3, 5):
            made.rule_out("me", item, number).result()
        made.none_of_these("me", IDS[251]).result()
        assert made.state.columns[-1] == NONE
        assert made.desk.learner.pool.ruled_out == {i: {3, 5}}
        made.classes.remove("me", 4, 3).result()  # what is now a 3 can have been a 4
        assert made.state.ruled_out(i) == {5}
        assert made.desk.learner.pool.ruled_out == {i: {4}}  # its column
        made.rule_out("you", item, 3).result()  # this one knows
        assert made.state.ruled_out(i, "you") == frozenset()  # a 4 was not asked
        made.classes.remove("me", 5).result()
        assert made.state.ruled_out(i) == frozenset()
        made.classes.restore("me", 5).result()
        made.classes.add("me", "ten").result()
        assert made.state.ruled_out(i) == {5}
        state = fingerprint(made)
    with service(tmp_path / "log") as made:
        assert fingerprint(made) == state


def test_the_last_class_is_proposed_and_then_none_of_these(tmp_path: Path) -> None:
    with service(tmp_path / "log", ["a", "b", "c"], check_every=0) as made:
        for i in range(6):
            made.label("me", IDS[i], i % 3).result()
        item, _ = proposed(made)
        for name in ("a", "b"):
            reply = made.rule_out("me", item, name).result()
        assert (reply["next"]["ruled_out"], proposed(made)) == ([0, 1], (item, 2))
        seq = made.state.seq
        with pytest.raises(Refused, match="'c' is the only class that is not ruled out"):
            made.rule_out("me", item, "c").result()
        with pytest.raises(Refused, match="ruled out 'a' for this item before"):
            made.rule_out("me", item, 0).result()
        with pytest.raises(Refused, match="class is 7"):
            made.rule_out("me", item, 7).result()
        assert made.state.seq == seq
        assert made.none_of_these("me", item).result()["next"]["item"]["id"] != item
        with pytest.raises(Refused, match="give another class, or undo that answer first"):
            made.rule_out("me", item, 0).result()
        made.rule_out("you", IDS[100], 0, key="once").result()
        assert made.rule_out("you", IDS[100], 0, key="once").result()["saved"] == max(made.state.history)


def test_if_people_together_rule_out_all_nothing_is_learned(tmp_path: Path) -> None:
    with service(tmp_path / "log", ["a", "b"], check_every=0) as made:
        for i in range(4):
            made.label("me", IDS[i], i % 2).result()
        made.rule_out("ann", IDS[9], 0).result()
        made.rule_out("bob", IDS[9], 1).result()
        assert made.desk.learner.pool.ruled_out == {}
        retrain(made.desk)
        assert LabelSet.of(made.state, {}).ruled_out == {}


def test_test_items_and_changed_content_are_not_learned(tmp_path: Path) -> None:
    def emit(made: Service, body: events.Body) -> None:
        def command() -> object:
            made.desk.emit("", body)
            return lambda: None

        made.desk.submit(command).result()  # type: ignore[arg-type]

    with service(tmp_path / "log", check_every=0) as made:
        label(made, 12)
        for name in IDS[260:262]:
            made.rule_out("me", name, 1).result()
        emit(made, events.HeldOut(IDS[260]))
        emit(made, events.ContentChanged(IDS[261]))
        assert made.desk.learner.pool.ruled_out == {}
        emit(made, events.ContentChanged(IDS[261], confirmed=True))
        assert made.desk.learner.pool.ruled_out == {261: {1}}


def test_exports_have_no_label_of_it_and_models_learn_it(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 30)
        item, guess = proposed(made)
        i = made.state.position[item]
        made.rule_out("me", item, guess).result()
        shot = LabelSet.of(made.state, {})
        assert (i in shot.labels, i in shot.answers) == (False, False)
        assert shot.ruled_out == {i: {guess}}
        assert shot.seen_from(["new", *shot.ids]).ruled_out == {i + 1: {guess}}
        retrain(made.desk)  # on the prior for this number of classes
        known = made.desk.features, shot.labels, shot.none, 10
        posterior = fit_classes(*known, ruled_out=shot.ruled_out).posterior
        close(posterior.mean, by_brute_force(made, {item: {guess}}), atol=1e-4)


def test_a_training_on_many_labels_at_once_keeps_it(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 20)
        item, guess = proposed(made)
        made.rule_out("me", item, guess).result()
        threes = [name for name in IDS if truth(name) == 3 and name != item][:8]
        label_many(made, "me", threes, 3).result()
        assert made.desk.learner.pool.ruled_out == {made.state.position[item]: {guess}}
        close(mean_of(made), by_brute_force(made, {item: {guess}}), atol=1e-3)
