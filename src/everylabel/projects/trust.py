"""Which models of this machine may be loaded.

A project's folder may come from anybody, and remembers a model; loading one can mean running it. So a model
that lies on this machine is loaded only if the user names it, now; a name on the hub is as safe as any other.
"""

import shlex
from typing import NamedTuple

from everylabel.core.errors import EverylabelError
from everylabel.models.embedding.choose import local_place


class Trust(NamedTuple):
    """The model that the user names, now, and whether it may run code of its own."""

    model: str | None = None
    code: bool = False

    def check(self, model: str | None) -> None:
        """Refuse a model on this machine that the user does not name."""
        if model is None or model == self.model or local_place(model) is None:
            return
        raise EverylabelError(
            f"the project remembers the model {model!r}, which lies on this machine and is not named by you; "
            f"expected --model {shlex.quote(model)} (model=) with label or predict, if you know what it is"
        )


NONE_NAMED = Trust()
