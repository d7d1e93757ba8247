"""Results on disk: each names the commit, day and command that made it; docs/results/README.md lists them.

python -m benchmarks.results      rewrite the list, for example after a merge
"""

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import everylabel

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "results"
WHOLE = "all"  # the name of the one part of a result that is measured at once
LOAD = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None  # of others: nothing has run yet
HEAD = """# Results

What does everylabel gain, and what does it cost? Each page answers one question, in its first lines.

- [How many labels does the page save, compared with other methods?](labels.md)
- [Does the page save labels with another encoder, too?](labels-gte-small.md)
- [Is the accuracy that the page shows right?](accuracy.md)
- [Does fine-tuning the encoder help, and can it do harm?](network.md)
- [Is there a better recipe for fine-tuning?](network-variants.md)
- [Which strategy is best, and which finds rare classes?](selection.md)
- [Which variants of the strategies were tried?](selection-variants.md)
- [How much do suggestions, several people and reviews gain?](sources.md)
- [What does the model learn from a "no"?](answers.md)
- [How long do people wait, and what survives a crash?](serving.md)
- [What does a pool on a cluster cost?](scale.md)
- [How close is an update to retraining, and how fast is it?](updates.md)
- [Which variants of the exact update were tried?](updates-variants.md)
- [Does the backend keep up with Label Studio?](label-studio.md)
- [Which claims of the paper hold, and why?](reproduction-claims.md)
- [What exactly was measured for each claim?](reproduction/README.md)

## Where the figures come from

Benchmarks write this page; it is not edited by hand. Each result names the commit that was
measured; *changed* means that some code was not committed. Until 2026-11-18 benchmarks recorded a digest of
the measured code instead. The commit of such a result was found later: the last one before the result whose
measured code has that digest; other code may have differed. *Unknown*: no commit has it, or none was
recorded. The load is the machine's one-minute average when the command began, where it was recorded.
[reproduction](reproduction/README.md) names its own version and command.

| result | version | commit | date | load | measured by |
|---|---|---|---|---|---|
"""
OLD = """
**Do not rely on these.** An earlier version of everylabel or an unknown commit made them, and the measured
code has changed since: {listed}.
"""

Record = dict[str, Any]


def record() -> Record:
    """Return version, commit, day, command and load of this run."""
    return {
        "version": everylabel.__version__,
        "commit": COMMIT,
        "date": date.today().isoformat(),
        "command": command(sys.orig_argv),
        "load": LOAD,
    }


def commit() -> str | None:
    """Return the commit of this checkout, followed by "changed" if code differs from it; None without git."""
    try:
        name = _git("rev-parse", "--short=7", "HEAD")
        return f"{name} changed" if _git("status", "--porcelain", "src", "benchmarks", "tests") else name
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


COMMIT = commit()  # when the run began: the checkout may change before its end


def command(argv: Sequence[str]) -> str:
    """Return the command of this process as one would type it in a checkout."""
    words = [os.path.relpath(word, ROOT) if Path(word).is_absolute() else word for word in argv[1:]]
    return shlex.join(["python", *words])


def records(path: Path) -> dict[str, Record]:
    """Return the record of each part of a stored result."""
    return json.loads(path.read_text()).get("made_by", {}) if path.exists() else {}


def cache_record(folder: Path) -> Record:
    """Return the record of the run that began to fill a cache: the age of its oldest entry."""
    path = folder / "made_by.json"
    if not path.exists():
        older = {"commit": None} if folder.is_dir() and any(folder.iterdir()) else {}
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record() | older, indent=1) + "\n")
    return json.loads(path.read_text())


def version(made: Record) -> str:
    """Return version and commit of a record (its day, if the commit is unknown), as pages name them."""
    return f"{made['version']}, {made['commit'] or made['date']}"


def sentence(made: Mapping[str, Record]) -> str:
    """Return the sentence with the version for a page of tables."""
    by: dict[str, list[str]] = {}
    for part, one in made.items():
        by.setdefault(f"everylabel {version(one)}", []).append(part)
    who = [maker if len(by) == 1 else f"{maker} ({' / '.join(parts)})" for maker, parts in by.items()]
    return f"Made by {'; '.join(who)}."


def write(
    path: Path,
    results: Mapping[str, Any],
    *,
    parts: Sequence[str] | None = None,
    cached: Mapping[str, Record] | None = None,
    indent: int = 2,
) -> None:
    """Write results as JSON, with the machine and the run they come from, and list them.

    `parts` are those that this run has measured, where the others are kept from an earlier run. `cached` are
    records of parts from a cache (`cache_record`); without `parts`, of all of them.
    """
    before = {} if parts is None else records(path)
    fresh = ([] if cached else [WHOLE]) if parts is None else parts
    made = before | dict.fromkeys(fresh, record()) | dict(cached or {})
    figures = {name: value for name, value in results.items() if name not in ("made_by", "machine")}
    tables = {name for name, value in figures.items() if isinstance(value, list | dict)}
    if parts is not None and tables and tables <= set(made):
        made.pop(WHOLE, None)  # every part has been measured by itself since
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"made_by": made, "machine": machine(), **figures}, indent=indent) + "\n")
    if path.parent.resolve() == FOLDER:
        (FOLDER / "README.md").write_text(page())
    Console().print(f"results written to {path}")


def machine() -> dict[str, Any]:
    """Return a description of the machine and its versions."""
    return {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }


def page(folder: Path = FOLDER) -> str:
    """Return the list of all results in a folder."""
    return HEAD + "".join(_lines(folder)) + OLD.format(listed=", ".join(_old(folder)) or "none")


def _old(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.json")):
        made = records(path)
        parts = [part for part, one in made.items() if _is_old(part, one)]
        if parts:
            yield f"[{path.name}]({path.name})" + (
                "" if len(parts) == len(made) else f" ({' / '.join(parts)})"
            )


def _is_old(part: str, made: Record) -> bool:
    is_older = (
        made["version"] != everylabel.__version__ and made["version"][:3] not in part
    )  # a rival, as meant
    return is_older or made["commit"] is None


def _lines(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.json")):
        made = records(path)
        if not made:
            raise SystemExit(f"{path.name} has no record of its origin; write it by benchmarks.results.write")
        by: dict[str, list[str]] = {}
        for part, one in made.items():
            by.setdefault(json.dumps(one), []).append(part)
        for text, parts in by.items():
            one, whole = json.loads(text), len(by) == 1 or parts == [WHOLE]
            name = f"[{path.name}]({path.name})" + ("" if whole else f", {' / '.join(parts)}")
            load = "" if one["load"] is None else f"{one['load']:g}"
            at = one["commit"] or "unknown"
            yield f"| {name} | {one['version']} | {at} | {one['date']} | {load} | `{one['command']}` |\n"


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(page())
