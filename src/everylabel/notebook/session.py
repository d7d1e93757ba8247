"""`Session`, returned by `everylabel.label`: live labels and model of the page.

The server runs on a thread of this process: signal handlers stay, and nothing is left behind. A notebook
shows the page in a frame; elsewhere its address is printed.
"""

import asyncio
import atexit
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np

from everylabel.core.errors import EverylabelError, need
from everylabel.data.readers.memory import frame_of
from everylabel.formats.records import predicted
from everylabel.labelling.desk import Generation
from everylabel.labelling.model.training import FeatureTable
from everylabel.labelling.quality.accuracy import Interval
from everylabel.models.classifier import LaplaceClassifier
from everylabel.models.embedding.embed import Embedder
from everylabel.notebook.results import (
    Encode,
    SessionState,
    features_of,
    n_labels,
    source_rows,
    state_of,
    with_column,
)
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import Project
from everylabel.web.server import opened_server

HEIGHT = 680  # pixels of the frame
LABEL = "label"  # default name of the column of labels
EVERY = 0.2  # seconds between two checks of `wait`


def shell() -> Any:
    """Return the notebook's shell; None in plain Python and in a terminal."""
    found = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return found if hasattr(found, "kernel") else None


def frame(address: str, height: int) -> str:
    """Return HTML with the page in a frame, and a link to it."""
    place = escape(address)
    style = "border: 1px solid rgba(128, 128, 128, .4); border-radius: 6px; background: white"
    return (
        f'<iframe src="{place}" title="everylabel" width="100%" height="{height}" style="{style}" '
        f'allow="clipboard-write"></iframe><div>{link(address)}</div>'
    )


def link(address: str) -> str:
    """Return an HTML link that opens the page in a new tab."""
    place = escape(address)
    return f'<a href="{place}" target="_blank" rel="noopener">{place}</a>'


def show(session: Any) -> None:
    """Show a session in a notebook; elsewhere print its address."""
    if shell() is None:
        print(f"everylabel is ready: {session.address}", flush=True)
    else:
        import_module("IPython.display").display(session)


class Background:
    """A project served on a thread until it is closed; errors of the start are raised here."""

    def __init__(self, project: Project, options: LabelOptions, note: Callable[[str], Any]) -> None:
        self._stack, self._started = ExitStack(), threading.Event()
        self._failed: BaseException | None = None  # the error of the start
        self._thread = threading.Thread(target=self._serve, name="everylabel", daemon=True)
        try:
            opening = opened_server(project, options, lambda _: self._started.set(), note, None)
            self.opened = self._stack.enter_context(opening)
            self._thread.start()
            while not self._started.wait(0.05):
                if not self._thread.is_alive():
                    why = "see its log messages" if self._failed is None else repr(self._failed)
                    raise EverylabelError(f"the server did not start: {why}") from self._failed
        except BaseException:
            self.close()
            raise

    def _serve(self) -> None:
        # in a new event loop: notebooks have a running one, and often a patched asyncio.run
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self.opened.server.serve(sockets=[self.opened.bound]))
        except BaseException as error:
            if self._started.is_set():
                raise
            self._failed = error
        finally:
            loop.close()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def end_serving(self) -> None:
        """Answer open requests, and take no more."""
        if self._thread.is_alive():
            self.opened.server.should_exit = True
            self._thread.join()

    def close(self) -> None:
        """Stop the server and close the project."""
        self.end_serving()
        self._stack.close()


