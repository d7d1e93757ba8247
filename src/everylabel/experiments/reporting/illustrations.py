"""Pictures of what an update does: Monte Carlo reweighting in one dimension (Fig. 1), and a decision
boundary in two dimensions before the update, after it, and retrained.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from everylabel.core import fit_map, laplace, predict_proba, sample, update
from everylabel.experiments.engine import seeded
from everylabel.experiments.reporting.plots import BLUE, GREEN, RED

CLASSES = (BLUE, RED)
SHADES = [LinearSegmentedColormap.from_list("", (BLUE, "white", RED))(i / 9) for i in range(10)]


def monte_carlo_picture() -> Figure:
    """Draw hypotheses and their weights before and after new labels (Fig. 1)."""
    rng = seeded("monte carlo picture")
    x = np.array([-2.0, -1.5, -1.0, 1.0, 1.6, 2.2])[:, None]
    y = np.array([0, 0, 0, 1, 1, 1])
    new_x, new_y = np.array([[0.0], [0.4], [0.6]]), np.array([0, 0, 0])
    samples = sample(laplace(fit_map(x, y, 2, binary=True), x, "binary"), 60, rng)
    after = update(samples, new_x, new_y, step_size=1.0)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    grid = np.linspace(-3, 3, 200)[:, None]
    for axis, state, title in ((axes[0], samples, "before"), (axes[1], after, "after three labels")):
        weights = np.exp(np.asarray(state.log_weights))
        for member, weight in zip(np.asarray(state.members), weights, strict=True):
            logits = np.c_[grid, np.ones(len(grid))] @ member[:, 0]
            axis.plot(grid, 1 / (1 + np.exp(-logits)), color=BLUE, alpha=float(min(1.0, 12 * weight)), lw=0.8)
        axis.plot(grid, predict_proba(state, grid)[:, 1], color="black", lw=2)
        axis.scatter(x, y, edgecolor="black", facecolor="white", zorder=3)
        if state is after:
            axis.scatter(new_x, new_y, color=GREEN, marker="D", zorder=3)
        axis.set(title=title, xlabel="x", ylabel="probability of class 1")
    return figure


def boundary_picture() -> Figure:
    """Draw the decision boundary before new labels, after each update, and retrained."""
    rng = seeded("boundary picture")
    centres = np.array([[-2.0, 0.0], [2.0, 0.0]])
    y = rng.integers(2, size=20)
    x = centres[y] + rng.normal(size=(20, 2))
    new_x, new_y = np.array([[-0.5, 2.5], [0.2, 3.0], [-0.2, 2.0]]), np.array([1, 1, 1])
    base = laplace(fit_map(x, y, 2), x)
    all_x, all_y = np.concatenate([x, new_x]), np.concatenate([y, new_y])
    states = {
        "before": base,
        "second order, step 10": update(base, new_x, new_y, "second_order"),
        "exact": update(base, new_x, new_y, "exact"),
        "retrained": laplace(fit_map(all_x, all_y, 2), all_x),
    }
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    for axis, (title, state) in zip(
        figure.subplots(1, len(states), sharey=True), states.items(), strict=True
    ):
        _boundary(axis, state)
        axis.scatter(*x.T, c=[CLASSES[c] for c in y], edgecolor="black", s=24)
        if title != "before":
            axis.scatter(*new_x.T, color=CLASSES[1], marker="D", edgecolor="black", linewidth=1.5, s=42)
        axis.set(title=title)
    return figure


def _boundary(axis: Axes, state: Any) -> None:
    ticks = np.linspace(-5, 5, 80)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    probs = np.asarray(predict_proba(state, grid))[:, 1].reshape(80, 80)
    axis.contourf(ticks, ticks, probs, levels=np.linspace(0, 1, 11), colors=SHADES, alpha=0.5)
    axis.contour(ticks, ticks, probs, levels=[0.5], colors="black")
