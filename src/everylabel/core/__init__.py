"""The mathematics: posteriors, updates, predictions and exact training on plain arrays."""

from everylabel.core.errors import EverylabelError
from everylabel.core.files import load, save
from everylabel.core.posterior import Posterior
from everylabel.core.predict import logit_variance, logits, predict_proba
from everylabel.core.revise import add_class, condition, forget
from everylabel.core.training import fit_map, laplace
from everylabel.core.updates import update
from everylabel.core.updates.monte_carlo import Samples, mix, reweight, sample

__all__ = [
    "EverylabelError",
    "Posterior",
    "Samples",
    "add_class",
    "condition",
    "fit_map",
    "forget",
    "laplace",
    "load",
    "logit_variance",
    "logits",
    "mix",
    "predict_proba",
    "reweight",
    "sample",
    "save",
    "update",
]
