"""Suggestions by sources that are not fully trusted: in a file, a table in memory, or columns of the source.

A row has an item (by id, row, text or image name), a class, and optionally a score from 0 to 1 and a source.
Label Studio's tasks with predictions and Argilla's records are read, too: flat (label.suggestion,
label.suggestion.score, label.suggestion.agent) or, as JSON, nested.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError, counted, listed
from everylabel.data.cells import is_missing, label_of
from everylabel.data.classes import clean_name, meant
from everylabel.data.readers.memory import frame_of
from everylabel.data.readers.rows import column_names, flat
from everylabel.formats.argilla import flat_suggestions
from everylabel.formats.imports import plain_rows, read_json
from everylabel.formats.label_studio import predictions_of
from everylabel.formats.label_tables import Matcher, NamedColumns, items_of, label_columns
from everylabel.labelling.state.types import most_probable
from everylabel.projects.log import Proposed, class_names
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import Project

LABELS = ("suggestion", "label", "class", "category", "prediction", "predicted", "choice")
SCORES = ("score", "confidence", "probability")
PROBABILITIES = "probabilities"  # a column of {class: probability}, in place of a class and a score
SOURCES = ("source", "agent", "model", "model_version")
IN_MEMORY = "suggestions"  # the source of a table in memory that names none
ADVICE = "rename a column, or name the source's column by --id-column or --text-column"
Note = Callable[[str], Any]


@dataclass
class ReadSuggestions:
    """Suggestions in order, names of rows that match no item, and the number of rows without a class."""

    proposed: list[Proposed] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    empty: int = 0
    known: str = ""  # the id of an item, as an example

    def add(
        self,
        items: Sequence[str],
        name: str,
        label: Any,
        score: Any,
        source: str,
        where: str,
        vector: dict[str, float] | None = None,
    ) -> None:
        """Add a suggestion for the items of a row; `name` and `where` are the row in notes and in errors."""
        said = label_of(label).strip()
        if not said:
            self.empty += 1
        elif not items:
            self.unmatched.append(name)
        else:
            sure = _score(score, where)
            self.proposed += [Proposed(item, said, source, sure, vector) for item in items]

    def __str__(self) -> str:
        sources = Counter(one.source for one in self.proposed)
        items = len({one.id for one in self.proposed})
        parts = [f"{counted(len(self.proposed), 'suggestion')} of {counted(items, 'item')}"]
        if sources:
            parts[0] += f" by {listed(list(sources), 12)}"
        if self.unmatched:
            many = counted(len(self.unmatched), "matches", "match")
            parts.append(f"{many} no item: {listed(self.unmatched)} (items are named as {self.known!r})")
        if self.empty:
            parts.append(f"{self.empty:,} skipped (no class)")
        twice = [key for key, n in Counter((one.id, one.source) for one in self.proposed).items() if n > 1]
        if twice:
            many = counted(len(twice), "item has", "items have")
            names = listed([item for item, _ in twice])
            parts.append(f"{many} several suggestions of one source, the later counts: {names}")
        return "; ".join(parts)


def read_suggestions(project: Project, options: LabelOptions, note: Note) -> list[Proposed]:
    """Return all suggestions that the options name for a project's items; `note` gets a summary.

    A class that the project does not have is refused, unless it has no classes at all.
    """
    found = []
    if options.suggestions is not None:
        found.append(_from_file_or_table(project, options))
    if options.suggestion_column is not None:
        found.append(_from_columns(project, options))
    elif options.suggestion_score_column or options.suggestion_source_column:
        raise EverylabelError(
            "--suggestion-score-column and --suggestion-source-column go with --suggestion-column, which is "
            "not given; expected the column of the suggested classes, too"
        )
    known = class_names(project, options.store) if found else set()
    for name, some in found:
        note(f"{name}: {some}")
        _check_classes(name, some.proposed, known, note)
    return [one for _, some in found for one in some.proposed]


def _from_file_or_table(project: Project, options: LabelOptions) -> tuple[str, ReadSuggestions]:
    """Return the name of a file or table in memory, and its suggestions."""
    given, matcher = options.suggestions, Matcher(project)
    if not isinstance(given, str | os.PathLike):
        frame = frame_of(given)
        if frame is None:
            raise EverylabelError(
                f"--suggestions is a {type(given).__name__}; expected a table (a data frame, a list of "
                "dicts) with columns of ids or texts and of labels, or a file's path"
            )
        cells = zip(*(frame.column(name) for name in frame.names), strict=True)
        rows = (dict(zip(frame.names, row, strict=True)) for row in cells)
        return IN_MEMORY, _from_rows(IN_MEMORY, IN_MEMORY, rows, frame.names, matcher)
    file = Path(given)
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise EverylabelError(
            f"--suggestions {str(file)!r} {what}; expected a CSV, JSONL or Parquet file, or Label Studio's "
            "JSON (in Python also a data frame or a dataset: el.label(source, suggestions=dataset))"
        )
    if file.suffix.lower() in (".json", ".jsonl", ".ndjson"):
        entries = read_json(file, options.encoding)
        if any("predictions" in entry for entry in entries):
            return file.name, _from_tasks(file, entries, matcher)
        if not entries:
            raise EverylabelError(f"--suggestions {str(file)!r} is empty; expected objects with suggestions")
        # a text may be nested (message.body), and so are Argilla's suggestions and probabilities
        entries = [{**flat(entry), **flat_suggestions(entry)} for entry in entries]
        names = list(dict.fromkeys(name for entry in entries for name in entry))
        return file.name, _from_rows(file.name, file.stem, entries, names, matcher)
    names = column_names(file, options.encoding)
    read = plain_rows(file, names, options.encoding, options.long_rows)
    return file.name, _from_rows(file.name, file.stem, read, names, matcher)


def _from_rows(
    file: str, usual: str, rows: Iterable[Mapping[str, Any]], names: Sequence[str], matcher: Matcher
) -> ReadSuggestions:
    """Return the suggestions of a table's rows; usual : the source of rows without one."""
    questions = [name for name in names if name.endswith(".suggestion")]  # Argilla's
    if len(questions) > 1:
        raise EverylabelError(
            f"--suggestions {file!r} has several questions: {listed(questions, 12)}; expected "
            "one: leave out the columns of the others"
        )
    whole = questions[0] if questions else None
    label = whole or next((name for name in LABELS if name in names), None)
    soft = label is None and PROBABILITIES in names
    if label is None and not soft:
        raise EverylabelError(
            f"--suggestions {file!r} has columns {listed(list(names), 30)}; expected one of classes "
            f"({', '.join(LABELS)}), or {PROBABILITIES} with a probability for each class"
        )
    label = label or PROBABILITIES
    scores, sources = ((f"{whole}.score",), (f"{whole}.agent",)) if whole else (SCORES, SOURCES)
    score = next((name for name in scores if name in names), None)
    source = next((name for name in sources if name in names and name != label), None)
    columns = label_columns(Path(file), names, NamedColumns(label=label), matcher.project, ADVICE)
    found = ReadSuggestions(known=_example(matcher.project))
    for number, row in enumerate(rows, 1):
        where, value, sure = f"{file}, row {number}", row.get(label), row.get(score) if score else None
        vector = None
        if soft and not is_missing(value):
            vector = _probabilities(value, where)
            value, sure = most_probable(vector)
        by = _source(row.get(source) if source else None, usual)
        found.add(*items_of(row, columns, matcher, number), value, sure, by, where, vector)
    return found


