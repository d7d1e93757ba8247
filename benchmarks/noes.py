"""What a "no" teaches: `python -m benchmarks.noes`.

A person is asked about random items, one proposal each, and says yes or no; nothing else. Models are trained
on what they said, every ROUND items: one on the yeses alone, one on the noes besides; and one that was told
the class of every item. All see the same items in the same order; each proposes by what it knows itself.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.labels.sets import Data, load
from benchmarks.timing import report
from everylabel.labelling.model.scaling import prepare
from everylabel.labelling.model.training import train

SETS = {"digits": (20, 200), "trec6": (20, 200), "dbpedia14": (28, 200), "banking77": (80, 400)}
ROUND = 20
TOLERANCE = 1e-4  # of a training that only has to classify


class Run(NamedTuple):
    """Accuracies on test data, and how many noes there were."""

    before: float
    yes: float
    yes_and_no: float
    told: float
    noes: int


class Asked:
    """A pool that a person is asked about, in a random order."""

    def __init__(self, data: Data, seed: int, first: int) -> None:
        self.data, prepared = data, prepare(data.x)
        self.x = prepared.features
        self.x_test = np.c_[prepared.scaling(data.x_test), np.ones(len(data.x_test))]
        self.order = np.random.default_rng(seed).permutation(len(self.x)).tolist()
        self.first = first

    def labels(self, n: int) -> dict[int, int]:
        """Return the classes of the first n items."""
        return {i: int(self.data.y[i]) for i in self.order[:n]}

    def weights(self, labels: dict[int, int], ruled_out: dict[int, set[int]]) -> np.ndarray:
        return np.asarray(train(self.x, labels, self.data.k, ruled_out=ruled_out, tol=TOLERANCE).mean)

    def accuracy(self, weights: np.ndarray) -> float:
        return float(np.mean((self.x_test @ weights).argmax(axis=1) == self.data.y_test))

    def yes_or_no(self, n: int, learn_noes: bool) -> tuple[float, int]:
        """Return the accuracy after n items were asked about, and how many noes there were."""
        labels, noes = self.labels(self.first), dict[int, set[int]]()
        for start in range(self.first, self.first + n, ROUND):
            weights = self.weights(labels, noes if learn_noes else {})
            for i in self.order[start : start + ROUND]:
                proposed = int((np.r_[self.x[i], 1.0] @ weights).argmax())
                if proposed == self.data.y[i]:
                    labels[i] = proposed
                else:
                    noes[i] = {proposed}
        return self.accuracy(self.weights(labels, noes if learn_noes else {})), len(noes)


def runs(name: str, seeds: int, folder: Path) -> Iterator[Run]:
    """Yield what came out, for each seed."""
    first, n = SETS[name]
    for seed in range(seeds):
        asked = Asked(load(name, folder, seed), seed, first)
        before, told = (asked.accuracy(asked.weights(asked.labels(m), {})) for m in (first, first + n))
        yes, _ = asked.yes_or_no(n, False)
        both, noes = asked.yes_or_no(n, True)
        yield Run(before, yes, both, told, noes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the features")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    columns = ["set", "before", "yes only", "yes and no", "all told", "noes", "gain", "standard error"]
    rows = []
    for name in given.sets:
        found = np.array(list(runs(name, given.seeds, given.data)))
        gain = found[:, 2] - found[:, 1]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        means = [f"{value:.3f}" for value in found[:, :4].mean(axis=0)]
        rows.append([name, *means, f"{found[:, 4].mean():.0f}", f"{gain.mean():.3f}", f"{error:.3f}"])
    report("what a no teaches", columns, rows)


if __name__ == "__main__":
    main()
