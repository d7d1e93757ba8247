"""What is written down: every answer, hand-out and change, in the order it happened.

The log is the only truth. All that a server knows is computed from it: who labelled what by
`ledger.Ledger`, what the model has learned by `learner.Learner`.

kind          body
project       classes, settings, seed              the first event of a log
class         name                                 its number is how many there were before
rename        class, name
settings      strategy, check_every ...            what changed
out           item, reason, expected               handed out to the person
release       item                                 taken back unanswered
label         item, class, guess, sure             with what the model said before it learned
cannot_tell   item
skip          item
undo          saved                                number of the event taken back
refit         upto                                 the model was trained on all labels up to there
"""

from dataclasses import dataclass, field
from typing import Any

ANSWERS = ("label", "cannot_tell", "skip")  # what a person can take back


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log. Events of one block were learned together, in one pass over the pool."""

    seq: int
    block: int
    at: float  # seconds since 1970
    person: str
    kind: str
    body: dict[str, Any] = field(default_factory=dict)
    key: str | None = None  # of the request, so that one sent twice counts once