def _from_tasks(file: Path, tasks: list[dict[str, Any]], matcher: Matcher) -> ReadSuggestions:
    """Return the predictions of Label Studio's tasks."""
    found = ReadSuggestions(known=_example(matcher.project))
    for items, name, label, score, source in predictions_of(file, tasks, matcher):
        found.add(items, name, label, score, _source(source, file.stem), f"{file.name}, {name}")
    return found


def _from_columns(project: Project, options: LabelOptions) -> tuple[str, ReadSuggestions]:
    """Return the suggestions in columns of the source itself."""
    column = options.suggestion_column
    assert column is not None
    named = {
        "--suggestion-column": column,
        "--suggestion-score-column": options.suggestion_score_column,
        "--suggestion-source-column": options.suggestion_source_column,
    }
    for option, name in named.items():
        if name is not None and name not in project.columns:
            there = listed(list(project.columns), 30) or "none: the source has no columns"
            raise EverylabelError(f"{option} is {name!r}; expected one of the columns: {there}")
    labels, scores, sources = (None if name is None else project.columns[name] for name in named.values())
    assert labels is not None
    found = ReadSuggestions()
    for i, item in enumerate(project.ids):
        name, score = project.known_as(i), None if scores is None else scores[i]
        by = _source(None if sources is None else sources[i], column)
        found.add([item], name, labels[i], score, by, f"item {name}")
    return f"column {column}", found


def _example(project: Project) -> str:
    return project.known_as(0) if len(project.ids) else ""


def _source(value: Any, usual: str) -> str:
    return label_of(value).strip() or usual


def _score(value: Any, where: str) -> float | None:
    """Return a score; None for an empty cell."""
    if is_missing(value) or (isinstance(value, str) and not value.strip()):
        return None
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = float("nan")
    if not 0.0 <= score <= 1.0:
        raise EverylabelError(f"score is {value!r:.40} ({where}); expected a number from 0 to 1, or nothing")
    return score


def _probabilities(value: Any, where: str) -> dict[str, float]:
    """Return a probability for each class, from a mapping or its JSON."""
    try:
        given = json.loads(value) if isinstance(value, str) else dict(value)
        found = {str(name): 0.0 if one is None else float(one) for name, one in given.items()}
    except (TypeError, ValueError, AttributeError):
        found = {}
    if not any(found.values()) or not all(0.0 <= one <= 1.0 for one in found.values()):
        raise EverylabelError(
            f"{PROBABILITIES} is {value!r:.60} ({where}); expected classes with numbers from 0 to 1, not all "
            '0, as {"refund": 0.8, "delivery": 0.2}'
        )
    return found


def _check_classes(name: str, proposed: Sequence[Proposed], known: set[str], note: Note) -> None:
    """Raise for classes that the project does not have; if it has none at all, they are added."""
    said = (name for one in proposed for name in (one.label, *(one.probabilities or ())))
    new = [each for each in dict.fromkeys(clean_name(name) for name in said) if each not in known]
    if not new:
        return
    many = counted(len(new), "class", "classes")
    if known:
        raise EverylabelError(
            f"{name} suggests {many} that the project does not have: {listed(new)}{meant(new, known)}; "
            f"expected some of {listed(sorted(known), 12)}. To add them, name them with --classes; otherwise "
            "correct the suggestions"
        )
    note(f"{name} adds {many}: {listed(new)}")
