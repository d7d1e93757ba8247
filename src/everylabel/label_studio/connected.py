"""A Label Studio project with the everylabel project behind it: opened, kept up to date, and closed."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.label_studio.annotations import AnswerIds
from everylabel.label_studio.api import Api
from everylabel.label_studio.configuration import read_configuration
from everylabel.label_studio.learning import Learning
from everylabel.label_studio.predictions import Predictions
from everylabel.label_studio.sync import LOOK_EVERY, Outbox, Reconciler, Renewal
from everylabel.label_studio.tasks import ID, Tasks
from everylabel.labelling.model.retrainer import retrain
from everylabel.labelling.service import Service
from everylabel.projects.features import Progress
from everylabel.projects.folder import ENDING, LogUse
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project
from everylabel.web.arrivals import Arrivals
from everylabel.web.item_view import ItemView
from everylabel.web.server import opened_project

logger = logging.getLogger(__name__)
Say = Callable[[str], Any]


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """The options of `everylabel label-studio`; None keeps an earlier setting, or the default.

    url, token : of Label Studio; project : their numbers there
    model, trust_model_code, names_prior : as in `everylabel label`
    control : the Choices to use, where there are several
    port, page_port : 0 takes any free port; further projects' pages use the next ones
    address : the URL by which Label Studio reaches us, if not host and port
    register : register with Label Studio and write predictions; False changes nothing there
    page : open everylabel's page, too
    store : a file's path or postgresql://...; by default labels.sqlite in the project's folder
    folder : the parent of the folders of projects
    """

    url: str
    token: str
    project: Sequence[int]
    model: str | None = None
    trust_model_code: bool = False
    control: str | None = None
    host: str = "127.0.0.1"
    port: int = 9090
    address: str | None = None
    register: bool = True
    page: bool = False
    page_port: int = 8765
    store: str | None = None
    folder: Path
    names_prior: bool | None = None


class Connected:
    """One project, open on both sides."""

    def __init__(
        self,
        api: Api,
        number: int,
        tasks: Tasks,
        there: set[str],
        options: BackendOptions,
        service: Service,
        shown: ItemView,
        arrivals: Arrivals,
    ) -> None:
        self.api, self.number, self.tasks, self.options = api, number, tasks, options
        self.service, self.shown, self.arrivals = service, shown, arrivals
        marks = AnswerIds(shown.project.id)
        self.learning = Learning(service, tasks.configuration, marks)
        self.outbox = Outbox(api, number, self.learning)
        self.predictions = Predictions(service.desk, tasks.configuration)
        self.renewal = Renewal(api, number, self.predictions)
        self.reconciler = Reconciler(api, number, tasks, there, self.learning, self.renewal.ask)
        self._configured = ""

    def start(self) -> None:
        """Start the background threads but for `renewal`, which starts once we are registered."""
        self.arrivals.start()
        self.reconciler.start(LOOK_EVERY)
        if self.options.page:  # its answers go to Label Studio
            self.outbox.start()

    def close(self) -> None:
        self.outbox.close()
        self.reconciler.close()
        self.renewal.close()

    def train(self) -> None:
        """Retrain in the background, and look for missed annotations."""
        self.reconciler.ask()
        threading.Thread(target=retrain, args=[self.service.desk], name="train", daemon=True).start()

    def configure(self, xml: str) -> None:
        """Adopt a changed labelling configuration; log a warning if it is not supported."""
        if not xml or xml == self._configured:
            return
        self._configured = xml
        try:
            found = read_configuration(xml, self.options.control)
        except EverylabelError as error:
            logger.warning("project %s keeps its earlier configuration: %s", self.number, error)
            return
        now = self.learning.configuration
        if (found.tag, found.field, found.multiple) != (now.tag, now.field, now.multiple):
            what = "shows another field" if found.multiple == now.multiple else "changed its kind of choice"
            logger.warning("project %s %s; restart to use it", self.number, what)
            return
        self.learning.configuration = self.predictions.configuration = found
        self.learning.add_classes().add_done_callback(lambda _: self.renewal.ask())


@contextmanager
def connect(
    api: Api, number: int, options: BackendOptions, note: Say, progress: Progress | None = None
) -> Iterator[Connected]:
    """Yield a project that is up to date with Label Studio; `start` keeps it so."""
    about = api.project(number)
    configuration = read_configuration(str(about.get("label_config") or ""), options.control)
    folder = options.folder / f"label-studio-{number}{ENDING}"
    tasks = Tasks(api, folder / f"label-studio-{number}.jsonl", configuration)
    there = tasks.take(api.tasks(number))
    if not tasks.names:
        raise EverylabelError(f"project {number} of Label Studio has no tasks; import some there first")
    project = open_project(
        tasks.path,
        folder=folder,
        id_column=ID,
        classes=configuration.classes,
        model=options.model,
        trust_model_code=options.trust_model_code,
        progress=progress,
        log=LogUse(options.store, accept=True, own_log=f"delete {str(folder)!r}", sample=True),
        text_column="text" if tasks.column == "text" else None,
        image_column="image" if tasks.column == "image" else None,
        keep=False,
    )
    for text in project.notes:
        note(text)
    serving = LabelOptions(
        store=options.store,
        names_prior=options.names_prior,
        confirm_labels=True,
        watch=True,
        multi_label=configuration.multiple,
    )

    def joined(done: int, total: int) -> None:
        if done == total:
            connected.reconciler.ask()  # for annotations of tasks that have just joined

    with opened_project(project, serving, note, joined) as (service, shown, arrivals):
        connected = Connected(api, number, tasks, there, options, service, shown, arrivals)
        connected.reconciler.look()
        with closing(connected):
            yield connected
