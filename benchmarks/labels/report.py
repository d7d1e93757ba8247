"""The report: docs/results/labels.json, .md and .png, with each bar, its figure and whether it is met."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.labels import sets
from benchmarks.labels.arms import BEFORE, MARGIN, NO_NAMES, OUR_ARMS, OURS
from benchmarks.labels.curve import BUDGETS
from benchmarks.labels.figures import JUDGED, Curves, Difference, difference, needed, regrets

NAMED = ("trec6", "dbpedia14", "banking77", "clinc150")  # texts with several classes and real names
HEAD = """# What a label buys

`make bench-labels`. Accuracy is the mean of that on test data and on what is left of the pool (each is in
`labels.json`). All arms of a repetition have the same pool of 2,000 (digits 1,200, dtd10 800) and the same
truth. How many repetitions an arm had is in each table: differences are over those that both had.

- **page** is the labelling page's own loop with its defaults, label by label, a random check in ten among
  them; **select** and **select, ask** are `el.select` in batches of 10 with training after each, without and
  with updates between picks; **choice alone** is the default strategy on the features of the rivals, label by
  label.
- Rivals by our own code have features centred and scaled to norm 10, prior precision 1, no names: **margin**
  is trained anew after each label, the others after each batch of 10. Those of other libraries use logistic
  regression on the same features, in batches of 10. **version 0.1, page** is that version's own loop.
- Developed on {developed}; the other sets were looked at only to report.
- The best rival is the best of {rivals} after the fact, at each budget of each set: nobody could have chosen
  it so.
"""


def write(curves: Curves, trusted: list[dict[str, Any]], tuned: list[dict[str, Any]], out: Path) -> None:
    """Write the report of what there is."""
    rivals = rivals_of(curves)
    text = [HEAD.format(developed=", ".join(sets.DEVELOPED_ON), rivals=len(rivals))]
    text += ["## The bars", "", *bars(curves, trusted, tuned), ""]
    text += ["## Labels needed", "", *needs(curves), ""]
    text += ["## Against the best rival", "", *against(curves, OURS), ""]
    text += ["## A class of 5 %", "", *rare(curves), ""]
    text += ["## Names that lie or say nothing", "", *trust_table(trusted), ""]
    text += ["## SetFit", "", *tuned_table(tuned), ""]
    text += ["## Curves", "", "![Curves](labels.png)", ""]
    for name in _in_order(curves):
        text += [f"### {name}", "", *curve_table(curves, name), ""]
    (out / "labels.md").write_text("\n".join(text))
    (out / "labels.json").write_text(json.dumps(_numbers(curves, trusted, tuned), indent=0) + "\n")


def rivals_of(curves: Curves) -> list[str]:
    """Return all arms that are not ours."""
    return sorted({arm for name in curves.sets() for arm in curves.arms(name)} - set(OUR_ARMS))


def _in_order(curves: Curves) -> list[str]:
    return [name for name in sets.SETS if name in curves.sets()]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def ratios(curves: Curves, names: Sequence[str], arm: str, n: int) -> dict[str, float | None]:
    """Return labels needed for margin's accuracy at n over n, by set; None where 400 were too few."""
    found = {}
    for name in names:
        ours = arm if arm in curves.arms(name) else OURS
        if curves.seeds(name, ours, MARGIN):
            count = needed(curves, name, ours, MARGIN, n)
            found[name] = None if count is None else count / n
    return found


def needs(curves: Curves) -> list[str]:
    """Return the table of labels needed for margin's accuracy, as shares of margin's."""
    rows = []
    for name in (name for name in _in_order(curves) if ":" not in name):
        shown = []
        for arm in (OURS, NO_NAMES, BEFORE):
            for n in (100, 200):
                has = arm in curves.arms(name) and curves.seeds(name, arm, MARGIN)
                count = needed(curves, name, arm, MARGIN, n) if has else None
                shown.append(
                    "" if not has else "> 400" if count is None else f"{count:.0f} ({count / n:.2f})"
                )
        seeds = curves.seeds(name, OURS, MARGIN) if OURS in curves.arms(name) else []
        rows.append([name, str(len(seeds)), *shown])
    head = [f"{arm}, for {n}" for arm in (OURS, NO_NAMES, BEFORE) for n in (100, 200)]
    return _table(["set", "repetitions", *head], rows)


def against(curves: Curves, arm: str) -> list[str]:
    """Return ours less the best rival at each budget, in points with two standard errors."""
    budgets, rivals = [n for n in BUDGETS if n >= 25], rivals_of(curves)
    found = regrets(curves, arm, rivals, "both", _in_order(curves))
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
    for name in (name for name in _in_order(curves) if ":" in name):
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
        by = {kind: _accuracies(rows, set=name, names=kind) for kind in ("none", "true", "shuffled", "codes")}
        line = [name, str(len(by["none"])), f"{by['none'].mean():.3f}"]
        for kind in ("true", "shuffled", "codes"):
            gain = 100 * (by[kind] - by["none"])
            line.append(f"{by[kind].mean():.3f} ({gain.mean():+.1f} ± {2 * _error(gain):.1f})")
        shown.append(line)
    return _table(["set, 2 labels a class", "draws", "no names", "true", "shuffled", "codes"], shown)


def _accuracies(rows: list[dict[str, Any]], **wanted: Any) -> np.ndarray:
    some = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return np.array([(row["test"] + row.get("left", row["test"])) / 2 for row in some])


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
    return _table(["set", "labels a class", "ours", "version 0.1's head", "SetFit"], shown)


