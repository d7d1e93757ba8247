"""The compared learners: everylabel's, the paper's, L-BFGS, scikit-learn's and River's.

A learner starts from the first n labels and their exactly trained head, then learns one label at a time.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import SGDClassifier

import everylabel as el


class Learner(Protocol):
    """A learner that learns label by label."""

    def learn(self, x: np.ndarray, y: int) -> None:
        """Learn one label."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return probabilities (n, k)."""


class Updated:
    """A posterior updated by one of the library's methods."""

    def __init__(self, x: np.ndarray, y: np.ndarray, mean: np.ndarray, method: str) -> None:
        self.posterior, self.method = el.laplace(mean, x, labels=y), method

    def learn(self, x: np.ndarray, y: int) -> None:
        self.posterior = el.update(self.posterior, x[None], [y], self.method)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(el.predict_proba(self.posterior, x, "mean"))


class WarmLBFGS:
    """SciPy's L-BFGS on all labels from the last weights, for a number of seconds or iterations."""

    def __init__(self, x: np.ndarray, y: np.ndarray, mean: np.ndarray, max_iter: int = 10_000) -> None:
        self.x, self.y = np.c_[x, np.ones(len(x))], y
        self.mean, self.max_iter, self.seconds = mean, max_iter, np.inf

    def learn(self, x: np.ndarray, y: int) -> None:
        began = time.perf_counter()
        self.x, self.y = np.vstack([self.x, np.r_[x, 1.0]]), np.append(self.y, y)
        sums = self.x.T @ np.eye(self.mean.shape[1])[self.y]

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            w = flat.reshape(self.mean.shape)
            f = self.x @ w
            top = f.max(axis=1, keepdims=True)
            e = np.exp(f - top)
            total = e.sum(axis=1, keepdims=True)
            value = np.sum(np.log(total) + top) - np.sum(sums * w) + 0.5 * np.sum(w * w)
            return float(value), (self.x.T @ (e / total) - sums + w).ravel()

        def late(intermediate_result: Any) -> None:
            if time.perf_counter() - began > self.seconds:
                raise StopIteration

        options = {"maxiter": self.max_iter, "gtol": 1e-8, "ftol": 0.0}
        best = minimize(loss, self.mean.ravel(), jac=True, method="L-BFGS-B", callback=late, options=options)
        self.mean = best.x.reshape(self.mean.shape)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return softmax(np.c_[x, np.ones(len(x))] @ self.mean)


class WarmFitMap:
    """`fit_map` on all labels from the last weights, to some tolerance."""

    def __init__(self, x: np.ndarray, y: np.ndarray, mean: np.ndarray, tol: float) -> None:
        self.x, self.y, self.mean, self.tol = x, y, mean, tol

    def learn(self, x: np.ndarray, y: int) -> None:
        self.x, self.y = np.vstack([self.x, x]), np.append(self.y, y)
        self.mean = el.fit_map(self.x, self.y, self.mean.shape[1], init=self.mean, tol=self.tol)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return softmax(np.c_[x, np.ones(len(x))] @ self.mean)


class ScikitLearn:
    """SGDClassifier (one against the rest): its own fit, then partial_fit; alpha is our prior's."""

    def __init__(self, x: np.ndarray, y: np.ndarray, mean: np.ndarray) -> None:
        self.k = mean.shape[1]
        self.model = SGDClassifier(loss="log_loss", alpha=1.0 / len(y), random_state=0)
        order = np.random.default_rng(0)
        for _ in range(20):
            rows = order.permutation(len(y))
            self.model.partial_fit(x[rows], y[rows], classes=np.arange(self.k))

    def learn(self, x: np.ndarray, y: int) -> None:
        self.model.partial_fit(x[None], [y])

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_proba(x))


class River:
    """River's SoftmaxRegression with its default step, started from the trained head."""

    def __init__(self, x: np.ndarray, y: np.ndarray, mean: np.ndarray) -> None:
        from river.linear_model import SoftmaxRegression

        self.model: Any = SoftmaxRegression()
        self.shape = mean.shape
        columns: Any = self.model.weights
        for c in range(mean.shape[1]):
            columns[c] = dict(enumerate(mean[:, c]))

    def learn(self, x: np.ndarray, y: int) -> None:
        self.model.learn_one(dict(enumerate(np.r_[x, 1.0])), y)

    def predict(self, x: np.ndarray) -> np.ndarray:
        d, k = self.shape
        mean = np.array([[self.model.weights[c][j] for c in range(k)] for j in range(d)])
        return softmax(np.c_[x, np.ones(len(x))] @ mean)


def softmax(f: np.ndarray) -> np.ndarray:
    e = np.exp(f - f.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


Make = Callable[[np.ndarray, np.ndarray, np.ndarray], Learner]
EXACT, PAPER, EQUAL_TIME = "exact", "the paper's, step 10", "L-BFGS, equal time"
LEARNERS: dict[str, Make] = {
    EXACT: lambda x, y, mean: Updated(x, y, mean, "exact"),
    PAPER: lambda x, y, mean: Updated(x, y, mean, "second_order"),
    EQUAL_TIME: WarmLBFGS,
    "SGDClassifier.partial_fit": ScikitLearn,
    "River SoftmaxRegression": River,
}
