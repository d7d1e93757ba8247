"""`label`: serve the labelling page from a background thread of this process."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import ClassList, class_list
from everylabel.data.items import Items, Options
from everylabel.data.readers.memory import read_memory
from everylabel.formats.suggestions import read_suggestions
from everylabel.notebook.session import HEIGHT, Background, Session, shell
from everylabel.notebook.session import show as show_session
from everylabel.projects.folder import ENDING, IN_MEMORY, remembered
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import Project, open_project
from everylabel.web.access import is_local

NAME = f"notebook{ENDING}"  # a project's folder that ends with the session
MANY = 1000  # items from which on progress of embedding is printed
_sessions: WeakValueDictionary[Path | str, Session] = WeakValueDictionary()  # by folder, or notebook cell
_OPTION = re.compile(r"(?<![^\s(:,`])--[a-z]+(?:-[a-z]+)*(?![\w/\\-]|\.\w)")  # a separate word


def label(
    source: Any,
    classes: Sequence[str] | Mapping[str, str] | str | None = None,
    *,
    text_column: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    multi_label: bool | None = None,
    label_separator: str | None = None,
    show: Any = None,
    fields: Sequence[str] | str | None = None,
    guidelines: str | os.PathLike[str] | None = None,
    images_in: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    model: str | None = None,
    trust_model_code: bool = False,
    strategy: str | None = None,
    names_prior: bool | None = None,
    network: str | None = None,
    check_every: int | None = None,
    annotators_per_item: int | str | None = None,
    lease_seconds: int | None = None,
    test: int | str | None = None,
    tester: str | None = None,
    layout: str = "pca",
    folder: str | os.PathLike[str] | None = None,
    store: str | None = None,
    accept_changes: bool = False,
    confirm_labels: bool = False,
    watch: bool = False,
    encoding: str | None = None,
    long_rows: str | None = None,
    suggestions: Any = None,
    suggestion_column: str | None = None,
    suggestion_score_column: str | None = None,
    suggestion_source_column: str | None = None,
    review: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    look_token: str | None = None,
    browser: bool = False,
    display: bool = True,
    height: int = HEIGHT,
) -> Session:
    """Serve a page for labelling items in the background, and return the session at once.

    A notebook shows the page below the cell; elsewhere its address is printed. The model learns from every
    click, and the session gives access to the current labels and model.

    Parameters
    ----------
    source : list, array, table or path
        Texts; images (paths, PIL images, arrays of pixels (n, h, w[, 3])); features (n, d); a table (pandas,
        polars, Arrow, a split of a Hugging Face dataset, a list of dicts); or what `everylabel label` takes:
        a file, a folder, a dataset's name.
    classes : sequence of str, mapping or str, optional
        Class names; a dict from name to description; comma-separated names; or a CSV file. The page can add
        others.
    text_column, image_column, label_column, id_column : str, optional
        Columns of a table: the content to label, existing labels, unique ids.
    multi_label, label_separator
        Whether an item may have several classes, or none; the separator of classes in a label, default ";".
    show : table or list, optional
        The content of each row of features.
    fields : sequence of str or str, optional
        The columns shown beside an item.
    guidelines : path, optional
        A Markdown file shown beside the task.
    images_in : paths or path
        Folders, besides the source's own, from which images may be shown. A source in memory may use any
        folder if only this machine sees the page.
    model, trust_model_code
        The encoder, as in `everylabel.embed`.
    strategy, names_prior, network, check_every, annotators_per_item, lease_seconds, test, tester, layout
        As the options of `everylabel label`; see docs/labelling.md.
    folder : path, optional
        Folder for labels and features, to continue another time. By default they are in a temporary folder
        that is deleted when the session stops; the session object keeps its data until Python ends.
    store, accept_changes, confirm_labels, watch, encoding, long_rows
        As the options of `everylabel label`.
    suggestions : table or path, optional
        Classes by a source that is not fully trusted, such as a language model: columns id (or text), label,
        and optionally score (0 to 1) and source. The model trusts it as far as labels confirm it.
    suggestion_column, suggestion_score_column, suggestion_source_column : str, optional
        The same in columns of the source itself.
    review : bool
        The labels of `label_column` are not fully trusted: the page asks about likely errors first.
    host, port, token, look_token
        Address and tokens of the page; default: this machine only, any free port.
    browser : bool
        Open the page in a browser.
    display, height
        Whether to show the page at once, and its height.

    Examples
    --------
    >>> texts = ["my card is lost", "send me money", "block my card"]
    >>> classes = ["card", "transfer"]
    >>> session = el.label(texts, classes, model="tfidf", folder="cards.everylabel", display=False)
    >>> len(session.labels)  # a data frame, live; session.records without pandas
    0
    >>> session.stop()
    """
    given = dict(locals())  # the options, by name; and four arguments that are none
    for name in ("source", "folder", "display", "height"):
        del given[name]
    with _in_python():
        in_memory = not isinstance(source, str | os.PathLike)
        anywhere = [Path(Path.cwd().anchor)] if in_memory and is_local(host) else []  # only we see them
        given |= {
            "classes": classes_of(classes, encoding),
            "fields": fields_of(fields),
            "guidelines": None if guidelines is None else Path(guidelines),
            "images_in": [*folders_of(images_in), *anywhere],
            "test": None if test is None else str(test),
            "framed": True,
        }
        options = LabelOptions(**given)
        place, tidy, kept = _place(source, folder)
        again = [key for key in (kept, _cell()) if key is not None]
        for earlier in [_sessions[key] for key in again if key in _sessions]:
            if earlier.running:
                _note(f"the session at {earlier.address} is stopped: this one replaces it")
            earlier.stop()
        try:
            project = _opened(source, in_memory, replace(options, folder=place))
            options = replace(options, proposed=read_suggestions(project, options, _note))
            background = Background(project, options, _note)
        except BaseException:
            tidy()
            raise
    session = Session(source, label_column, background, kept, tidy, height)
    _sessions.update(dict.fromkeys(again, session))
    if kept is None and store is None:
        _note(
            "labels are in a temporary folder, deleted when Python ends; folder='NAME.everylabel' keeps them"
        )
    if display:
        show_session(session)
    return session


def _cell() -> str | None:
    """Return an id of the running notebook cell; None elsewhere."""
    kernel: Any = getattr(shell(), "kernel", None)
    about = kernel.get_parent() if hasattr(kernel, "get_parent") else {}
    found = about.get("metadata", {}).get("cellId")
    return found if isinstance(found, str) else None


def _place(source: Any, folder: str | os.PathLike[str] | None) -> tuple[Path | None, Any, Path | None]:
    """Return the project's folder, a function that removes it, and the folder if it stays."""
    if folder is not None:
        kept = Path(folder).absolute()
        return kept, lambda: None, kept
    if isinstance(source, str | os.PathLike) and str(source).endswith(ENDING) and Path(source).is_dir():
        return None, lambda: None, Path(source).absolute()
    if isinstance(source, str | os.PathLike):
        beside = Path(f"{Path(source).absolute()}{ENDING}")
        if remembered(beside) is not None:  # `everylabel label` made it, or folder= did
            _note(f"continues in the project beside it, {beside.name}")
            return beside, lambda: None, beside
    temporary = Path(tempfile.mkdtemp(prefix="everylabel-"))  # nobody else's
    return temporary / NAME, partial(shutil.rmtree, temporary, ignore_errors=True), None


