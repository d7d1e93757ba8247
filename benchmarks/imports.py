"""The cost of a start: `import everylabel` and `everylabel --help`, compared with Python and `import numpy`.

Each runs in its own process, in turns. The result is the least processor time, which other programs hardly
change, and the least time by the clock.
"""

import os
import resource
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

import everylabel as el
from benchmarks.results import write
from benchmarks.timing import report

COMMANDS = {
    "python": ["-c", "pass"],
    "import numpy": ["-c", "import numpy"],
    "import everylabel": ["-c", "import everylabel"],
    "everylabel --help": ["-m", "everylabel.cli", "--help"],
}
BARS = {"import everylabel": 0.5, "everylabel --help": 0.7}  # seconds
EXTRAS = {
    "fast": "numba",
    "plot": "matplotlib",
    "torch": "torch",
    "text": "sentence_transformers",
    "image": "transformers",
    "table": "pandas",
    "export": "skops",
    "onnx": "onnxruntime",
    "ray": "ray",
}  # extra -> what it brings


def run(arguments: list[str]) -> tuple[float, float]:
    """Return the processor time and the time by the clock of a process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measured(rounds: int) -> list[dict[str, Any]]:
    """Return a row for each command, with its ratios to Python and to NumPy."""
    for arguments in COMMANDS.values():
        run(arguments)  # compiles what is not yet
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            times[name].append(run(arguments))
    least = {name: [min(column) for column in zip(*found, strict=True)] for name, found in times.items()}
    return [
        {
            "command": name,
            "processor_s": round(processor, 3),
            "wall_s": round(wall, 3),
            "to_python": round(processor / least["python"][0], 2),
            "to_numpy": round(processor / least["import numpy"][0], 2),
            "bar_s": BARS.get(name),
        }
        for name, (processor, wall) in least.items()
    ]


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Turns each has.")] = 7,
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("docs/results/imports.json"),
) -> None:
    """Measure the cost of a start."""
    rows = measured(rounds)
    columns = ["command", "processor, s", "clock, s", "to python", "to numpy", "bar, s"]
    report("Starting", columns, [[str(value) for value in row.values()] for row in rows])
    extras = {extra: find_spec(module) is not None for extra, module in EXTRAS.items()}
    found = {"load": os.getloadavg(), "version": el.__version__, "rounds": rounds, "extras": extras}
    write(out, {**found, "rows": rows})


if __name__ == "__main__":
    typer.run(main)
