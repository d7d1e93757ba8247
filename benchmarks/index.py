"""The page of all results: which command and version made each, and whether the code has changed since.

    make results-index      (python -m benchmarks.index)

Writes docs/results/README.md and prints what has changed where. A test fails if the page is not true.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.made_by import ROOT, WHOLE, changed, records, version
from everylabel.experiments.engine import code

FOLDER = ROOT / "docs" / "results"
PAGE = FOLDER / "README.md"
HEAD = """# Results

Made by `make results-index`; not edited by hand. *current*: the measured code is the code of this checkout,
apart from comments and docstrings. *older*: the code has changed since, and the figures may differ now. The
part of a version after the + is a digest of the measured code. The load is the machine's one-minute average
when the command began, where it was recorded.

| result | code | version | date | load | measured by |
|---|---|---|---|---|---|
"""


class Row(NamedTuple):
    """A result, or a part of one that was measured apart."""

    name: str
    changed: list[str]  # parts of the source that have changed since
    version: str
    date: str
    load: float | None
    command: str

    def line(self) -> str:
        """Return the row of the page."""
        load = "" if self.load is None else f"{self.load:g}"
        state = "older" if self.changed else "current"
        command = re.sub(r"make bench-([a-z]+)", r"make bench NAME=\1", self.command)  # as until version 0.2
        return f"| {self.name} | {state} | {self.version} | {self.date} | {load} | `{command}` |\n"


def rows(folder: Path = FOLDER) -> Iterator[Row]:
    """Yield all results in the order of their names."""
    for path in sorted(folder.glob("*.json")):
        made = records(path)
        if not made:
            raise SystemExit(f"{path.name} has no record of its origin; write it by benchmarks.timing.write")
        alike = len({str(record) for record in made.values()}) == 1
        for part, record in list(made.items())[: 1 if alike else None]:
            name = f"[{path.name}]({path.name})" + ("" if alike or part == WHOLE else f", {part}")
            about = (record[key] for key in ("date", "load", "command"))
            yield Row(name, changed(record), version(record), *about)
    if (folder / "reproduction").is_dir():
        yield _reproduction(folder / "reproduction" / "README.md")


def _reproduction(path: Path) -> Row:
    """Return the row of the report of the paper's experiments, which tells by itself who made it."""
    text = path.read_text()
    about = dict(re.findall(r"^- (command|made|measured by): (.*)$", text, re.MULTILINE))
    release, source = re.findall(r"everylabel (\S+), source (\w+)", about["measured by"])[0]
    parts = [] if f"everylabel {release}, source {source}" == code() else ["what it measures"]
    name, made = "[reproduction](reproduction/README.md)", f"{release}+{source[:6]}"
    return Row(name, parts, made, about["made"][:10], None, about["command"].strip("`"))


def page(folder: Path = FOLDER) -> str:
    """Return the page as it should be."""
    return HEAD + "".join(row.line() for row in rows(folder))


def main() -> None:
    for row in rows():
        if row.changed:
            print(f"{re.sub(r'[][]|[(].*[)]', '', row.name)} is older than {', '.join(row.changed)}")
    PAGE.write_text(page())
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