def _opened(source: Any, in_memory: bool, options: LabelOptions) -> Project:
    """Return the project of a source; print its notes."""
    if options.watch and in_memory:
        raise EverylabelError("--watch goes with a file or a folder; the source is in memory")

    def read_source(_: str, how: Options) -> Items:
        return read_memory(source, how, show=options.show)

    how = options.opening() | ({"reader": read_source, "show": None} if in_memory else {})
    project = open_project(IN_MEMORY if in_memory else source, progress=_progress(), **how)
    for text in project.notes:
        _note(text)
    return project


def _progress() -> Any:
    """Return a function that prints the progress of embedding, in tenths."""
    shown: set[int] = set()

    def show_progress(done: int, total: int) -> None:
        share = 10 * done // max(1, total)
        if total > MANY and share not in shown:
            shown.add(share)
            print(f"embedding: {done:,} of {total:,}", flush=True)

    return show_progress


def _note(text: str) -> None:
    print(f"note: {_plain(text)}", flush=True)


def _plain(text: str) -> str:
    """Replace options of the command line by arguments of Python in a sentence."""
    return _OPTION.sub(lambda found: _ARGUMENTS.get(found[0], found[0]), text)


@contextmanager
def _in_python() -> Iterator[None]:
    """Name arguments instead of options of the command line in errors."""
    try:
        yield
    except EverylabelError as error:
        error.args = tuple(_plain(each) if isinstance(each, str) else each for each in error.args)
        raise


_ARGUMENTS = {"--" + name.replace("_", "-"): name for name in signature(label).parameters}
_ARGUMENTS |= {"--project": "folder"}


def classes_of(given: Any, encoding: str | None) -> ClassList:
    """Return the named classes; a string is read as the command does."""
    if given is None or isinstance(given, str):
        return class_list(given, encoding)
    names = list(given) if isinstance(given, Iterable) else [given]
    descriptions = list(given.values()) if isinstance(given, Mapping) else []
    _check_strings("classes", [*names, *descriptions])
    return ClassList(names, dict(zip(names, descriptions, strict=True)) if descriptions else {}, {})


def fields_of(given: Any) -> list[str] | None:
    """Return a list of columns; a string is one column."""
    if given is None:
        return None
    names = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    _check_strings("fields", names)
    return names


def folders_of(given: Sequence[str | os.PathLike[str]] | str | os.PathLike[str]) -> list[Path]:
    """Return a list of folders; a string is one folder."""
    return [Path(given)] if isinstance(given, str | os.PathLike) else [*map(Path, given)]


def _check_strings(what: str, names: Sequence[Any]) -> None:
    odd = [each for each in names if not isinstance(each, str)]
    if odd:
        raise EverylabelError(
            f"{what} has {odd[0]!r:.80}, a {type(odd[0]).__name__}; expected names that are strings"
        )
