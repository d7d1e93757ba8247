"""What every request is asked first: whether it has come before, and whether there is such a class."""

from collections.abc import Callable

from everylabel.labelling.errors import Refused
from everylabel.labelling.state.state import State
from everylabel.labelling.state.types import Entry
from everylabel.log.events import Body, Event


def sent_before(
    state: State, person: str, key: str | None, same: Callable[[Body], bool]
) -> Event | Entry | None:
    """Return the event of this very request if it has come before; refuse another one with its key."""
    event = None if key is None else state.request(key)
    if event is not None and not (event.person == person and same(event.body)):
        raise Refused(409, "key_used", f"key is {key!r}, which another request has used; expected a new one")
    return event


def class_number(state: State, value: int | str) -> int:
    """Return the number of a class that there is, from its number or name."""
    book = state.book
    found = book.named(value) if isinstance(value, str) else value
    if found is not None and found in book.order:
        return found
    if found is not None and found in book.removed:
        name = book.names[found]
        raise Refused(422, "unknown_class", f"class {name!r} was removed; expected one that is there")
    if len(book.order) < len(book.names):
        expected = f"one of {', '.join(map(str, book.present))} or a class's name"
    else:
        expected = f"0 to {len(book.names) - 1} or a class's name"
    expected = expected if book.order else "a class: add one first"
    raise Refused(422, "unknown_class", f"class is {value!r:.80}; expected {expected}")
