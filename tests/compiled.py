"""Compile the loops once, so that the processes of a parallel test run need not compile them.

python -m tests.compiled
"""

from everylabel.core.arrays import can_compile
from everylabel.labelling.model.retrainer import compile_loops
from everylabel.selection.threads import SMALL

if __name__ == "__main__" and can_compile():
    for strategy in ("herding", "margin", "lookahead"):
        for exact in (True, False):
            compile_loops(SMALL, strategy, exact, SMALL)
