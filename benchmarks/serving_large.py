"""A large pool behind the page, on one machine: label to next, start and memory of a real server.

    python -m benchmarks.serving_large [--rows 1000000] [--dtype float16] [--out docs/results]

The features are written to a file piece by piece, so that this process holds none of them. The server is
started once to prepare the project, and measured at its second start. Memory is the kernel's count for the
process (VmRSS; peak: VmHWM; pages of files: RssFile) divided by the bytes of the features. It is read five
times a second while people label, and the median counts, since models are trained now and then.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.results import write
from benchmarks.serving import WARM_UP, Client, D, K, label, quantiles
from benchmarks.timing import report

BARS = {"label to next, p99, ms": 250.0, "start, s": 10.0, "memory over the features": 1.3}
PIECE = 50_000  # rows that are drawn at a time


def save(path: Path, n: int, dtype: str) -> np.ndarray:
    """Write clusters of n rows to a .npy file; return their labels."""
    rng = np.random.default_rng(0)
    labels, centers = rng.integers(K, size=n), 0.25 * rng.standard_normal((K, D), dtype=np.float32)
    rows = np.lib.format.open_memmap(path, "w+", dtype, (n, D))
    for at in range(0, n, PIECE):
        own = labels[at : at + PIECE]
        rows[at : at + PIECE] = centers[own] + rng.standard_normal((len(own), D), dtype=np.float32)
    rows.flush()
    return labels


def memory(pid: int) -> dict[str, int]:
    """Return the memory of a process by the kernel's count."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: 1024 * int(lines[name].split()[0]) for name in ("VmRSS", "VmHWM", "RssAnon", "RssFile")}


class Watch:
    """Reads the memory of a process five times a second, until the block is left."""

    def __init__(self, pid: int) -> None:
        self.found = [memory(pid)]
        self._pid, self._ended = pid, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            self.found.append(memory(self._pid))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def median(self, name: str) -> float:
        return float(np.median([each[name] for each in self.found]))


def start(source: Path, k: int = K, more: Sequence[str] = ()) -> tuple[subprocess.Popen[str], Client, float]:
    """Return a running server, a connection to it, and the seconds until its first item."""
    classes = ",".join(f"class {i}" for i in range(k))
    command = [sys.executable, "-m", "everylabel.cli", "label", str(source), "--classes", classes]
    began = time.perf_counter()
    command += ["--no-browser", "--port", "0", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "http://127.0.0.1:" in line:
            client = Client(int(line.split("http://127.0.0.1:")[1].split("/")[0].split()[0]))
            client.ask("POST", "/api/next", {"person": "first"})
            return process, client, time.perf_counter() - began
    raise RuntimeError("the server did not start")


def stop(process: "subprocess.Popen[str]") -> None:
    """End a server and wait for it."""
    process.send_signal(signal.SIGTERM)
    process.wait()


def measure(n: int, dtype: str, n_labels: int) -> dict[str, Any]:
    """Return the figures of one pool."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        source = Path(folder) / "pool.npy"
        labels = save(source, n, dtype)
        process, _, first = start(source)
        stop(process)
        process, client, again = start(source)
        try:
            label(client, "first", WARM_UP, labels)
            with Watch(process.pid) as watch:
                took = label(client, "first", n_labels, labels)
        finally:
            stop(process)
    size = n * D * np.dtype(dtype).itemsize
    held = {name: watch.median(name) for name in watch.found[0]} | {"VmHWM": watch.found[-1]["VmHWM"]}
    return {
        "pool": [n, D, K],
        "dtype on disk": dtype,
        "features, MB": round(size / 1e6),
        "label to next, ms": quantiles(took),
        "first start, s": round(first, 1),
        "start, s": round(again, 1),
        "memory, MB": {name: round(value / 1e6) for name, value in held.items()},
        "memory over the features": round(held["VmRSS"] / size, 2),
        "peak over the features": round(held["VmHWM"] / size, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dtype", choices=["float16", "float32"], nargs="+", default=["float16", "float32"])
    parser.add_argument("--labels", type=int, default=300)
    parser.add_argument("--out", type=Path, help="folder for serving_large.json")
    given = parser.parse_args()
    found = {dtype: measure(given.rows, dtype, given.labels) for dtype in given.dtype}
    for dtype, figures in found.items():
        report(dtype, ["what", "figure"], [[name, json.dumps(value)] for name, value in figures.items()])
    if given.out is not None:
        write(given.out / "serving_large.json", {"bars": BARS, **found}, parts=given.dtype)


if __name__ == "__main__":
    main()
