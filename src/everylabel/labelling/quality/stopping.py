"""When more labels would bring little: what the last ones have brought, in the model's own probabilities.

With p the model on all labels, q the one without the last fifth of them, and y the class that p says:
    gain = mean over what is left of p(y) - q(y)
Below LITTLE at two looks at least APART labels apart, the page suggests to stop. Measured by
`benchmarks/accuracy.py`; after Bloodgood & Vijay-Shanker (2009), who count instances that change their class.
"""

from typing import Any

from everylabel.labelling.state.state import State
from everylabel.log.events import Assessed

LITTLE = 0.005  # of 37 development runs 12 stop, none too early; at .0075 one of 14, at .01 seven of 15
APART = 10  # labels between two looks that both count
FEWEST = 60  # labels before which nobody is told to stop


def stop(state: State) -> dict[str, Any]:
    """Return whether more labels would bring little, and the one sentence that says so."""
    known = (look for look in reversed(state.assessed) if look.gain is not None)
    looks = (look for look in known if look.labels <= len(state.labels))  # the latest first
    last = next(looks, None)
    if last is None:
        return {"suggest": False, "gain": None, "without_last": None, "sentence": ""}
    before = next((look for look in looks if look.labels <= last.labels - APART), None)
    suggest = last.labels >= FEWEST and _little(last) and before is not None and _little(before)
    sentence = _sentence(last, suggest)
    return {"suggest": suggest, "gain": last.gain, "without_last": last.without, "sentence": sentence}


def _little(look: Assessed) -> bool:
    return look.gain is not None and look.gain < LITTLE


def _sentence(look: Assessed, suggest: bool) -> str:
    assert look.gain is not None
    points = 100.0 * max(look.gain, 0.0)
    brought = f"The last {look.without} labels made the model {points:.1f} points surer of what it says"
    return f"{brought}: more of this kind bring little, you may stop here." if suggest else f"{brought}."
