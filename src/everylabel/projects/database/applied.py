"""A log's events taken one after the other; one that does not fit those before is named."""

from collections.abc import Callable, Iterable
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.labelling.events import Event
from everylabel.projects.database.log_errors import Damaged

_MISFITS = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError, StopIteration)


def take_all(take: Callable[[Event], Any], stored: Iterable[Event], shown: str) -> None:
    """Call `take` with every event of the log that is shown as `shown`."""
    for event in stored:
        try:
            take(event)
        except EverylabelError:
            raise
        except _MISFITS as error:
            what = f"event {event.seq}, {event.body.kind!r}, does not fit what came before ({error!r})"
            raise Damaged(shown, what) from error
