"""Measurements: docs/results/label-studio.json and .md, written by `make test-label-studio`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import records, sentence, write

Figures = dict[str, dict[str, Any]]  # part -> name -> value
HEAD = """# Beside Label Studio {release}

This page answers: how soon is a new prediction in Label Studio after an annotation, do people get the tasks
ranked first, and do annotations survive when the backend is killed?

{answer}

Each table has the figures of one test, run by `make test-label-studio`. *p50* is the median, *p99* the 99th
percentile."""
FOLLOWING, PAGE, KILLS = (
    "Following 60 annotations of 500 tasks",
    "Label Studio's own page",
    "Fifty times kill -9",
)


def milliseconds(seconds: Sequence[float], name: str) -> dict[str, Any]:
    """Return the usual figures of times."""
    if not seconds:
        return {f"{name}: how many": 0}
    p50, p99 = np.quantile(np.asarray(seconds) * 1000, [0.5, 0.99]).tolist()
    return {
        f"{name}: how many": len(seconds),
        f"{name}: p50, ms": round(p50, 1),
        f"{name}: p99, ms": round(p99, 1),
        f"{name}: longest, ms": round(max(seconds) * 1000, 1),
    }


def write_figures(folder: Path, release: str, figures: Figures) -> None:
    """Write all parts that were run; those of earlier runs stay."""
    path = folder / "label-studio.json"
    before = json.loads(path.read_text())["parts"] if path.exists() else {}
    now, figures = list(figures), {**before, **figures}
    write(path, {"label studio": release, "parts": figures}, parts=now)
    lines = [HEAD.format(release=release, answer="\n".join(_answer(figures)))]
    for part, values in figures.items():
        lines += ["", f"## {part}", "", "| | |", "|---|---:|"]
        lines += [f"| {name} | {_shown(value)} |" for name, value in values.items()]
    lines += ["", "## Version", "", sentence(records(path))]
    (folder / "label-studio.md").write_text("\n".join(lines) + "\n")


def _answer(figures: Figures) -> list[str]:
    """Return a sentence for each question whose test was run."""
    following, page, kills = (figures.get(part, {}) for part in (FOLLOWING, PAGE, KILLS))
    sentences = []
    if following:
        seconds = following["label to its predictions shown: p50, ms"] / 1000
        sentences.append(
            f"- Half of the new predictions are shown within {seconds:.1f} seconds of the label."
        )
    if page:
        ranked = page["next task ranked first, now or one label ago"]
        sentences.append(f"- The next task was ranked first, now or one label ago, in {ranked} cases.")
    if kills:
        labels, annotations = kills["labels in the model at the end"], kills["annotations at the end"]
        sentences.append(
            f"- After {kills['kills']} kills the model had learned {labels} of {annotations} annotations, "
            f"{kills['annotations learned twice']} of them twice."
        )
    return sentences


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
