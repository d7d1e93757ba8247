"""The strategies by name, each with its meaning and paper."""

from everylabel.core.checks import check_choice
from everylabel.core.errors import EverylabelError
from everylabel.selection.pool import PoolView
from everylabel.selection.strategies import (
    badge,
    bait,
    bald,
    bemps,
    coreset,
    falcun,
    flips,
    herding,
    lookahead,
    probcover,
    refine,
    stochastic,
    typiclust,
    uncertainty,
)
from everylabel.selection.strategies import (
    multi_label as multi_label_scores,
)
from everylabel.selection.strategies.strategy import Score, Strategy

_ALL = [
    Strategy("random", "a random instance", "baseline", "nothing", pick=stochastic.random, multi_label=True),
    Strategy("least_confident", "the smallest largest probability", "Lewis & Gale 1994", "logits", uncertainty.least_confident, alone=True),
    Strategy("entropy", "the largest entropy of the prediction", "Shannon 1948; Settles 2009", "logits", uncertainty.entropy, alone=True, multi_label=True),
    Strategy("margin", "the smallest difference of the two largest probabilities", "Scheffer et al. 2001", "logits", uncertainty.margin, alone=True, multi_label=True),
    Strategy("class_wise", "uncertain classes with few labels; for several classes per item", "beyond the paper", "logits", multi_label_scores.class_wise, multi_label=True),
    Strategy("variance", "the largest variance of the logits, h' cov h", "MacKay 1992", "variances", uncertainty.variance, alone=True, multi_label=True),
    Strategy("bald", "mutual information of the label and the weights", "Houlsby et al. 2011", "members", bald.bald),
    Strategy("batchbald", "mutual information of a batch of labels and the weights", "Kirsch et al. 2019", "members", pick=bald.batchbald),
    Strategy("stochastic", "random, with probabilities by a score: power or softmax", "Kirsch et al. 2023", "logits", pick=stochastic.stochastic),
    Strategy("coreset", "farthest from all labelled instances", "Sener & Savarese 2018", "features", pick=coreset.coreset, multi_label=True),
    Strategy("badge", "k-means++ on gradients", "Ash et al. 2020", "logits, features", pick=badge.badge, multi_label=True),
    Strategy("badge_norm", "the largest gradient norm; Badge with updates", "Huseljic et al., App. F", "logits, features", badge.badge_norm, alone=True, multi_label=True),
    Strategy("typiclust", "the most typical of each cluster without a label", "Hacohen et al. 2022", "features", pick=typiclust.typiclust, multi_label=True),
    Strategy("maxherding", "regions that no label covers yet", "Bae et al. 2024", "features", pick=herding.maxherding, multi_label=True),
    Strategy("probcover", "the ball that covers the most uncovered instances", "Yehuda et al. 2022", "features", pick=probcover.probcover, multi_label=True),
    Strategy("falcun", "uncertain, with predictions that differ from each other", "Gilhuber et al. 2023", "logits", pick=falcun.falcun),
    Strategy("dropquery", "dropout changes the prediction; one of each cluster", "Gupte et al. 2024", "logits, features", pick=flips.dropquery),
    Strategy("alfamix", "a small step changes the prediction; one of each cluster", "Parvaneh et al. 2022", "logits, features", pick=flips.alfamix),
    Strategy("bait", "the batch that leaves the least variance on the pool", "Ash et al. 2021", "logits, features, covariance", pick=bait.bait),
    Strategy("epig", "mutual information of the label and other labels", "Bickford Smith et al. 2023", "members", few=bemps.epig),
    Strategy("bemps", "the largest change of other predictions: CoreMSE, CoreLog", "Tan et al. 2021", "members", few=bemps.bemps),
    Strategy("herding", "uncertain regions that no label covers yet; the default", "Bae et al. 2025", "logits, features, covariance", pick=herding.herding, step_size="auto", multi_label=True),
    Strategy("refine", "herding among candidates that nine strategies have filtered", "Huseljic et al. 2025", "logits, features, covariance", pick=refine.refine),
    Strategy("lookahead", "the label that leaves the least expected risk", "Roy & McCallum 2001, by the update", "logits, features, covariance", few=lookahead.lookahead, step_size="auto"),
]  # fmt: skip
STRATEGIES = {strategy.name: strategy for strategy in _ALL}
DEFAULT = "herding"  # for `select` and the page


def get(strategy: str | Strategy | Score) -> Strategy:
    """Return the strategy of that name; a Strategy is returned unchanged, a score function is wrapped."""
    if isinstance(strategy, Strategy):
        if (strategy.score, strategy.few, strategy.pick).count(None) != 2:
            raise EverylabelError(
                f"strategy {strategy.name!r} has not one rule; expected exactly one of score, few and pick"
            )
        return strategy
    if callable(strategy):
        name = getattr(strategy, "__name__", type(strategy).__name__)
        return Strategy(name, "a score of your own", "", score=strategy)
    if not isinstance(strategy, str):
        raise EverylabelError(
            f"strategy is a {type(strategy).__name__}; expected a name from strategies(), a Strategy, or a score: "
            "a function of (pool, idx, rng)"
        )
    return STRATEGIES[check_choice(strategy, "strategy", list(STRATEGIES))]


def check_labels_of(strategy: Strategy, pool: PoolView) -> None:
    """Raise if a built-in strategy does not support several classes per item and the pool has them."""
    if pool.multi_label and STRATEGIES.get(strategy.name) is strategy and not strategy.multi_label:
        known = ", ".join(repr(each.name) for each in _ALL if each.multi_label)
        raise EverylabelError(
            f"strategy is {strategy.name!r}, which is for one class per item, and this pool's items may have "
            f"several; expected one of {known}"
        )


def strategies() -> list[dict[str, str]]:
    """Return all strategies: name, meaning, paper, requirements, and options with their defaults.

    Examples
    --------
    >>> [each["name"] for each in el.strategies()][:4]
    ['random', 'least_confident', 'entropy', 'margin']
    """
    return [
        {
            "name": s.name,
            "meaning": s.meaning,
            "paper": s.paper,
            "needs": s.needs,
            "options": ", ".join(f"{name}={value!r}" for name, value in s.options.items()),
        }
        for s in _ALL
    ]


__all__ = ["DEFAULT", "STRATEGIES", "Score", "Strategy", "check_labels_of", "get", "strategies"]
