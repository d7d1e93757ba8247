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

HEAD = """# What a label buys{title}

This page answers: how many labels does the page save, compared with other methods and libraries?

{short}

On texts the page also learns from the class names, which no rival uses; *page, no names* is the comparison
without them.
"""
MEASURED = """## How it was measured

`make bench NAME=labels` measures learning curves: the accuracy after each label. Simulated people label, who
know the true classes. All methods start from the same pool of 2,000 items (digits 1,200, dtd10 800). The page
was developed on {developed}; the other sets were measured only for this report.

- *Accuracy* is the mean of the accuracies on test data and on the unlabelled rest of the pool
  (`{name}.json` has both).
- An *arm* is a method with its settings.
- A *rival* is an arm that is not today's everylabel. The *best rival* is the best of {rivals} in hindsight,
  separately for each dataset and number of labels. A user could not have chosen it. A rival with one
  repetition counts only on a dataset where no rival has more; otherwise the luckiest of them would win.
- *n* is the number of repetitions that both compared arms have. ± is two standard errors of the difference,
  paired by repetition; with so few repetitions they are rough.

The datasets: *digits* (images, 10 classes), *trec6* (questions, 6), *mpqa* (opinions, 2), *dbpedia14*
(entries of an encyclopedia, 14), *banking77* (messages to a bank, 77), *cifar10* (photographs, 10), *dtd10*
(photographs of textures, 10), *clinc150* (commands to an assistant, 150), *subj* (sentences about films, 2)
and *tweetoffensive* (tweets, 2). In *digits:rare* and the like, one class with 5 % of the items is separated
from all others.

The arms of everylabel:

- **page**: the labelling page with its defaults, label by label, but without fine-tuning; one item in ten is
  a random check.
- **page, no names**: the same without class names.
- **select**: `el.select` in batches of 10 with retraining after each batch. It knows the class names.
- **select, ask**: the same, and the model learns each label before it chooses the next item.
- **choice alone**: the default strategy on the features of the rivals, label by label, if it was measured.

The rivals:

- **margin**, **badge**, **random**, **typiclust**: other strategies in our own code, on features centred and
  scaled to norm 10, with prior precision 1 and without class names. Margin is retrained after each label, the
  others after each batch of 10.
- **margin, updates**: margin in batches of 10; the model learns each label by the paper's update before it
  chooses the next item.
- **DropQuery**, **Falcun**, **MaxHerding** of scikit-activeml, and **BreakingTies** of small-text: strategies
  of other libraries, with logistic regression on the same features, in batches of 10.
- **version 0.1, page**: the page of that version.
"""
MINILM = """Texts are embedded by MiniLM, on which the page was developed. [With another
encoder](labels-gte-small.md), gte-small, we measured three datasets.
"""
ENCODER = """Is the page tuned to the encoder MiniLM, on which it was developed? On {sets}
with {encoder}, it needs {needed}
to be as accurate as margin sampling. [What a label buys](labels.md) has all figures with MiniLM.
"""
GOALS = """The goals of the project, and whether they are met. A goal *against the best rival* is met if, from
25 labels on, the arm is on average not below the best rival, and nowhere more than a point below it (beyond
two standard errors). *Labels to match* is a share: 0.24 means that 24 labels reach the accuracy of 100 labels
by margin. If an arm has one repetition on some dataset, the goal is not judged. Goals are judged by unrounded
figures."""

NEEDED = """Labels that the page needs to be as accurate as margin sampling with 100 and with 200 labels; in
brackets their share of 100 and 200. Margin sampling asks about the item whose two most probable classes are
closest. Empty: the set has no class names."""
AGAINST = """The page's accuracy minus the best rival's with equal labels, in percentage points; in brackets
this rival, and the number n of repetitions. Columns: number of labels. Bold: more than a point below, beyond
two standard errors."""
RARE = """How many items of a rare class does each arm find? One class against the rest, at 5 % of the pool:
number of its items that were labelled, and F1 on test data."""
SETFIT = """Is fine-tuning the encoder by SetFit better? Test accuracy and processor time on the same labels,
n runs. *Ours*: the last layer with class names, on the features of the original encoder. *Version 0.1* knows
no class names. SetFit fine-tunes the encoder."""
NAMES = """Do wrong class names do harm? Accuracy without class names, with true ones, with names shuffled
among classes, and with mere codes."""


