"""`LabelOptions`: all options of `everylabel label` and `everylabel.label`, checked once.

The command and the function have one parameter per option; a test compares the three. Opening a project, the
server and the log's settings read the options from here. Errors name the options of the command;
`everylabel.label` translates them to its arguments.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError, MissingExtra
from everylabel.data.classes import SEPARATOR, ClassList, column_list
from everylabel.labelling.model.training import FeatureTable
from everylabel.labelling.state.types import AUTO, REVIEW
from everylabel.labelling.views import OFFERED, STRATEGIES
from everylabel.projects.arrivals import read_watched
from everylabel.projects.folder import LogUse
from everylabel.projects.log import LONGEST_PERSON, Label, Proposed
from everylabel.projects.project import Project

NO_CLASSES = ClassList(None, {}, {})
ALL = "all"  # fields: show the default columns
MOST_CHECKS = 1000  # maximum number of labels between two random checks
NETWORK = ("auto", "on", "frozen")  # whether the encoder is fine-tuned
PORTS = 65535
_READING = (  # options of `open_project`
    *("text_column", "image_column", "label_column", "id_column", "show"),
    *("model", "trust_model_code", "folder", "encoding", "long_rows", "label_separator"),
)


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """The options of `everylabel label`; None leaves a setting unchanged.

    text_column ... long_rows : see `data.items.Options`
    classes : names, and descriptions and keys by name
    multi_label : an item may have several classes, or none; saved with the project
    label_separator : between two classes of a label; ";" by default
    fields : columns shown beside an item: a text that the project saves, or a list of columns
    guidelines : a Markdown file for the labellers, or "none"; by default that of last time
    images_in : folders that may contain images, besides the source's own
    layout : of the map, "pca" or "umap"
    strategy ... tester : settings of the log
    test : number of items to hold out as a test set, or the column that marks them
    store : a file's path or postgresql://...; by default labels.sqlite in the project's folder
    accept_changes : continue although rows are gone or changed; confirm_labels : and keep their labels
    watch : let rows that are added to the source join the project
    import_file ... import_text_column : a file of labels, and its columns
    port : 0 uses any free port
    token : required unless host is this machine's own, without a proxy; generated and shown if not given
    look_token : a read-only token; token_file : a file with both, which may change while the server runs
    proxy : a reverse proxy on this machine is in front; trust its X-Forwarded-For
    review : the source's labels are not fully trusted; people check those that are probably wrong
    suggestions : a table, or a file's path, of classes by sources that are not fully trusted
    suggestion_column ... suggestion_source_column : columns of the source that hold suggestions
    labels : existing labels besides the source's own
    proposed : suggestions that were read
    framed : a notebook on this machine may embed the page
    rows : returns the features of a project for the desk
    """

    text_column: str | None = None
    image_column: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    classes: ClassList = NO_CLASSES
    multi_label: bool | None = None
    label_separator: str | None = None
    show: Any = None
    fields: str | Sequence[str] | None = None
    guidelines: Path | None = None
    images_in: Sequence[Path] = ()
    model: str | None = None
    trust_model_code: bool = False
    strategy: str | None = None
    names_prior: bool | None = None
    network: str | None = None
    check_every: int | None = None
    annotators_per_item: int | str | None = None
    lease_seconds: int | None = None
    tester: str | None = None
    test: str | None = None
    layout: str = "pca"
    folder: Path | None = None
    store: str | None = None
    accept_changes: bool = False
    confirm_labels: bool = False
    watch: bool = False
    encoding: str | None = None
    long_rows: str | None = None
    import_file: Path | None = None
    import_label_column: str | None = None
    import_id_column: str | None = None
    import_text_column: str | None = None
    review: bool = False
    suggestions: Any = None
    suggestion_column: str | None = None
    suggestion_score_column: str | None = None
    suggestion_source_column: str | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    look_token: str | None = None
    token_file: Path | None = None
    proxy: bool = False
    browser: bool = False
    ray: str | None = None
    labels: Sequence[Label] = ()
    proposed: Sequence[Proposed] = ()
    framed: bool = False
    rows: Callable[[Project], FeatureTable] = lambda project: FeatureTable(project.ids_here, project.features)

    def __post_init__(self) -> None:
        check_choice(self.layout, "--layout", ["pca", "umap"])
        if self.layout == "umap" and find_spec("umap") is None:
            raise MissingExtra(
                "--layout is 'umap' and umap-learn is not installed; pip install 'everylabel[umap]', or "
                "leave --layout out: the map is made by PCA then"
            )
        check_port(self.port)
        if self.ray is not None and self.multi_label:
            raise EverylabelError(
                "--multi-label is given with --ray, which knows one class per item; leave --ray out, and the "
                "shards are read on this machine"
            )
        if self.label_separator is not None and not self.multi_label:
            raise EverylabelError(
                f"--label-separator is {self.label_separator!r} without --multi-label; expected both, for "
                "items with several classes"
            )
        self.settings  # noqa: B018 (refuses what is wrong)

    @property
    def settings(self) -> dict[str, Any]:
        """The given settings of the log, by their names there."""
        given = {"names" if name == "names_prior" else name: getattr(self, name) for name in _CHECKS}
        if self.review and self.strategy is None:
            given["strategy"] = REVIEW
        checks = zip(given, _CHECKS.values(), strict=True)
        return {name: check(given[name]) for name, check in checks if given[name] is not None}

    @property
    def suggestion_columns(self) -> list[str]:
        """The columns of the source that hold suggestions."""
        named = (self.suggestion_column, self.suggestion_score_column, self.suggestion_source_column)
        return [name for name in named if name is not None]

    @property
    def accepts(self) -> bool:
        """Whether a changed source is accepted."""
        return self.accept_changes or self.confirm_labels

    def columns(self, project: Project) -> Sequence[str] | None:
        """Return the columns shown beside an item, as named now or last time; None: all."""
        if self.fields is not None and not isinstance(self.fields, str):
            return self.fields
        return None if project.options.fields == ALL else column_list(project.options.fields)

    def opening(self) -> dict[str, Any]:
        """Return the arguments of `open_project`; nothing is saved before everything is checked."""
        drawn = self.test is not None and self.test.strip().isdigit()  # drawn among all items
        all_at_once = drawn or self.review or self.import_file is not None
        how = {name: getattr(self, name) for name in _READING}
        if self.multi_label and self.label_separator is None:
            how["label_separator"] = SEPARATOR
        if isinstance(self.fields, str):
            how["fields"] = self.fields
        if self.watch:
            how["reader"] = read_watched
        return how | {
            "classes": self.classes.names,
            "keep": False,
            "log": LogUse(self.store, accept=self.accepts, sample=not all_at_once),
        }


def check_port(port: Any) -> int:
    """Return a valid port number; 0 uses any free port."""
    return _whole("--port", 0, PORTS)(port)


def _strategy(value: Any) -> str:
    if not isinstance(value, str) or value not in STRATEGIES:
        raise EverylabelError(f"--strategy is {value!r:.80}; expected one of {', '.join(OFFERED)}")
    return value


def _whole(name: str, least: int, most: int | None = None) -> Callable[[Any], int]:
    expected = f"a whole number of at least {least}" if most is None else f"a whole number, {least} to {most}"

    def check(value: Any) -> int:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            raise EverylabelError(f"{name} is {value!r:.80}; expected {expected}")
        return int(value)

    return check


def _annotators(value: Any) -> int | str:
    if value == AUTO:
        return AUTO
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not whole or number < 1:
        raise EverylabelError(
            f"--annotators-per-item is {value!r:.80}; expected a whole number of at least 1, or {AUTO!r}"
        )
    return int(number)


def _switch(name: str) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise EverylabelError(f"{name} is {value!r:.80}; expected on (True) or off (False)")
        return bool(value)

    return check


def _network(value: Any) -> str:
    check_choice(value, "--network", NETWORK)
    return str(value)


def _person(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_PERSON or not value.isprintable():
        raise EverylabelError(
            f"--tester is {value!r:.80}; expected a person's name of at most {LONGEST_PERSON} printable "
            "characters, or '' for everybody"
        )
    return unicodedata.normalize("NFC", value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "strategy": _strategy,
    "check_every": _whole("--check-every", 0, MOST_CHECKS),
    "annotators_per_item": _annotators,
    "lease_seconds": _whole("--lease-seconds", 1),
    "names_prior": _switch("--names-prior"),
    "network": _network,
    "tester": _person,
    "multi_label": _switch("--multi-label"),
}
