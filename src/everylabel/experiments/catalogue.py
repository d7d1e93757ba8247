"""All experiments by name, in the order of the paper."""

from everylabel.experiments.engine import Experiment
from everylabel.experiments.results import Results, Row
from everylabel.experiments.selecting import (
    BatchSelection,
    Imbalance,
    LabelNoise,
    OptimalLookAhead,
    WholePool,
)
from everylabel.experiments.updating import NewSizes, SpeedUp, Stages, StepSize

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        StepSize(),
        Stages(),
        NewSizes(),
        SpeedUp(),
        BatchSelection(),
        OptimalLookAhead(),
        WholePool(),
        LabelNoise(),
        Imbalance(),
    )
}
FIGURES = {"fig2": "step-size", "fig3": "stages", "fig4": "new-sizes", "fig5": "speed-up"}
FIGURES |= {"fig6": "batch-selection", "fig7": "look-ahead"}


def rows_of(results: Results, name: str, training: str) -> list[Row]:
    """Return an experiment's measurements; of a grid that several share, those it shows."""
    experiment = EXPERIMENTS[name]
    rows = results.rows(experiment.grid, training)
    shown = getattr(experiment, "strategies", None)
    return [row for row in rows if shown is None or row.variant in shown]
