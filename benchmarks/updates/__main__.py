"""`make bench NAME=updates`: measure, print tables, save JSON and a plot."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # before NumPy: ratios on one core are the steadiest

import typer  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402

from benchmarks.results import write  # noqa: E402
from benchmarks.updates import quality, report, speed  # noqa: E402
from benchmarks.updates.datasets import Dataset, load  # noqa: E402

TIMED = {"CIFAR-10": (50, 100, 500, 1000), "Banking-77": (100, 500), "Clinc-150": (100, 1000)}
RATIOS = (50, 200, 500)  # labels there are, when one or ten more come


def main(
    reps: Annotated[int, typer.Option(min=1, help="Repetitions, each on another split.")] = 10,
    data: Annotated[Path, typer.Option(help="Folder of feature files (.npz).")] = Path("../shared/data"),
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("docs/results"),
    part: Annotated[list[str] | None, typer.Option(help="Measure these parts; keep the others.")] = None,
) -> None:
    """Measure the exact update against retraining and its rivals."""
    console, datasets, path = Console(), load(data), out / "updates.json"
    results: dict[str, Any] = json.loads(path.read_text()) if part and path.exists() else {}
    for name in part or PARTS:
        PARTS[name](results, datasets, reps)
    results["quality"] = quality.figures(results["cells"])
    results["figures"] = _figures(results)
    write(path, results, parts=part or list(PARTS))
    report.show(console, results)
    (out / "updates.md").write_text(report.markdown(json.loads(path.read_text())))
    report.plot(results, out / "updates.png")
    console.print(f"saved updates.json, updates.md and updates.png in {out}")


def _speed(results: dict[str, Any], datasets: dict[str, Dataset], reps: int) -> None:
    timed = [(name, n) for name, sizes in TIMED.items() if name in datasets for n in sizes]
    results["speed"] = [
        speed.to_the_same_distance(name, datasets[name], n) for name, n in track(timed, "same distance")
    ]
    asked = [(name, n, b) for name in TIMED if name in datasets for n in RATIOS for b in (1, 10)]
    results["ratios"] = [speed.ratio(name, datasets[name], n, b) for name, n, b in track(asked, "ratios")]
    named = [name for name in TIMED if name in datasets]
    results["stalls"] = [speed.stalls(name, datasets[name]) for name in track(named, "stalls")]


def _growth(results: dict[str, Any], datasets: dict[str, Dataset], reps: int) -> None:
    growth = {
        name: [speed.grow(*size) for size in sizes] for name, sizes in track(speed.GROWTH.items(), "growth")
    }
    results["growth"] = growth
    results["exponents"] = {name: speed.exponent(rows, name[0]) for name, rows in growth.items()}


def _drift(results: dict[str, Any], datasets: dict[str, Dataset], reps: int) -> None:
    long = [name for name in ("digits", "CIFAR-10", "Banking-77") if name in datasets]
    results["drift"] = {name: speed.drift(datasets[name]) for name in track(long, "a thousand labels")}


def _quality(results: dict[str, Any], datasets: dict[str, Dataset], reps: int) -> None:
    measured = [
        result
        for name, n, repetition in track(_runs(datasets, reps), "quality")
        for result in quality.measure(name, datasets[name], n, repetition)
    ]
    results["repetitions"], results["cells"] = reps, quality.cells(measured)


PARTS = {"speed": _speed, "growth": _growth, "drift": _drift, "quality": _quality}


def _runs(datasets: dict[str, Dataset], reps: int) -> list[tuple[str, int, int]]:
    most = max(quality.ADDED)
    return [
        (name, n, repetition)
        for repetition in range(reps)
        for name, data in datasets.items()
        for n in quality.SIZES
        if n + most <= len(data.y)
    ]


def _figures(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each goal with its figure and whether it is met."""
    q, rows = results["quality"], []

    def line(figure: str, asked: str, value: float, met: bool, form: str = ".3f") -> None:
        rows.append({"figure": figure, "asked": asked, "measured": format(value, form), "met": bool(met)})

    line("share of the retraining gain, mean of cells", ">= 0.97", q["share_mean"], q["share_mean"] >= 0.97)
    line("share of the retraining gain, lowest cell", ">= 0.8", q["share_least"], q["share_least"] >= 0.8)
    line(
        "distance relative to the paper's update, mean",
        "<= 0.2",
        q["distance_ratio"],
        q["distance_ratio"] <= 0.2,
    )
    worst = q["worst_cell_ratio"]
    line(f"the same, worst cell ({q['worst_cell']})", "<= 0.5", worst, worst <= 0.5)
    one = q["worst_distance_after_one"]
    line("distance after one label, worst split", "<= 0.02", one, one <= 0.02, ".5f")
    for k, n, limit in ((10, (50, 100, 500, 1000), 10.0), (150, (1000,), 60.0)):
        timed = [r["exact_ms"] / r["paper_ms"] for r in results["speed"] if r["k"] == k and r["n"] in n]
        if timed:
            what = f"time per label relative to the paper's, largest, d=384, k={k}, n in {n}"
            line(what, f"<= {limit:g}", max(timed), max(timed) <= limit, ".1f")
    for rival in ("fit_map", "lbfgs"):
        for r in results["speed"]:
            ratio = r[f"{rival}_ms"] / r["exact_ms"]
            what = f"speed-up over warm {rival} at the same distance, {r['dataset']}, n={r['n']}"
            line(what, ">= 10", ratio, ratio >= 10, ".1f")
    for r in results.get("ratios", ()):
        what = f"{r['labels']} at once, speed-up over warm fit_map, k={r['k']}, n={r['n']}"
        line(what, ">= 5", r["ratio"], r["ratio"] >= 5, ".1f")
    for r in results.get("stalls", ()):
        what = f"slowest label relative to the median around it, k={r['k']}"
        line(what, "<= 3", r["worst_ratio"], r["worst_ratio"] <= 3, ".1f")
    for name, most in (("n", 1.0), ("n, k=150", 1.0), ("d", 2.0), ("k", 1.0)):
        slope = results["exponents"][name]
        line(f"growth with {name}, exponent", f"<= {most:g}", slope, slope <= most, ".2f")
    for name, drifted in results["drift"].items():
        early, late = (max(r["exact"] for r in part) for part in (drifted[:11], drifted[11:]))
        line(
            f"drift, {name}: largest distance in labels 501-1000", "no growth", late, late <= 2 * early, ".5f"
        )
    return rows


if __name__ == "__main__":
    typer.run(main)