def write(
    curves: Curves,
    trusted: list[dict[str, Any]],
    tuned: list[dict[str, Any]],
    out: Path,
    records: Mapping[str, results.Record],
    encoder: str | None = None,
    by_minilm: Curves | None = None,
) -> None:
    """Write the report of all curves to `out` with the endings .md and .json.

    records: of each arm and of the other tables; encoder: of the texts, if not MiniLM, and the curves with
    MiniLM to compare with.
    """
    rivals = rivals_of(curves)
    draws = Counter((row["set"], row["seed"]) for row in trusted)
    trusted = [row for row in trusted if draws[row["set"], row["seed"]] == len(KINDS)]  # whole ones
    developed = ", ".join(sets.DEVELOPED_ON)
    had = {"developed": developed, "rivals": len(rivals), "name": out.name}
    text = [HEAD.format(short=summary(curves), title=f", by {encoder}" if encoder else "")]
    text += [other_encoder(curves, encoder, by_minilm) if encoder and by_minilm else MINILM]
    text += ["## Labels needed", "", NEEDED, "", *needs(curves), ""]
    text += ["## Against the best rival", "", AGAINST, "", *against(curves, OURS), ""]
    text += [MEASURED.format(**had)]
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
    text += [
        "## Goals",
        "",
        GOALS,
        "",
        *_table(["goal", "measured", "met"], bars(curves, trusted, tuned)),
        "",
    ]
    text += ["## Repetitions and versions", "", f"Repetitions of each arm: {_had(curves)}.", ""]
    text += [results.sentence(records), ""]
    out.with_suffix(".md").write_text("\n".join(text))
    results.write(out.with_suffix(".json"), _numbers(curves, trusted, tuned), cached=records, indent=0)


def other_encoder(curves: Curves, encoder: str, by_minilm: Curves) -> str:
    """Return the labels that the page needs with an encoder and with MiniLM, on the same datasets."""
    names = in_order(curves)
    parts = []
    for n in (100, 200):
        here, there = (n * np.mean([*capped(each, names, n).values()]) for each in (curves, by_minilm))
        parts.append(f"{here:.0f} labels instead of {n} (with MiniLM {there:.0f})")
    return ENCODER.format(encoder=encoder, sets=", ".join(names), needed=" and ".join(parts))


def summary(curves: Curves) -> str:
    """Return the main figures in words."""
    parts = []
    for n in (100, 200):
        shares = [
            np.mean([*found.values()]) for names in groups(curves) if (found := capped(curves, names, n))
        ]
        if len(shares) == 2:
            parts.append(
                f"- To be as accurate as margin sampling with {n} labels, the page needs {n * shares[0]:.0f} "
                f"labels on texts with three or more classes,\n  and {n * shares[1]:.0f} on the other sets."
            )
    rivals, n_rivals = rivals_of(curves), len(rivals_of(curves))
    gains = [each.mean for each in regrets(curves, OURS, rivals, "both", in_order(curves)).values()]
    if gains:
        points = 100 * np.mean(gains)
        side = "above" if points >= 0 else "below"
        parts.append(
            f"- With equal labels, its accuracy is {abs(points):.1f} points {side} that of the best of "
            f"{n_rivals} rivals."
        )
    return "\n".join([*parts, "", "These are means over datasets."])


def _had(curves: Curves) -> str:
    """Return the number of repetitions of each arm, over all datasets."""
    counts: dict[str, list[int]] = {}
    for name in curves.sets():
        for arm in curves.arms(name):
            counts.setdefault(arm, []).append(len(curves.seeds(name, arm)))
    groups: dict[str, list[str]] = {}
    for arm, some in sorted(counts.items()):
        groups.setdefault(" to ".join(map(str, sorted({min(some), max(some)}))), []).append(arm)
    return "; ".join(f"{n} of *{'*, *'.join(arms)}*" for n, arms in sorted(groups.items()))


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
    rival = found.rival.removeprefix("scikit-activeml, ").removeprefix("small-text, ")
    text = f"{100 * found.mean:+.1f}{error} ({rival}, n = {found.n})"
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
    return _table(["set, 2 labels per class", "repetitions", "no names", "true", "shuffled", "codes"], shown)


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
    return _table(["set", "labels per class", "ours", "version 0.1", "SetFit"], shown)


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
