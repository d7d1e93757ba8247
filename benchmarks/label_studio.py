"""The time of webhooks of the Label Studio backend with a large pool.

    python -m benchmarks.label_studio [--annotations 300] [--pause 0.5] [--out docs/results]

`everylabel label-studio` runs as a process on 100,000 tasks x 384 features in 20 classes. It is connected
over HTTP on loopback to a stand-in of Label Studio, in which one person annotates the displayed task every
few seconds; some annotations are changed or deleted. The result is the time that Label Studio waits for a
webhook. Writes label-studio-webhooks.json.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import write
from benchmarks.serving import D, K, N, data
from benchmarks.timing import report
from everylabel.data.items import Options
from everylabel.data.read import read
from everylabel.label_studio.api import Api
from everylabel.label_studio.configuration import read_configuration
from everylabel.label_studio.sync import OURS
from everylabel.label_studio.tasks import ID, Tasks
from everylabel.projects.features import Pieces
from tests.label_studio.stand_in import TOKEN, LabelStudio

WARM_UP = 20
CONFIGURATION = (
    '<View><Text name="text" value="$text"/><Choices name="kind" toName="text">'
    + "".join(f'<Choice value="class {i}"/>' for i in range(K))
    + "</Choices></View>"
)


def embedded(studio: LabelStudio, folder: Path, features: np.ndarray) -> None:
    """Write tasks, and features as if they had been embedded."""
    place = folder / f"label-studio-{studio.number}.everylabel"
    place.mkdir()
    path = place / f"label-studio-{studio.number}.jsonl"
    api = Api(studio.url, TOKEN)
    Tasks(api, path, read_configuration(CONFIGURATION)).take(api.tasks(studio.number))
    options = Options(text_column="text", id_column=ID)
    items = read(str(path), options)
    Pieces(place, items.kind, options.model).add(items.digests, features)


class Annotator:
    """A person who knows the true classes; measures the time that Label Studio waits."""

    def __init__(self, studio: LabelStudio, classes: dict[int, str]) -> None:
        self.studio, self.classes = studio, classes
        self.seconds: dict[str, list[float]] = {"created": [], "updated": [], "deleted": []}
        self.replies: list[str] = []
        self.waits: list[float] = []  # for the next version
        studio.tell = self._tell  # type: ignore[method-assign]

    def _tell(self, payload: dict[str, Any]) -> None:
        data = json.dumps({"project": self.studio.about(), **payload}).encode()
        url = self.studio.webhooks[0]["url"]
        request = urllib.request.Request(url, data, {"content-type": "application/json"})
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=60) as reply:
            told = json.loads(reply.read())
        kind = payload["action"].rpartition("_")[2].lower()
        self.seconds[kind].append(time.perf_counter() - began)
        self.replies.append(told["status"])

    def annotate(self, step: int) -> None:
        studio = self.studio
        task = studio.next_task()
        assert task is not None
        version = studio.project["model_version"]
        threading.Thread(target=self._await, args=(version, time.perf_counter()), daemon=True).start()
        number = studio.annotate(task, self.classes[task])
        if step % 10 == 5:
            studio.update(number, f"class {step % K}")
            studio.update(number, self.classes[task])
        if step % 10 == 8:
            studio.delete(number)

    def _await(self, version: str, began: float) -> None:
        while self.studio.project["model_version"] == version and time.perf_counter() < began + 60:
            time.sleep(0.01)
        self.waits.append(time.perf_counter() - began)


def measure(n: int, pause: float) -> dict[str, Any]:
    """Return all figures."""
    features, labels = data()
    studio = LabelStudio([f"text {i}" for i in range(N)], CONFIGURATION)
    classes = {task: f"class {label}" for task, label in zip(studio.tasks, labels.tolist(), strict=True)}
    with tempfile.TemporaryDirectory() as name:
        embedded(studio, Path(name), features)
        command = [
            sys.executable,
            "-m",
            "everylabel.cli",
            "label-studio",
            "--url",
            studio.url,
            "--token",
            TOKEN,
        ]
        command += ["--project", str(studio.number), "--folder", name, "--port", "0", "--names-prior", "off"]
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            while not OURS.fullmatch(studio.project["model_version"]):
                assert process.poll() is None, "the backend did not start"
                time.sleep(0.05)
            starting = time.perf_counter() - began
            person = Annotator(studio, classes)
            for step in range(WARM_UP + n):
                if step == WARM_UP:
                    person.seconds = {kind: [] for kind in person.seconds}
                    person.replies, person.waits = [], []
                person.annotate(step)
                time.sleep(pause)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
            studio.close()
    every = np.array([each for some in person.seconds.values() for each in some])
    return {
        "pool": [N, D, K],
        "load average of the machine": round(os.getloadavg()[1], 1),
        "from start to first predictions, s": round(starting, 1),
        "webhooks": len(every),
        "all webhooks, ms": _figures(every),
        **{f"{kind}, ms": _figures(np.array(some)) for kind, some in person.seconds.items() if some},
        "answered after all was learned": round(person.replies.count("learned") / len(person.replies), 3),
        "next version of the predictions after, s": round(float(np.median(person.waits)), 2),
    }


def _figures(seconds: np.ndarray) -> dict[str, float]:
    at = {"median": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(1e3 * float(np.quantile(seconds, q)), 1) for name, q in at.items()}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--annotations", type=int, default=300)
    parser.add_argument("--pause", type=float, default=0.5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    figures = measure(options.annotations, options.pause)
    rows = [[name, json.dumps(value)] for name, value in figures.items()]
    report("Label Studio's webhooks", ["what", "figure"], rows)
    if options.out is not None:
        write(
            options.out / "label-studio-webhooks.json",
            figures,
        )


if __name__ == "__main__":
    main()
