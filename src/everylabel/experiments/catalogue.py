"""All experiments by name, in the order of the paper."""

from everylabel.experiments.engine import Experiment
from everylabel.experiments.network import NETWORK
from everylabel.experiments.results import Results, Row
from everylabel.experiments.selecting import SELECTING
from everylabel.experiments.updating import UPDATING

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in (*UPDATING, *SELECTING, *NETWORK)}
FIGURES = {"fig2": "step-size", "fig3": "stages", "fig4": "new-sizes", "fig5": "speed-up"}
FIGURES |= {"fig6": "batch-selection", "fig7": "look-ahead"}


def rows_of(results: Results, name: str, training: str) -> list[Row]:
    """Return an experiment's measurements; of a grid that several share, those it shows."""
    experiment = EXPERIMENTS[name]
    rows, shown = results.rows(experiment.grid, training), experiment.strategies
    return [row for row in rows if not shown or row.variant in shown]
