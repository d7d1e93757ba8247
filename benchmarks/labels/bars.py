"""The goals, their figures, and whether they are met."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.labels.arms import MARGIN, OUR_ARMS, OURS, in_order, rivals_of
from benchmarks.labels.figures import JUDGED, Curves, accuracies, difference, needed, regrets

SHOWN = {"test": "test data", "left": "unlabelled rest", "both": "mean of both"}
NAMED = ("trec6", "dbpedia14", "banking77", "clinc150")  # texts with several classes and real names


def bars(curves: Curves, trusted: list[dict[str, Any]], tuned: list[dict[str, Any]]) -> list[list[str]]:
    """Return each goal with its figure and whether it is met."""
    rows = [*_needed_bars(curves), *_regret_bars(curves), *_rare_bars(curves)]
    lies = _lies(trusted)
    if lies:
        worst = min(lies, key=lambda each: each[1])
        rows.append(["misleading class names, 2 labels per class: at most 1 point below no names",
                     f"worst {worst[1]:+.1f} ({worst[0]})", _met(worst[1] >= -1.0)])  # fmt: skip
    if {"SetFit", "ours"} <= {row["arm"] for row in tuned}:
        rows.append(["SetFit, 2, 4, 8 labels per class: always ahead, in a thousandth of the time",
                     *_ahead(tuned)])  # fmt: skip
    return rows


def _needed_bars(curves: Curves) -> list[list[str]]:
    rows = []
    kinds = ("texts with three or more classes", 0.5), ("images, texts with two classes", 0.75)
    for (what, most), names in zip(kinds, groups(curves), strict=True):
        for n in (100, 200):
            found = capped(curves, names, n)
            if found:
                text = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
                mean = np.mean([*found.values()])
                rows.append([f"labels to match {n} of margin, {what}: at most {most}",
                             f"{mean:.2f} ({text})", _met(mean <= most)])  # fmt: skip
    return rows


def groups(curves: Curves) -> tuple[list[str], list[str]]:
    """Return the sets of texts with three or more classes, and the others without a rare class."""
    names = [name for name in in_order(curves) if ":" not in name]
    return [name for name in names if name in NAMED], [name for name in names if name not in NAMED]


def capped(curves: Curves, names: Sequence[str], n: int) -> dict[str, float]:
    """Return `ratios` of the page, with 400 labels where it never reaches margin's accuracy."""
    found = ratios(curves, names, OURS, n)
    return {name: 400 / n if value is None else value for name, value in found.items()}


def ratios(curves: Curves, names: Sequence[str], arm: str, n: int) -> dict[str, float | None]:
    """Return, by dataset, the labels needed for margin's accuracy at n, divided by n; None if above 400."""
    found = {}
    for name in names:
        ours = arm if arm in curves.arms(name) else OURS
        if curves.seeds(name, ours, MARGIN):
            count = needed(curves, name, ours, MARGIN, n)
            found[name] = None if count is None else count / n
    return found


def _regret_bars(curves: Curves) -> list[list[str]]:
    rows = []
    for arm in OUR_ARMS:
        for what in JUDGED:
            found = regrets(curves, arm, rivals_of(curves), what, in_order(curves))
            if found:
                behind = [f"{name} at {n}" for (name, n), each in found.items() if each.behind]
                mean = 100 * float(np.mean([each.mean for each in found.values()]))
                text = f"mean {mean:+.1f} points; behind at {len(behind)} of {len(found)}"
                text += f": {', '.join(behind)}" if behind else ""
                judged = all(each.error is not None for each in found.values())
                met = _met(not behind and mean >= 0) if judged else "not judged: one repetition of some"
                rows.append([f"{arm} against the best rival, {SHOWN[what]}", text, met])
    return rows


def _rare_bars(curves: Curves) -> list[list[str]]:
    rows = []
    for what in ("positives", "f1"):
        names = [n for n in in_order(curves) if ":" in n and OURS in curves.arms(n)]
        found = {
            n: difference(curves, n, OURS, MARGIN, 200, what) for n in names if curves.seeds(n, OURS, MARGIN)
        }
        if found:
            text = ", ".join(
                f"{n} {each.mean:+.2f} ± {2 * (each.error or 0):.2f}" for n, each in found.items()
            )
            met = all(each.mean + 2 * (each.error or 0) >= 0 for each in found.values())
            mean = np.mean([each.mean for each in found.values()])
            rows.append([f"class of 5 %, 200 labels: {what}, at least margin's (within 2 standard errors)",
                         f"mean {mean:+.2f} ({text})", _met(met)])  # fmt: skip
    return rows


def _lies(rows: list[dict[str, Any]]) -> list[tuple[str, float]]:
    found = []
    for name in dict.fromkeys(row["set"] for row in rows):
        for kind in ("shuffled", "codes"):
            gain = accuracies(rows, set=name, names=kind) - accuracies(rows, set=name, names="none")
            error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else 0.0
            what = f"{name}, {kind}, ± {200 * error:.1f}"
            found.append((what, 100 * float(gain.mean())))
    return found


def _ahead(rows: list[dict[str, Any]]) -> list[str]:
    by = {(r["set"], r["a_class"], r["seed"], r["arm"]): r for r in rows}
    keys = [key[:3] for key in by if key[3] == "SetFit" and (*key[:3], "ours") in by]
    gains = {key: by[*key, "ours"]["test"] - by[*key, "SetFit"]["test"] for key in keys}
    times = [by[*key, "SetFit"]["processor_seconds"] / by[*key, "ours"]["processor_seconds"] for key in keys]
    won = sum(gain >= 0 for gain in gains.values())
    text = f"ahead or level in {won} of {len(gains)} ({100 * np.mean(list(gains.values())):+.1f} points), "
    return [
        text + f"{np.median(times):.0f} times faster (median)",
        _met(won == len(gains) and min(times) >= 1000),
    ]


def _met(yes: Any) -> str:
    return "yes" if yes else "**no**"