def curve_table(curves: Curves, name: str) -> list[str]:
    """Return mean accuracies of all arms at the budgets."""
    rows = []
    for arm in sorted(curves.arms(name), key=lambda arm: (arm not in OUR_ARMS, arm)):
        seeds = curves.seeds(name, arm)
        means = [curves.values(name, arm, n, "both", seeds).mean() for n in BUDGETS]
        rows.append([arm, str(len(seeds)), *(f"{mean:.3f}" for mean in means),
                     f"{curves.seconds(name, arm):.1f}"])  # fmt: skip
    return _table(["arm", "repetitions", *map(str, BUDGETS), "seconds a curve"], rows)


def bars(curves: Curves, trusted: list[dict[str, Any]], tuned: list[dict[str, Any]]) -> list[str]:
    """Return each bar with its figure."""
    rows = [*_needed_bars(curves), *_regret_bars(curves), *_rare_bars(curves)]
    lies = _lies(trusted)
    if lies:
        worst = min(lies, key=lambda each: each[1])
        rows.append(["names that lie or say nothing: at most 1 point below none after 2 labels a class",
                     f"worst {worst[1]:+.1f} ({worst[0]})", _met(worst[1] >= -1.0)])  # fmt: skip
    if {"SetFit", "ours"} <= {row["arm"] for row in tuned}:
        rows.append(["SetFit, same labels: ahead at each of 2, 4 and 8 a class, at a thousandth of the time",
                     *_ahead(tuned)])  # fmt: skip
    return _table(["bar", "measured", "met"], rows)


def _needed_bars(curves: Curves) -> list[list[str]]:
    others = [name for name in _in_order(curves) if ":" not in name and name not in NAMED]
    rows = []
    for what, names, most in (
        ("texts with real names", NAMED, 0.5),
        ("images, tables, binary", others, 0.75),
    ):
        for n in (100, 200):
            found = ratios(curves, names, OURS, n)
            if found:
                values = [400 / n if value is None else value for value in found.values()]
                text = ", ".join(f"{name} {value:.2f}" for name, value in zip(found, values, strict=True))
                rows.append([f"{what}: labels for margin's accuracy at {n}, at most {most}, mean over sets",
                             f"{np.mean(values):.2f} ({text})", _met(np.mean(values) <= most)])  # fmt: skip
    return rows


def _regret_bars(curves: Curves) -> list[list[str]]:
    rows = []
    for arm in OUR_ARMS:
        for what in JUDGED:
            found = regrets(curves, arm, rivals_of(curves), what, _in_order(curves))
            if found:
                behind = [f"{name} at {n}" for (name, n), each in found.items() if each.behind]
                mean = 100 * float(np.mean([each.mean for each in found.values()]))
                text = f"mean {mean:+.1f} points; behind at {len(behind)} of {len(found)}"
                text += f": {', '.join(behind)}" if behind else ""
                rows.append([f"{arm}, {what}: from 25 labels on never more than 1 point below the best rival "
                             "(beyond 2 standard errors), mean at or above", text,
                             _met(not behind and mean >= 0)])  # fmt: skip
    return rows


def _rare_bars(curves: Curves) -> list[list[str]]:
    rows = []
    for what in ("positives", "f1"):
        names = [n for n in _in_order(curves) if ":" in n and OURS in curves.arms(n)]
        found = {
            n: difference(curves, n, OURS, MARGIN, 200, what) for n in names if curves.seeds(n, OURS, MARGIN)
        }
        if found:
            text = ", ".join(
                f"{n} {each.mean:+.2f} ± {2 * (each.error or 0):.2f}" for n, each in found.items()
            )
            met = all(each.mean + 2 * (each.error or 0) >= 0 for each in found.values())
            mean = np.mean([each.mean for each in found.values()])
            rows.append([f"rare class, 200 labels: {what}, at least margin's (within 2 standard errors)",
                         f"mean {mean:+.2f} ({text})", _met(met)])  # fmt: skip
    return rows


def _lies(rows: list[dict[str, Any]]) -> list[tuple[str, float]]:
    found = []
    for name in dict.fromkeys(row["set"] for row in rows):
        for kind in ("shuffled", "codes"):
            gain = _accuracies(rows, set=name, names=kind) - _accuracies(rows, set=name, names="none")
            found.append((f"{name}, {kind}", 100 * float(gain.mean())))
    return found


def _ahead(rows: list[dict[str, Any]]) -> list[str]:
    by = {(r["set"], r["a_class"], r["seed"], r["arm"]): r for r in rows}
    keys = [key[:3] for key in by if key[3] == "SetFit" and (*key[:3], "ours") in by]
    gains = {key: by[*key, "ours"]["test"] - by[*key, "SetFit"]["test"] for key in keys}
    times = [by[*key, "SetFit"]["processor_seconds"] / by[*key, "ours"]["processor_seconds"] for key in keys]
    won = sum(gain >= 0 for gain in gains.values())
    text = f"ahead in {won} of {len(gains)} ({100 * np.mean(list(gains.values())):+.1f} points), "
    return [
        text + f"{np.median(times):.0f} times faster (median)",
        _met(won == len(gains) and min(times) >= 1000),
    ]


def _met(yes: Any) -> str:
    return "yes" if yes else "**no**"


def _numbers(curves: Curves, trusted: list[dict[str, Any]], tuned: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the accuracies at the budgets, repetition by repetition."""
    rows = []
    for name in _in_order(curves):
        for arm in curves.arms(name):
            seeds = curves.seeds(name, arm)
            found = {what: {n: curves.values(name, arm, n, what, seeds).tolist() for n in BUDGETS}
                     for what in ("test", "left", *(("positives", "f1") if ":" in name else ()))}  # fmt: skip
            rows.append(
                {"set": name, "arm": arm, "seeds": seeds, "seconds": curves.seconds(name, arm), **found}
            )
    return {"curves": rows, "trust": trusted, "fine_tuning": tuned}