class Session:
    """Items that people label on a page of this process.

    source : the argument of `label`: a table, list, array or path
    label_column : its column of labels, if any
    folder : the project's folder; None if it is temporary
    tidy : removes temporary files when the session is stopped
    height : pixels of the frame in a notebook

    After `stop` the page is gone; labels and model stay as they were.

    Examples
    --------
    >>> table = {"text": ["my card", "a card", "send money"], "kind": ["card", None, "money"]}
    >>> options = {"text_column": "text", "label_column": "kind", "model": "tfidf"}
    >>> with el.label(table, **options, folder="kinds.everylabel", display=False) as session:
    ...     kinds = session.predict(["where is my card"])  # and model, accuracy, to_frame() ...
    note: 2 labels imported
    >>> len(session.records), session.running
    (2, False)
    """

    def __init__(
        self,
        source: Any,
        label_column: str | None,
        background: Background,
        folder: Path | None,
        tidy: Callable[[], Any],
        height: int,
    ) -> None:
        self._source, self._label_column = source, label_column
        self._background, self._tidy, self._height = background, tidy, height
        self.folder, self.address = folder, background.opened.address
        self._last: SessionState | None = None  # the state at the stop
        self._trained: tuple[tuple[int, int], LaplaceClassifier] | None = None
        self._embedder: Embedder | None = None
        self._lock = threading.RLock()
        self._shown_in: int | None = None  # the cell of a notebook that shows the page
        atexit.register(self._close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = self._state()
        where = self.address.partition("?")[0] if self.running else "stopped"  # without the token
        n, total = len(state.label_set.labels), len(state.project.ids)
        return f"Session({n:,} of {total:,} labelled, {len(state.label_set.classes)} classes, {where})"

    def _repr_html_(self) -> str | None:
        """Return the page in a frame; a link if the cell shows it already, or it needs a token."""
        if not self.running:
            return None
        now = getattr(shell(), "execution_count", None)
        again = now is not None and now == self._shown_in
        self._shown_in = now
        if again or "?token=" in self.address:  # cookies do not pass into a frame of another site
            return link(self.address)
        return frame(self.address, self._height)

    @property
    def running(self) -> bool:
        """Whether the page is served."""
        return self._last is None and self._background.running

    def url(self, path: str = "") -> str:
        """Return an address below the page for a browser, with the token if one is needed.

        path : such as "api/export?what=test"
        """
        page, _, token = self.address.partition("?")
        return page + path.removeprefix("/") + (("&" if "?" in path else "?") + token if token else "")

    @property
    def classes(self) -> list[str]:
        """The current classes, in the order of the page."""
        return list(self._state().label_set.classes)

    @property
    def records(self) -> list[dict[str, Any]]:
        """A dict for each labelled item: its row, its label, the columns of its source."""
        records = self._state().records()
        return [dict(zip(records.columns, row, strict=True)) for row in records.rows]

    @property
    def labels(self) -> Any:
        """The labelled items as a pandas data frame; `records` has the same without pandas."""
        pandas = need("pandas", "table", "session.labels as a data frame (session.records needs nothing)")
        records = self._state().records()
        return pandas.DataFrame([list(row) for row in records.rows], columns=list(records.columns))

    @property
    def accuracy(self) -> Interval | None:
        """The model's accuracy on unlabelled items, with its interval; None before five random checks."""
        return self._state().accuracy

    @property
    def model(self) -> LaplaceClassifier:
        """A classifier of features, trained on all current labels."""
        with self._lock:
            state = self._state()
            version = state.version, id(self._rows)
            if self._trained is None or self._trained[0] != version:
                self._trained = version, state.model(self._rows)
            return self._trained[1]

    def predict(self, items: Any = None) -> np.ndarray:
        """Return the predicted class of each item (n,); None for unreadable items and empty texts.

        Of a multi-label project these are the predicted classes as exports write them: "a;b".

        items : texts, images, features or a table, of the same kind as the source; None predicts the source.
        """
        model, probabilities = self._predicted(items)
        limits = model.thresholds_ if model.posterior_.multi_label else None
        names = np.full(len(probabilities), None, dtype=object)
        for i in np.flatnonzero(~np.isnan(probabilities[:, 0])):
            names[i] = predicted(probabilities[i], model.classes_.tolist(), limits)[0]
        return names

    def predict_proba(self, items: Any = None) -> np.ndarray:
        """Return the probabilities (n, k) of `model.classes_`; NaN where `predict` has None."""
        return self._predicted(items)[1]

    def _predicted(self, items: Any) -> tuple[LaplaceClassifier, np.ndarray]:
        """Return the model and probabilities (n, k) of one model, even if labels arrive meanwhile."""
        with self._lock:
            model, state = self.model, self._state()
            features = features_of(items, state, self._rows, self._encoder)
        known = ~np.isnan(features).any(axis=1)
        probabilities = np.full((len(features), len(model.classes_)), np.nan)
        if known.any():
            probabilities[known] = model.predict_proba(features[known])
        return model, probabilities

    def to_frame(self, column: str | None = None) -> Any:
        """Return the labelled source as a table with a column of labels, None for unlabelled rows.

        A table keeps its kind: pandas, polars, Arrow, a dataset, dicts. Other sources become a pandas data
        frame; a pandas Series keeps its index and name. Several classes per item are a text ("a;b"), or in a
        dataset a list of class numbers (Sequence(ClassLabel)).

        column : name of the column; by default the source's own column of labels, or "label"
        """
        given = self._source
        if frame_of(given) is not None:
            return self.labelled(given, column)
        if hasattr(given, "iloc"):  # a Series of pandas
            kind = self._state().project.kind
            return self.labelled(given.to_frame(kind if given.name is None else given.name), column)
        pandas = need("pandas", "table", "session.to_frame()")
        project, n = self._state().project, self._state().n_rows
        rows = list(source_rows(project).values())
        columns = dict(project.columns)
        if not columns and project.kind != "features" and not isinstance(project.items, np.ndarray):
            columns = {project.kind: project.items}
        columns = {name: list(values)[: len(rows)] for name, values in columns.items()}
        return self.labelled(pandas.DataFrame(columns, index=rows).reindex(range(n)), column)

    def labelled(self, table: Any, column: str | None = None) -> Any:
        """Return a table with the rows of the source and a column of labels; see `to_frame`."""
        own = self._label_column
        name = column or own or LABEL
        state = self._state()
        classes = state.label_set.classes if state.label_set.multi_label else None
        return with_column(table, name, state.column(), name == own, classes)

    def wait(self, labels: int | None = None) -> Self:
        """Wait until `labels` items are labelled, or for Ctrl-C (in a notebook: interrupt)."""
        try:
            while self.running and (labels is None or self._n_labels() < labels):
                time.sleep(EVERY)
        except KeyboardInterrupt:
            print("everylabel is still running; session.stop() ends it", flush=True)
        return self

    def stop(self) -> None:
        """Stop the page; labels and model stay. A second stop has no effect."""
        with self._lock:
            if self._last is not None:
                return
            self._background.end_serving()
            try:
                self._last = state_of(self._background.opened)
                self._encoder()  # while its file is still in the folder
                if self._generation is not None:
                    self._generation.load()
            finally:
                self._close()

    def _close(self) -> None:
        try:
            self._background.close()
        finally:
            self._tidy()
            atexit.unregister(self._close)

    def _n_labels(self) -> int:
        """Return the number of labelled items."""
        with self._lock:
            if self._last is not None:
                return len(self._last.label_set.labels)
            return n_labels(self._background.opened)

    def _state(self) -> SessionState:
        with self._lock:
            return state_of(self._background.opened) if self._last is None else self._last

    @property
    def _rows(self) -> FeatureTable:
        """The features that the model sees; they change when the network is fine-tuned."""
        return self._background.opened.service.desk.rows

    @property
    def _generation(self) -> Generation | None:
        """The fine-tuned network, if there is one."""
        return self._background.opened.service.desk.generation

    def _encoder(self) -> Encode | None:
        """Return the function that embeds items; None if the source is features."""
        if self._generation is not None:
            return self._generation.embed
        if self._embedder is None:
            self._embedder = self._background.opened.shown.project.embedder()
        return None if self._embedder is None else self._embedder.rows
