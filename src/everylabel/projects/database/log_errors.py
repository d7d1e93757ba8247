"""What can be wrong with a log, told in a sentence."""

from everylabel.core.errors import EverylabelError

MEND = (
    "nothing was changed; `everylabel doctor PROJECT` tells what is lost, and writes a new log of what is "
    "whole beside this one"
)


class StoreError(EverylabelError):
    """The log could not be read or written; what was acknowledged before is safe."""


class NoLog(StoreError):
    """There is none: no file, or a database without our tables."""

    def __init__(self, shown: str, what: str) -> None:
        super().__init__(f"store {shown} {what}; expected a log of everylabel label")


class Damaged(StoreError):
    """The log does not say what was written to it."""

    def __init__(self, shown: str, what: str) -> None:
        super().__init__(f"store {shown} is damaged: {what}; {MEND}")
