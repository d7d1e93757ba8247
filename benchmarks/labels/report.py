"""The report, docs/results/labels*.json, .md and .png: each goal, its figure and whether it is met."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.labels import sets
from benchmarks.labels.arms import MARGIN, NO_NAMES, OUR_ARMS, OURS, in_order, rivals_of
from benchmarks.labels.bars import bars, capped, groups
from benchmarks.labels.curve import BUDGETS
from benchmarks.labels.figures import Curves, Difference, accuracies, needed, regrets
from benchmarks.labels.trust import KINDS

HEAD = """# What a label buys

We asked how many labels the page saves, compared with other methods and libraries.
{short}

On texts the page also learns from the class names, which no rival uses; *page, no names* is the comparison
without them.

`make bench NAME=labels` measures learning curves: the accuracy after each label. Simulated people label, who
know the true classes. All methods start from the same pool of 2,000 items (digits 1,200, dtd10 800). The page
was developed on {developed}; the other sets were measured only for this report.
A method with its settings is an *arm*. Repetitions (arms are separated by slashes): {repetitions}.

The arms:

- **page**: the labelling page with its defaults, label by label; one item in ten is a random check.
  **page, no names**: the same without class names.
- **select**: `el.select` in batches of 10 with retraining after each batch. **select, ask**: the same, and
  the model learns each label before it chooses the next item. Both know the class names.
- **margin**, **badge**, **random**, **typiclust**: rivals in our own code, on features centred and scaled to
  norm 10, with prior precision 1 and without class names. Margin is retrained after each label, the others
  after each batch of 10. **margin, updates**: margin in batches of 10; the model learns each label by the
  paper's update before it chooses the next item.
- **choice alone**: the default strategy on the features of the rivals, label by label, if it was measured.
- **scikit-activeml**, **small-text**: rivals of other libraries, with logistic regression on the same
  features, in batches of 10.
- **version 0.1, page**: the page of that version; it counts as a rival.

Other words:

- *Accuracy* is the mean of the accuracies on test data and on the unlabelled rest of the pool
  (`labels.json` has both). ± is two standard errors of the difference, paired by repetition; with so few
  repetitions they are rough.
- The *best rival* is the best of {rivals} in hindsight, separately for each dataset and number of labels. A
  user could not have chosen it. A rival with one repetition counts only on a dataset where no
  rival has more; otherwise the luckiest of them would win. *n* is the number of repetitions that both have.
