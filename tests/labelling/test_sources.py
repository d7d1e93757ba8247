"""Sources that are not fully trusted, against slow twins."""

import numpy as np
import pytest

from everylabel.core import fit_map
from everylabel.core.leave_one_out import leave_one_out
from everylabel.labelling.model.training import train
from everylabel.labelling.sources import joint_training
from everylabel.labelling.sources.consensus import ABSENT, UNLIKELY, agree, combine, vote_shares
from everylabel.labelling.sources.evidence import Evidence, evidence_of, measure, weigh
from everylabel.labelling.sources.joint_training import (
    log_likelihood,
    rest_of,
    train_jointly,
    without_own,
)
from everylabel.labelling.sources.reliability import (
    CONCENTRATIONS,
    LEVELS,
    Confusion,
    accuracy,
    confusion,
    count,
    label_shares,
)
from everylabel.labelling.sources.review import number_wrong, review
from everylabel.labelling.state.types import Suggestions
from everylabel.models.scaling import suited_precision

close = np.testing.assert_allclose


def blobs(n: int, k: int, seed: int = 0, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return features and classes of k clusters."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return (3.0 * np.eye(k, 8)[y] + spread * rng.normal(size=(n, 8))).astype(np.float32), y


def noisy(y: np.ndarray, k: int, right: float, seed: int = 1) -> np.ndarray:
    """Return labels that are right with a given probability, else any other class."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(y)) < right, y, (y + rng.integers(1, k, size=len(y))) % k)


def first(y: np.ndarray, n: int) -> dict[int, int]:
    return {i: int(y[i]) for i in range(n)}


# --- reliability


def chained(pairs: list[tuple[int, int]], shares: np.ndarray, useless: float) -> tuple[np.ndarray, float]:
    """Return the confusion matrix by predicting one answer after the other, hypothesis by hypothesis."""
    k, tables, evidence_of = len(shares), [], []
    for r, a in [(None, None), *((r, a) for r in LEVELS for a in CONCENTRATIONS)]:
        seen, probability = np.zeros((k, k)), 1.0

        def says(y: int, s: int, r: float | None = r, a: float | None = a, seen: np.ndarray = seen) -> float:
            if r is None or a is None:
                return float(shares[s])
            return (seen[y, s] + a * (r * (y == s) + (1 - r) * shares[s])) / (seen[y].sum() + a)

        for y, s in pairs:
            probability *= says(y, s)
            seen[y, s] += 1
        prior = useless if r is None else (1 - useless) / (len(LEVELS) * len(CONCENTRATIONS))
        evidence_of.append(prior * probability)
        tables.append([[says(y, s) for s in range(k)] for y in range(k)])
    total = sum(evidence_of)
    theta = sum(e / total * np.array(t) for e, t in zip(evidence_of, tables, strict=True))
    return np.asarray(theta), evidence_of[0] / total


def test_confusion_matrix_equals_prediction_one_by_one() -> None:
    rng, k = np.random.default_rng(3), 3
    truth = rng.integers(k, size=17)
    said = noisy(truth, k, 0.7)
    shares = label_shares(said, k)
    theta, useless = chained(list(zip(truth.tolist(), said.tolist(), strict=True)), shares, 0.2)
    found = confusion(count(truth, said, k), shares, 0.2)
    close(found.theta, theta)
    close(found.useless, useless)
    close(found.theta.sum(axis=1), 1.0)


def test_counts_take_class_probabilities_and_weights() -> None:
    said, weights = np.array([0, 1, 1]), np.array([1.0, 0.5, 1.0])
    close(count(np.array([0, 0, 1]), said, 2, weights), [[1.0, 0.5], [0.0, 1.0]])
    close(count(np.array([[0.3, 0.7], [1.0, 0.0], [0.5, 0.5]]), said, 2), [[0.3, 1.5], [0.7, 0.5]])


def test_source_that_says_one_class_is_uninformative() -> None:
    said = np.zeros(40, np.int64)
    found = confusion(count(np.arange(40) % 4, said, 4), label_shares(said, 4))
    close(found.likelihood(said[:1])[0], found.theta[0, 0], rtol=0.02)  # the same for all classes


def test_random_source_is_useless_and_good_or_swapped_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=40)
    useless = {
        name: confusion(count(y, said, 4), label_shares(said, 4)).useless
        for name, said in (("random", rng.integers(4, size=40)), ("good", noisy(y, 4, 0.8)), ("swap", 3 - y))
    }
    assert useless["random"] > 0.8
    assert useless["good"] < 0.01
    assert useless["swap"] < 0.01


@pytest.mark.parametrize(("right", "n"), [(0, 3), (7, 7), (22, 30), (1, 40)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_accuracy_interval_equals_a_search_over_all_accuracies(right: int, n: int, confidence: float) -> None:
    found = accuracy(np.arange(n) < right, confidence)
    p = np.linspace(0.0, 1.0, 200_001)
    uniform = np.prod([i / (n - right + i) for i in range(1, right + 1)]) / (
        n + 1
    )  # B(right + 1, n - right + 1)
    inside = p[p**right * (1 - p) ** (n - right) > (1 - confidence) * uniform]
    close([found.estimate, found.low, found.high], [right / n, inside[0], inside[-1]], atol=2e-5)


@pytest.mark.parametrize("truth", [0.55, 0.9])
def test_accuracy_interval_holds_the_truth_at_all_times(truth: float) -> None:
    rng, runs, n = np.random.default_rng(1), 400, 40
    bounds = [np.array([accuracy(np.arange(m) < x) for x in range(m + 1)]) for m in range(1, n + 1)]
    right = np.cumsum(rng.random((runs, n)) < truth, axis=1)
    low, high = (np.stack([b[right[:, m], c] for m, b in enumerate(bounds)], axis=1) for c in (1, 2))
    assert np.mean(np.all((low <= truth) & (truth <= high), axis=1)) >= 0.95


def test_accuracy_without_checks_may_be_anything() -> None:
    assert accuracy([])[1:] == (0.0, 1.0)


# --- teaching


def test_teaching_equals_rounds_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_training, "CLASSIFIES", 1e-9)
    monkeypatch.setattr(joint_training, "ROUNDS", 3)
    x, y = blobs(60, 3)
    labels, k = first(y, 12), 3
    one = Suggestions("one", np.arange(60), noisy(y, 3, 0.8))
    two = Suggestions("two", np.arange(20, 50), noisy(y, 3, 0.7, seed=2)[20:50])
    found = train_jointly(x, labels, [one, two], k)
    thetas = {s.source: measure(s, labels, k).theta for s in (one, two)}
    said = {s.source: dict(zip(s.items.tolist(), s.classes.tolist(), strict=True)) for s in (one, two)}
    assert found.targets is not None
    mean = np.asarray(train(x, labels, k).mean)
    precision, weight = suited_precision(k), found.targets.weights[0]
    logits = np.c_[x, np.ones(60)] @ mean
    for _ in range(3):
        rows, classes, weights = [x[i] for i in range(12)], [labels[i] for i in range(12)], [1.0] * 12
        counts = np.zeros((k, k))  # of the first source: people labelled no item of the second
        for i in range(12):
            counts[labels[i], said["one"][i]] += 1.0
        targets = np.zeros((60, k))
        for i in range(12, 60):
            q = np.exp(logits[i])
            for name, answers in said.items():
                if i in answers:
                    q = q * thetas[name][:, answers[i]]
            targets[i] = q = q / q.sum()
            counts[:, said["one"][i]] += weight * q
            for c in range(k):
                rows.append(x[i])
                classes.append(c)
                weights.append(weight * q[c])
        mean = fit_map(np.array(rows, np.float64), np.array(classes), k, precision, weights=np.array(weights))
        targets[:12] = np.eye(k)[[labels[i] for i in range(12)]]
        every = np.r_[np.ones(12), np.full(48, weight)]
        logits = np.c_[x, np.ones(60)] @ mean + without_own(mean, x, targets, every, precision)
        thetas["one"] = confusion(counts, label_shares(one.classes, k), UNLIKELY).theta
    close(found.mean, mean, atol=1e-5)


@pytest.mark.parametrize(("k", "error"), [(2, 0.01), (3, 0.3)])  # the curvature is shared by all classes
def test_logits_without_the_own_target_are_those_of_a_head_without_the_row(k: int, error: float) -> None:
    x, y = blobs(150, k, spread=2.0)
    targets = 0.7 * np.eye(k)[y] + 0.3 / k
    precision, weights = suited_precision(k), np.full(150, 0.3)
    mean = fit_map(x, targets, k, precision, weights=weights, soft=True)
    change = without_own(mean, x, targets, weights, precision)
    for i in range(0, 150, 15):
        left = np.arange(150) != i
        alone = fit_map(x[left], targets[left], k, precision, weights=weights[left], soft=True)
        truth = np.r_[x[i], 1.0] @ (alone - mean)
        found, expected = (part - part.mean() for part in (change[i], truth))
        assert np.linalg.norm(found - expected) < error * np.linalg.norm(expected)


def test_good_suggestions_improve_the_model_and_useless_ones_change_nothing() -> None:
    x, y = blobs(600, 5, spread=1.5)
    test, truth = blobs(1000, 5, seed=9, spread=1.5)
    labels, items, rng = first(y, 25), np.arange(600), np.random.default_rng(4)

    def right(mean: np.ndarray) -> float:
        return float(np.mean((test @ mean[:-1] + mean[-1]).argmax(axis=1) == truth))

    alone = train_jointly(x, labels, [], 5)
    assert right(train_jointly(x, labels, [Suggestions("a", items, noisy(y, 5, 0.75))], 5).mean) > right(
        alone.mean
    )
    swapped = Suggestions("s", items, (noisy(y, 5, 0.95) + 1) % 5)
    assert right(train_jointly(x, labels, [swapped], 5).mean) > right(alone.mean)
    for said in (rng.integers(5, size=600), np.full(600, 2)):
        found = train_jointly(x, labels, [Suggestions("b", items, said)], 5)
        assert abs(right(found.mean) - right(alone.mean)) < 0.01


def test_label_of_a_person_replaces_suggestions() -> None:
    y = np.arange(30) % 3
    one = Suggestions("one", np.arange(30), noisy(y, 3, 0.8))
    assert rest_of([one], first(y, 10)).tolist() == list(range(10, 30))


def test_few_labels_take_a_source_at_its_word() -> None:
    one = Suggestions("one", np.arange(6), np.array([0, 1, 0, 1, 0, 1]))
    close(measure(one, {0: 1, 9: 0}, 2).theta, [[0.75, 0.25], [0.25, 0.75]])


def test_chosen_labels_count_less_than_random_checks() -> None:
    y = np.arange(20) % 2
    one = Suggestions("one", np.arange(20), y)
    labels = first(y, 10)
    drawn = measure(one, labels, 2, dict.fromkeys(range(10), 1.0))
    assert measure(one, labels, 2).theta[0, 0] == drawn.theta[0, 0]
    assert measure(one, labels, 2, {}).theta[0, 0] < drawn.theta[0, 0]


def test_scores_that_separate_right_from_wrong_count() -> None:
    y = np.arange(200) % 4
    said = noisy(y, 4, 0.7)
    telling = np.where(said == y, 0.9, 0.6)
    labels = first(y, 60)
    for scores, least in ((telling, 0.5), (np.full(200, 0.8), None)):
        one = Suggestions("one", np.arange(200), said, scores)
        confusions, rest = {"one": measure(one, labels, 4)}, np.arange(60, 200)
        plain = log_likelihood(rest, [one._replace(scores=None)], confusions, labels, 4)
        scored = log_likelihood(rest, [one], confusions, labels, 4)
        more = (scored - plain)[np.arange(140), said[60:]]
        if least is None:
            close(more, 0.0, atol=1e-9)
        else:
            assert more[said[60:] == y[60:]].min() > more[said[60:] != y[60:]].max() + least


def test_posterior_of_a_head_trained_on_suggestions_has_their_curvature() -> None:
    x, y = blobs(200, 3)
    labels = first(y, 20)
    trained_head = train_jointly(x, labels, [Suggestions("a", np.arange(200), noisy(y, 3, 0.9))], 3)
    posterior, alone = trained_head.posterior, train(x, labels, 3)
    assert np.trace(np.asarray(posterior.cov)) < np.trace(np.asarray(alone.cov))
    assert trained_head.targets is not None
    data = posterior.data
    assert data is not None
    rows = np.c_[x, np.ones(200)].astype(np.float64)
    targets = np.r_[np.eye(3)[y[:20]], trained_head.targets.weights[:, None] * trained_head.targets.probs]
    close(data.label_sums, rows.T @ targets, atol=1e-6)
    assert np.asarray(leave_one_out(posterior)).shape == (200, 3)


@pytest.mark.parametrize(("right", "spread"), [(0.95, 2.5), (0.5, 0.5)])
def test_evidence_counts_by_the_labels_that_only_sources_or_only_the_head_predict(
    right: float, spread: float
) -> None:
    x, y = blobs(120, 3, spread=spread)
    labels, sources = first(y, 30), [Suggestions("a", np.arange(120), noisy(y, 3, right))]
    trained_head = train_jointly(x, labels, sources, 3)
    posterior = trained_head.posterior
    head = np.asarray(leave_one_out(posterior))[:30].argmax(axis=1)
    by_sources = by_head = 1.0
    said = np.zeros((30, 3))
    for i in range(30):
        others = {j: c for j, c in labels.items() if j % 5 != i % 5}
        said[i] = np.log(measure(sources[0], others, 3).theta[:, sources[0].classes[i]])
        if said[i].argmax() != head[i]:
            by_sources += said[i].argmax() == y[i]
            by_head += head[i] == y[i]
    power = by_sources / (by_sources + by_head)
    assert (power > 0.5) == (right == 0.95)
    found = weigh(posterior, labels, sources, trained_head.confusions, 3, None, trained_head.targets)
    assert found is not None
    assert trained_head.targets is not None
    close(found.left_out, power * said)
    logs = power * np.log(trained_head.confusions["a"].likelihood(sources[0].classes))
    logs[trained_head.targets.items] += trained_head.targets.change
    close(found.logs, logs, rtol=1e-5, atol=1e-6)


def test_without_labels_sources_count() -> None:
    x, y = blobs(40, 3)
    sources = [Suggestions("a", np.arange(40), noisy(y, 3, 0.8))]
    trained_head = train_jointly(x, {}, sources, 3)
    assert weigh(trained_head.posterior, {}, sources, trained_head.confusions, 3) is not None
    assert weigh(trained_head.posterior, {}, [], {}, 3) is None


def test_evidence_multiplies_probabilities_of_items_with_suggestions_only() -> None:
    p, said = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]]), np.log([[0.1, 0.6, 0.3]])
    evidence = Evidence(np.array([7]), said, np.zeros((0, 3)))
    q = p[0] * np.exp(said[0])
    found = np.exp(evidence.combined(np.array([7, 8]), np.log(p) + 1.0))
    close(found[0] / found[0].sum(), q / q.sum())
    close(found[1] / found[1].sum(), p[1])


def test_evidence_says_nothing_about_a_new_class() -> None:
    said = np.log([[0.2, 0.8]])
    found = Evidence(np.array([0]), said, np.zeros((0, 2))).combined(np.array([0]), np.zeros((1, 3)))
    close(found[0], [*said[0], said.mean()])


def test_probabilities_of_a_source_mix_its_likelihoods() -> None:
    theta = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    probs = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    one = Suggestions("a", np.array([3, 5]), np.array([0, 1]), probs=probs)
    found = evidence_of(np.array([3, 4, 5]), [one], {"a": Confusion(theta, 0.0)}, {}, 3)
    close(np.exp(found), [[0.45, 0.45, 0.3], [1.0, 1.0, 1.0], [0.2, 0.8, 0.3]])


def test_a_source_better_than_the_head_improves_predictions_of_its_items() -> None:
    x, y = blobs(600, 5, spread=1.5)
    labels, said = first(y, 60), noisy(y, 5, 0.9)
    trained_head = train_jointly(x, labels, [Suggestions("a", np.arange(600), said)], 5)
    found = weigh(
        trained_head.posterior,
        labels,
        trained_head.used,
        trained_head.confusions,
        5,
        None,
        trained_head.targets,
    )
    logits, rest = x @ trained_head.mean[:-1] + trained_head.mean[-1], np.arange(60, 600)
    assert found is not None
    both = found.combined(rest, logits[rest]).argmax(axis=1)
    alone = [np.mean(guess[rest] == y[rest]) for guess in (said, logits.argmax(axis=1))]
    assert np.mean(both == y[rest]) > max(alone) + 0.01


# --- consensus


def test_consensus_equals_rounds_of_loops() -> None:
    rng, k, n = np.random.default_rng(5), 3, 40
    y = rng.integers(k, size=n)
    votes = np.stack([noisy(y, k, right, seed) for seed, right in enumerate((0.6, 0.8, 0.95))], axis=1)
    votes[rng.random((n, 3)) < 0.2] = ABSENT
    probs, truth = rng.dirichlet(np.ones(k), n), {4: 2}
    q = vote_shares(votes, k)
    for _ in range(200):
        q[4] = [0.0, 0.0, 1.0]
        thetas = []
        for j in range(3):
            table, said = np.zeros((k, k)), votes[:, j][votes[:, j] != ABSENT]
            for i in range(n):
                if votes[i, j] != ABSENT:
                    table[:, votes[i, j]] += q[i]
            thetas.append(confusion(table, label_shares(said, k), 0.01).theta)
        for i in range(n):
            q[i] = probs[i]
            for j in range(3):
                if votes[i, j] != ABSENT:
                    q[i] *= thetas[j][:, votes[i, j]]
            q[i] /= q[i].sum()
    found = combine(votes, k, probs, truth)
    assert found[4].argmax() == 2
    rest = np.arange(n) != 4
    close(found[rest], q[rest], atol=5e-3)


def test_reliable_answerer_outvotes_two_who_are_often_wrong() -> None:
    y = np.arange(300) % 4
    votes = np.stack([noisy(y, 4, right, seed) for seed, right in enumerate((0.97, 0.6, 0.6))], axis=1)
    majority = np.mean(vote_shares(votes, 4).argmax(axis=1) == y)
    assert np.mean(combine(votes, 4).argmax(axis=1) == y) > majority + 0.05


def test_features_settle_ties() -> None:
    x, y = blobs(300, 4)
    votes = np.stack([noisy(y, 4, right, seed) for seed, right in enumerate((0.7, 0.7, 0.75))], axis=1)
    alone = np.mean(combine(votes, 4).argmax(axis=1) == y)
    assert np.mean(agree(x, votes, 4).argmax(axis=1) == y) > alone + 0.05


# --- review


def test_wrong_labels_are_proposed_first_and_their_number_is_in_the_interval() -> None:
    x, y = blobs(400, 4)
    rng = np.random.default_rng(7)
    wrong = rng.choice(400, 20, replace=False)
    given = y.copy()
    given[wrong] = (given[wrong] + 1) % 4
    found = review(x, given, 4)
    assert np.isin(np.argsort(-found)[:20], wrong).mean() >= 0.8
    checks = rng.choice(400, 30, replace=False)
    people = {int(i): int(y[i]) for i in (*checks, *np.argsort(-found)[:20])}
    told = number_wrong(found, given, people, {int(i): 1.0 for i in checks})
    assert told.low <= 20 <= told.high
    assert told.low >= sum(given[i] != c for i, c in people.items())


def test_random_checks_estimate_how_often_given_labels_are_wrong() -> None:
    x, y = blobs(300, 3, spread=2.0)
    given = noisy(y, 3, 0.6)
    people = first(y, 60)
    alone, checked = review(x, given, 3), review(x, given, 3, people, dict.fromkeys(people, 1.0))
    assert checked.mean() > alone.mean()
