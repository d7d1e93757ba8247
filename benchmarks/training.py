"""`make bench NAME=training`: `fit_map` against scikit-learn's LogisticRegression, to the same gradient norm.

Processor time of one thread; all take turns on the same data. A rival runs at the largest tolerance (three
per factor of ten) at which its gradient is as small as that of `fit_map`, or at the smallest tolerance if
there is none. The search starts at the tolerance of the last size. Runs longer than SLOW seconds are timed
once.
"""

import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # before NumPy: ratios on one core are the steadiest

import numpy as np  # noqa: E402
import typer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

import everylabel as el  # noqa: E402
from benchmarks import timing  # noqa: E402
from benchmarks.results import write  # noqa: E402
from benchmarks.updates.datasets import Dataset, load  # noqa: E402
from benchmarks.updates.rivals import softmax  # noqa: E402

SOLVERS = ("lbfgs", "newton-cholesky")
TOLERANCES = tuple(10.0 ** (-3 - third / 3) for third in range(19))
SLOW = 5.0
OURS = 1e-5  # of the gradient at zero weights
LARGEST = 3000  # unknowns above which newton-cholesky's Hessian takes minutes, and is left out


def gradient_norm(x: np.ndarray, y: np.ndarray, mean: np.ndarray) -> float:
    """Return the norm of the objective's gradient, prior precision 1 on all weights (d, k)."""
    k = mean.shape[1]
    return float(np.linalg.norm(x.T @ (softmax(x @ mean) - np.eye(k)[y]) + mean))


def rival(x: np.ndarray, y: np.ndarray, solver: str, tol: float) -> np.ndarray:
    """Return scikit-learn's weights (d, k); the bias is one of the features, as in everylabel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(C=1.0, solver=solver, tol=tol, max_iter=10_000, fit_intercept=False)
        weights = model.fit(x, y).coef_
    # with two classes it has one column, of the difference: two of half of it are our model at half the prior
    return np.asarray(weights.T if len(weights) > 1 else np.c_[-0.5 * weights.T, 0.5 * weights.T])


class Found(NamedTuple):
    """The tolerance at which a rival is as precise as `fit_map`, its precision, and its seconds."""

    at: int  # in TOLERANCES
    reached: float
    seconds: float


def as_near(norm: Callable[[float], float], wanted: float, first: int) -> Found:
    """Return the largest tolerance at which a norm is small enough, or the smallest tolerance."""
    tried: dict[int, Found] = {}

    def near(at: int) -> bool:
        began = time.process_time()
        reached = norm(TOLERANCES[at])
        tried[at] = Found(at, reached, time.process_time() - began)
        return reached <= wanted

    at, last = first, len(TOLERANCES) - 1
    if near(at):
        while at > 0 and near(at - 1):
            at -= 1
    else:
        at = min(at + 1, last)
        while not near(at) and at < last:
            at += 1
    return tried[at]


def compare(x: np.ndarray, y: np.ndarray, k: int, rounds: int, first: dict[str, int]) -> dict[str, Any]:
    """Return the milliseconds of all on one problem; `first` : the tolerances of the last problem."""
    design = np.c_[x, np.ones(len(x))]
    ours = el.fit_map(design, y, k, bias=False, tol=OURS)
    wanted = gradient_norm(design, y, ours)
    jobs: dict[str, Any] = {"fit_map": lambda: el.fit_map(design, y, k, bias=False, tol=OURS)}
    row: dict[str, Any] = {"n": len(y), "d": design.shape[1], "k": k, "gradient": wanted}
    norm = partial(gradient_norm, design, y)
    if k == 2:  # gradients of two columns are not those of one: compare one with one

        def ours_of_one() -> np.ndarray:
            return np.asarray(el.fit_map(design, y, 2, bias=False, binary=True, tol=OURS))

        norm, jobs["fit_map"] = partial(_norm_of_one, design, y), ours_of_one
        row["gradient"] = wanted = norm(ours_of_one())
    slow = {}
    for solver in SOLVERS:
        if k > 2 and solver == "newton-cholesky" and design.shape[1] * k > LARGEST:
            continue
        found = as_near(partial(_norm_at, norm, design, y, solver), wanted, first.get(solver, 0))
        first[solver], tol = found.at, TOLERANCES[found.at]
        row |= {f"{solver}_tol": tol, f"{solver}_gradient": found.reached}
        if found.seconds > SLOW:
            slow[solver] = found.seconds
        else:
            jobs[solver] = partial(rival, design, y, solver, tol)
    times = timing.seconds(jobs, rounds, time.process_time) | slow
    return row | {f"{name}_ms": 1e3 * seconds for name, seconds in times.items()}


def _norm_at(
    norm: Callable[[np.ndarray], float], design: np.ndarray, y: np.ndarray, solver: str, tol: float
) -> float:
    return norm(rival(design, y, solver, tol))


def _norm_of_one(design: np.ndarray, y: np.ndarray, mean: np.ndarray) -> float:
    """Return the norm of the gradient of one sigmoid column, given as two opposite softmax columns."""
    column = mean[:, -1] if mean.shape[1] == 1 else 2.0 * mean[:, 1]
    p = 1.0 / (1.0 + np.exp(-(design @ column)))
    return float(np.linalg.norm(design.T @ (p - y) + column))


def problems(datasets: dict[str, Dataset], sizes: list[int]) -> Any:
    """Yield names, features and labels: all classes of each dataset, and two of CIFAR-10."""
    for name in ("CIFAR-10", "Banking-77", "Clinc-150"):
        if name not in datasets:
            continue
        data = datasets[name]
        order = np.random.default_rng(0).permutation(len(data.y))
        for n in sizes:
            some = order[:n]
            if n <= len(order) and len(np.unique(data.y[some])) == data.k:
                yield name, data.x[some], data.y[some], data.k
            two = order[data.y[order] < 2][:n]
            if name == "CIFAR-10" and len(two) == n:
                yield f"{name}, two classes", data.x[two], data.y[two], 2


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Turns each has.")] = 3,
    size: Annotated[list[int] | None, typer.Option(help="Numbers of instances.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of feature files (.npz).")] = Path("../shared/data"),
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("docs/results/training.json"),
) -> None:
    """Measure training against scikit-learn's."""
    rows, lines, first = [], [], dict[str, dict[str, int]]()
    for name, x, y, k in problems(load(data), size or [100, 300, 1000, 3000, 10_000]):
        row = {"dataset": name, **compare(x, y, k, rounds, first.setdefault(name, {}))}
        rows.append(row)
        ratios = [row.get(f"{s}_ms", float("nan")) / row["fit_map_ms"] for s in SOLVERS]
        lines.append([name, str(row["n"]), str(k), f"{row['fit_map_ms']:.1f}", *(f"{r:.1f}" for r in ratios)])
        print(*lines[-1], flush=True)
    columns = ["dataset", "n", "k", "fit_map, ms", *(f"{solver}, times" for solver in SOLVERS)]
    timing.report("Training to the same gradient norm", columns, lines)
    found = {"load": os.getloadavg(), "version": el.__version__, "rows": rows}
    write(out, found)


if __name__ == "__main__":
    typer.run(main)