"""
ENCODER = """Features of texts are of {encoder} instead of MiniLM, on which the page was developed.
[What a label buys](labels.md) has the same figures with MiniLM."""
GOALS = """A goal *against the best rival* is met if, from 25 labels on, the arm is on average not below the
best rival, and nowhere more than a point below it (beyond two standard errors). *Labels to match* is a share:
0.24 means that 24 labels reach the accuracy of 100 labels by margin. If an arm has one repetition on some
dataset, the goal is not judged. Goals are judged by unrounded figures."""

NEEDED = (
    "Labels that an arm needs to reach margin's accuracy at 100 and at 200 labels, and their share of 100 "
    "and 200. Empty: not measured, or measured by version 0.1 at a few numbers of labels only."
)
AGAINST = (
    "The page's accuracy minus the best rival's, in points; bold: more than a point below, beyond two "
    "standard errors."
)
SETFIT = (
    "Test accuracy and processor time on the same labels, n runs. *Ours*: our head with class names, on "
    "frozen features. *Version 0.1's head* knows no class names. SetFit fine-tunes the encoder."
)
RARE = "One class against the rest, at 5 % of the pool: positives labelled, and F1 on test data."
NAMES = (
    "Accuracy without class names, with true ones, with names shuffled among classes, and with mere codes."
)


def write(
    curves: Curves,
    trusted: list[dict[str, Any]],
    tuned: list[dict[str, Any]],
    out: Path,
    records: Mapping[str, results.Record],
    encoder: str | None = None,
) -> None:
    """Write the report of all curves to `out` with the endings .md and .json.

    records: of each arm and of the other tables; encoder: of the texts, if not MiniLM.
    """
    rivals = rivals_of(curves)
    draws = Counter((row["set"], row["seed"]) for row in trusted)
    trusted = [row for row in trusted if draws[row["set"], row["seed"]] == len(KINDS)]  # whole ones
    developed = ", ".join(sets.DEVELOPED_ON)
    had = {"developed": developed, "rivals": len(rivals), "repetitions": _had(curves)}
    text = [HEAD.format(short=summary(curves), **had)]
    text += [ENCODER.format(encoder=encoder), ""] if encoder else []
    text += [results.sentence(records), ""]
    text += [
        "## Goals",
        "",
        GOALS,
        "",
        *_table(["goal", "measured", "met"], bars(curves, trusted, tuned)),
        "",
    ]
    text += [
        "`make bench NAME=serving` measures the time from label to next item over HTTP (`serving.json`).",
        "",
    ]
    text += ["## Labels needed", "", NEEDED, "", *needs(curves), ""]
    text += ["## Against the best rival", "", AGAINST, "", *against(curves, OURS), ""]
    if any(":" in name for name in curves.sets()):
        text += ["## A class of 5 %", "", RARE, "", *rare(curves), ""]
    if trusted:
        text += ["## Misleading class names", "", NAMES, "", *trust_table(trusted), ""]
    if tuned:
        text += ["## SetFit", "", SETFIT, "", *tuned_table(tuned), ""]
    image = f"![Curves]({out.name}.png)"
    text += ["## Curves", "", "Mean accuracy by the number of labels.", "", image, ""]
    for name in in_order(curves):
        text += [f"### {name}", "", *curve_table(curves, name), ""]
    out.with_suffix(".md").write_text("\n".join(text))
    results.write(out.with_suffix(".json"), _numbers(curves, trusted, tuned), cached=records, indent=0)


def summary(curves: Curves) -> str:
    """Return the main figures in words."""
    parts = []
    for n in (100, 200):
        shares = [
            np.mean([*found.values()]) for names in groups(curves) if (found := capped(curves, names, n))
        ]
        if len(shares) == 2:
            parts.append(
                f"To match {n} labels of margin sampling, the page needs {n * shares[0]:.0f} on texts with "
                f"three or more classes and {n * shares[1]:.0f} on the other sets."
            )
    gains = [
        each.mean for each in regrets(curves, OURS, rivals_of(curves), "both", in_order(curves)).values()
    ]
    if gains:
        points = 100 * np.mean(gains)
        side = "above" if points >= 0 else "below"
        parts.append(f"With equal labels, its accuracy is {abs(points):.1f} points {side} the best rival's.")
    return "\n".join([*parts, "All figures are means over datasets."])


def _had(curves: Curves) -> str:
    """Return the number of repetitions of each arm, over all datasets."""
    counts: dict[str, list[int]] = {}
    for name in curves.sets():
        for arm in curves.arms(name):
            counts.setdefault(arm, []).append(len(curves.seeds(name, arm)))
    groups: dict[str, list[str]] = {}
    for arm, some in sorted(counts.items()):
        groups.setdefault(" to ".join(map(str, sorted({min(some), max(some)}))), []).append(arm)
    return "; ".join(f"{n} of {' / '.join(arms)}" for n, arms in sorted(groups.items()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def needs(curves: Curves) -> list[str]:
    """Return the table of labels needed for margin's accuracy, as shares of margin's."""
    rows = []
    for name in (name for name in in_order(curves) if ":" not in name):
        shown = []
        for arm in (OURS, NO_NAMES):
            for n in (100, 200):
                has = curves.is_whole(name, arm) and curves.seeds(name, arm, MARGIN)
                count = needed(curves, name, arm, MARGIN, n) if has else None
                shown.append(
                    "" if not has else "> 400" if count is None else f"{count:.0f} ({count / n:.2f})"
                )
        seeds = curves.seeds(name, OURS, MARGIN) if OURS in curves.arms(name) else []
        rows.append([name, str(len(seeds)), *shown])
    head = [f"{arm}, for {n}" for arm in (OURS, NO_NAMES) for n in (100, 200)]
    return _table(["set", "repetitions", *head], rows)


def against(curves: Curves, arm: str) -> list[str]:
    """Return the arm minus the best rival at each budget, in points with two standard errors."""
    budgets, rivals = [n for n in BUDGETS if n >= 25], rivals_of(curves)
    found = regrets(curves, arm, rivals, "both", in_order(curves))
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        rows.append([name, *(_points(found[name, n]) for n in budgets)])
    return _table(["set", *map(str, budgets)], rows)


def _points(found: Difference) -> str:
    error = "" if found.error is None else f" ± {200 * found.error:.1f}"
    text = f"{100 * found.mean:+.1f}{error} ({found.rival}, n = {found.n})"
    return f"**{text}**" if found.behind else text


def rare(curves: Curves) -> list[str]:
    """Return positives labelled and F1 on test data, at 100, 200 and 400 labels."""
    rows = []
    for name in (name for name in in_order(curves) if ":" in name):
        for arm in curves.arms(name):
            seeds = curves.seeds(name, arm)
            cells = []
            for n in (100, 200, 400):
                positives, f1 = (
                    curves.values(name, arm, n, what, seeds).mean() for what in ("positives", "f1")
                )
                cells.append(f"{positives:.1f}, {f1:.3f}")
            rows.append([name, arm, str(len(seeds)), *cells])
    return _table(["set", "arm", "repetitions", "100 labels", "200", "400"], rows)


def trust_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return accuracy by kind of names, and the difference to none in points with two standard errors."""
    shown = []
    for name in dict.fromkeys(row["set"] for row in rows):
        by = {kind: accuracies(rows, set=name, names=kind) for kind in KINDS}
        line = [name, str(len(by["none"])), f"{by['none'].mean():.3f}"]
        for kind in ("true", "shuffled", "codes"):
            gain = 100 * (by[kind] - by["none"])
            line.append(f"{by[kind].mean():.3f} ({gain.mean():+.1f} ± {2 * _error(gain):.1f})")
        shown.append(line)
    return _table(["set, 2 labels per class", "draws", "no names", "true", "shuffled", "codes"], shown)


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def tuned_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return test accuracy and processor seconds of SetFit and of linear heads on the same labels."""
    shown = []
    for name, n in dict.fromkeys((row["set"], row["a_class"]) for row in rows):
        line = [f"{name}, 10 classes", str(n)]
        for arm in ("ours", "version 0.1", "SetFit"):
            some = [r for r in rows if (r["set"], r["a_class"], r["arm"]) == (name, n, arm)]
            if some:
                mean = {key: np.mean([r[key] for r in some]) for key in ("test", "processor_seconds")}
                line.append(f"{mean['test']:.3f}, {mean['processor_seconds']:.3g} s (n = {len(some)})")
            else:
                line.append("")
        shown.append(line)
    return _table(["set", "labels per class", "ours", "version 0.1's head", "SetFit"], shown)


def curve_table(curves: Curves, name: str) -> list[str]:
    """Return mean accuracies of all arms at the budgets."""
    rows = []
    for arm in sorted(curves.arms(name), key=lambda arm: (arm not in OUR_ARMS, arm)):
        seeds = curves.seeds(name, arm)
        means = [curves.values(name, arm, n, "both", seeds).mean() for n in BUDGETS]
        rows.append([arm, str(len(seeds)), *(f"{mean:.3f}" for mean in means),
                     f"{curves.seconds(name, arm):.1f}"])  # fmt: skip
    return _table(["arm", "repetitions", *map(str, BUDGETS), "seconds per curve"], rows)


def _numbers(curves: Curves, trusted: list[dict[str, Any]], tuned: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the accuracies of all curves, repetition by repetition."""
    rows = []
    for name in in_order(curves):
        for arm in curves.arms(name):
            seeds = curves.seeds(name, arm)
            stops = curves.curve(name, arm, "test", seeds)[0].tolist()
            found = {what: {n: curves.values(name, arm, n, what, seeds).tolist() for n in stops}
                     for what in ("test", "left", *(("positives", "f1") if ":" in name else ()))}  # fmt: skip
            about = {"seconds": curves.seconds(name, arm), "names": curves.taught(name, arm)}
            rows.append({"set": name, "arm": arm, "seeds": seeds, **about, **found})
    return {"curves": rows, "trust": trusted, "fine_tuning": tuned}
