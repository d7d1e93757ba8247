"""Let the model finish: the promise holds, nothing is learned, people confirm, one step takes it back."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from everylabel.labelling import auto_label as finishing
from everylabel.labelling.auto_label import SHARES, Finishing, Promise, promise
from everylabel.labelling.quality.accuracy import upper_bound
from everylabel.labelling.quality.assessment import LeftOut
from everylabel.labelling.state.state import LabelSet
from everylabel.labelling.state.types import Refused
from tests.labelling.desks import fingerprint, label, service, truth


@pytest.mark.parametrize(("wrong", "n"), [(0, 30), (2, 50), (7, 40)])
def test_the_bound_is_where_so_few_errors_become_unlikely(wrong: int, n: int) -> None:
    bound = upper_bound(wrong, n, 0.9)
    assert binom.cdf(wrong, n, bound) == pytest.approx(0.1)
    assert upper_bound(3, 3, 0.9) == 1.0


def _checks(rng: np.random.Generator, n: int) -> list[LeftOut]:
    """Return checks of a model that is wrong on (1 - g)^2 of those it gives g, g even from .5 to 1."""
    sure = rng.uniform(0.5, 1.0, n)
    wrong = rng.random(n) < (1.0 - sure) ** 2
    return [LeftOut(0, 0.0, int(w), float(g)) for g, w in zip(sure, wrong, strict=True)]


def test_the_promise_is_kept_as_often_as_it_says() -> None:
    rng, rate, confidence = np.random.default_rng(0), 0.05, 0.8
    broken = made = 0
    for _ in range(400):
        told = promise(_checks(rng, 400), rate, confidence)
        if told.threshold is not None:
            made += 1
            t = told.threshold  # the mean of (1 - g)^2 over g from t to 1 is (1 - t)^2 / 3
            broken += (1.0 - t) ** 2 / 3.0 > rate
    assert made > 100
    assert broken <= (1.0 - confidence) * 400


def test_too_few_checks_promise_nothing() -> None:
    sure = [LeftOut(0, 1.0, 0, 0.99)]
    each = 1 - 0.05 / len(SHARES)
    told = promise(sure * 50, 0.02, 0.95)
    assert (told.threshold, told.wrong) == (None, 0)
    assert upper_bound(0, told.needed, each) <= 0.02 < upper_bound(0, told.needed - 1, each)
    assert promise(sure * told.needed, 0.02, 0.95).threshold == 0.99
    assert promise([], 0.02, 0.95).threshold is None
    assert promise([], 0.02, 0.95).least == 1.0


def test_the_least_rate_is_one_that_can_be_promised() -> None:
    checks = _checks(np.random.default_rng(1), 60)
    told = promise(checks, 0.01, 0.95)
    assert told.threshold is None
    assert told.least < told.bound  # the surest of them have fewer errors
    assert promise(checks, told.least, 0.95).threshold is not None
    assert promise(checks, told.least - 1e-6, 0.95).threshold is None


def test_the_model_finishes_and_people_confirm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finishing, "promise", lambda *_: Promise(0.5, 300, 0, 0.01, 217))
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 40)
        own = made.state.leases["me"].item
        asked, mean = Finishing(made.views), np.array(made.desk.learner.pool.posterior.mean)
        plan = asked.preview(0.02, 0.95).result()
        made.desk.submit(lambda: lambda: None).result()
        reply = asked.finish("me", 0.02, 0.95, 3).result()
        told = reply["progress"]["finished"]
        assert told == {"items": plan["items"], "audit": 3, "audited": 0, "wrong": 0, "bound": None}
        assert reply["progress"]["left"] == 300 - 40 - plan["items"]
        assert np.array_equal(made.desk.learner.pool.posterior.mean, mean)  # nothing is learned
        assert own not in made.state.finished  # it is with the person
        exported = LabelSet.of(made.state, {})
        assert len(exported.by_model) == plan["items"]
        assert not exported.by_model.keys() & exported.labels.keys()
        reply = made.label("me", made.state.ids[own], truth(made.state.ids[own])).result()
        for i in range(3):
            assert (reply["next"]["reason"], reply["next"]["probabilities"]) == ("audit", None)
            item = reply["next"]["item"]["id"]
            given = made.state.finished[made.state.position[item]]
            reply = made.label("me", item, (given + (i == 0)) % 10).result()
        told = reply["progress"]["finished"]
        assert (told["audited"], told["wrong"]) == (3, 1)
        assert told["bound"] == pytest.approx(upper_bound(1, 3, 0.95))
        assert made.state.standing_checks() == []
        state = fingerprint(made)
    with service(tmp_path / "log") as again:
        assert fingerprint(again) == state
        reply = Finishing(again.views).take_back("me").result()
        assert reply["progress"]["finished"] is None
        assert again.state.place(next(iter(exported.by_model))).where.name in ("FREE", "LABELLED")
        assert len(again.state.labels) == 44
        state = fingerprint(again)
    with service(tmp_path / "log") as last:
        assert fingerprint(last) == state


def test_without_checks_it_is_refused(tmp_path: Path) -> None:
    with service(tmp_path / "log", check_every=0) as made:
        label(made, 10)
        with pytest.raises(Refused, match="0 random checks, 0 of them wrong, cannot promise"):
            Finishing(made.views).finish("me", 0.02, 0.95, 3).result()
        assert made.state.finished == {}
