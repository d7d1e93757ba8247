"""The state of a project without a server: read from its log, which is left alone."""

from contextlib import closing

from everylabel.serving.ledger import Answer, Ledger
from everylabel.serving.project import Project
from everylabel.serving.run import store_name, store_place
from everylabel.serving.store import Store


class Known:
    """What people said, at one moment."""

    def __init__(self, ledger: Ledger) -> None:
        self.classes: list[str] = list(ledger.classes)
        self.labels: dict[int, int] = dict(ledger.labels)
        self.answers: dict[int, list[Answer]] = dict(ledger.answers)
        self.times: dict[int, float] = {event.seq: event.at for event in ledger.history}


def read_state(project: Project, store: str | None) -> Known:
    """Return what a project's log adds up to."""
    with closing(Store(store_place(project, store), store_name(project, store), write=False)) as log:
        events = log.read()
    ledger = Ledger(project.ids)
    for event in events:
        ledger.apply(event)
    return Known(ledger)
