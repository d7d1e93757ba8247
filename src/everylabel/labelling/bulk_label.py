"""One class for many instances: each an event of its own, marked, and all taken back by one undo.

Never random checks: whoever chose these instances has seen what the model says, or what is alike.
"""

from collections.abc import Sequence
from concurrent.futures import Future

from everylabel.labelling.desk import Finish
from everylabel.labelling.errors import Refused
from everylabel.labelling.service import Service
from everylabel.labelling.state.types import Entry
from everylabel.labelling.views import Reply
from everylabel.log import events
from everylabel.log.events import Body, Event


def label_many(
    service: Service, person: str, items: Sequence[str], value: int | str, key: str | None = None
) -> Future[Reply]:
    """Learn one class for several instances; what is with others now, or of the test set, is left out."""
    desk, wanted = service.desk, list(dict.fromkeys(items))

    def same(sent: Body) -> bool:
        number = service.class_number(value)
        return isinstance(sent, events.Label) and sent.bulk is not None and sent.class_ == number

    def command() -> Finish:
        sent = service.sent_before(person, key, same)
        number, state = service.class_number(value), service.state
        positions = {item: service.views.position(item) for item in wanted}
        others = {item for item, i in positions.items() if state.holder.get(i, person) != person}
        left_out = [item for item, i in positions.items() if item in others or i in state.test]
        if sent is None:
            chosen = [item for item in wanted if item not in left_out]
            if not chosen:
                raise Refused(
                    409, "leased", "all of these are with others now, or of the test set; nothing was saved"
                )
            sent = _given(chosen, number)
        given = state.bulks[_bulk(sent)]
        desk.ask_for(person)
        told = {"labelled": len(given), "left_out": left_out}
        return lambda: {**service.views.reply(person, given[-1]), "bulk": told}

    def _given(chosen: Sequence[str], number: int) -> Event:
        """Emit a label for each; return the first, which has the request's key."""
        guesses = [service.views.guess(service.state.position[item]) for item in chosen]
        bulk = service.state.seq + 1
        made = [
            desk.emit(
                person,
                events.Label(item, class_=number, guess=guess, sure=sure, bulk=bulk),
                key if i == 0 else None,
            )
            for i, (item, (guess, sure)) in enumerate(zip(chosen, guesses, strict=True))
        ]
        return made[0]

    return desk.submit(command)


def _bulk(event: Event | Entry) -> int:
    """Return the first event of a bulk, from the one that has the request's key."""
    assert isinstance(event.body, events.Label)
    return event.body.bulk or event.seq
