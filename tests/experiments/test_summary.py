"""Figures, summaries and claims on small numbers that can be checked by hand."""

import re

import numpy as np
import pytest

from everylabel.experiments.reporting.claims import CLAIMS, Finding, judge, smaller_share, tally, within
from everylabel.experiments.reporting.pages import Picture, Section, as_html, as_markdown
from everylabel.experiments.reporting.summary import (
    Estimate,
    curve_mean,
    estimate,
    mean_curve,
    points,
    runs_of,
    times,
)
from everylabel.experiments.results import Row
from everylabel.experiments.training import (
    distance,
    share_of_gain,
)

PROBS = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])


def test_metrics_by_hand() -> None:
    other = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    np.testing.assert_allclose(distance(PROBS, other), 0.2 / 3)
    np.testing.assert_allclose(share_of_gain(0.5, 0.6, 0.7), 0.5)
    assert np.isnan(share_of_gain(0.5, 0.6, 0.5))


def test_html_in_texts_of_a_report_is_shown_and_pictures_of_any_name_are_inside() -> None:
    script, picture = "<script>alert(1)</script>", Picture("two words (1).png", "a plot", b"x")
    section = Section(f"On {script}", f"A note.\n\n{script}", [picture], [[["name"], [script]]])
    folded = Section("More", "", folded=("1 more", [["inside"]]))
    text = as_markdown(["# Title", "", f"- command: `a `{script}"], [section, folded])
    page = as_html("title", text, [section])
    assert "<script" not in page
    assert page.count("alert(1)") == 5  # the command, the heading, its link, the note, the table
    details = r"<details><summary>1 more</summary>\s*<table>.*inside.*</table>\s*</details>"
    assert re.search(details, page, re.DOTALL)
    assert 'src="data:image/png;base64,eA=="' in page


def _rows(values: dict[str, list[list[float]]], experiment: str = "batch-selection") -> list[Row]:
    return [
        Row(experiment, "cifar10", rep, "fast", variant, float(x), "accuracy", value)
        for variant, repetitions in values.items()
        for rep, curve in enumerate(repetitions)
        for x, value in enumerate(curve)
    ]


def test_means_errors_and_pairs() -> None:
    rows = _rows({"margin": [[0.5, 0.7], [0.3, 0.9]], "random": [[0.4, 0.5], [0.2, 0.8]]})
    runs = runs_of(rows, "accuracy", "cifar10")
    assert mean_curve(runs, "margin")[0.0] == estimate([0.5, 0.3])
    gap = mean_curve(runs, "margin", "random")
    np.testing.assert_allclose([gap[0.0].mean, gap[0.0].error], [0.1, 0.0], atol=1e-12)
    np.testing.assert_allclose([gap[1.0].mean, gap[1.0].error], [0.15, 0.05])
    np.testing.assert_allclose(curve_mean(runs, "margin", "random").mean, 0.125)
    assert np.isnan(estimate([]).mean)
    assert estimate([0.5]).n == 1


MARGIN = "Margin with updates outperforms margin's top b."


def _verdicts(rows: list[Row], experiment: str = "batch-selection") -> dict[str, tuple[str, str]]:
    return {v.claim: (v.verdict, v.found) for v in judge({experiment: rows})}


def _found(rows: list[Row], claim: str, experiment: str = "batch-selection") -> tuple[str, str]:
    """Return verdict and figures of the claim that begins so."""
    (found,) = ((v.verdict, v.found) for v in judge({experiment: rows}) if v.claim.startswith(claim))
    return found


def test_claims_are_judged_by_measured_values() -> None:
    better, worse = [[0.6, 0.8], [0.5, 0.9]], [[0.5, 0.71], [0.4, 0.809]]
    for values, verdict in (((better, worse), "holds"), ((worse, better), "does not hold")):
        rows = _rows({"margin with updates": values[0], "margin": values[1]})
        assert _verdicts(rows)[MARGIN][0] == verdict
    once = _verdicts(_rows({"margin with updates": better[:1], "margin": worse[:1]}))
    assert "one repetition decides nothing" in once[MARGIN][1]
    untested = judge({})
    assert len(untested) == len(CLAIMS)
    assert {v.verdict for v in untested} == {"not tested"}


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ((0.03, 0.023), "holds"),  # Student's t with 9 degrees of freedom: 2.262
        ((0.03, 0.022), "holds"),  # half of the datasets decide, none is against it
        ((0.03, 0.022, 0.022), "mixed"),
        ((0.03, -0.023), "mixed"),
        ((0.0, -0.023), "does not hold"),
        ((0.022, 0.0), "undecided"),
    ],
)
def test_confidence_intervals_decide(means: tuple[float, ...], verdict: str) -> None:
    found = [Finding(f"d{i}", Estimate(mean, 0.01, 10), "") for i, mean in enumerate(means)]
    assert tally(found)[0] == verdict


def test_negligible_difference_counts_as_none() -> None:
    for gain, verdict in ((0.0009, "undecided"), (0.0011, "holds")):
        rows = _rows({"margin with updates": [[0.5 + gain]] * 3, "margin": [[0.5], [0.5], [0.50001]]})
        assert _found(rows, MARGIN)[0] == verdict


def test_claim_uses_only_its_datasets() -> None:
    found = [Finding(name, Estimate(mean, 0.01, 10), name) for name, mean in (("a", 0.1), ("b", -0.1))]
    assert tally(found) == ("mixed", "a; b")
    assert tally(found, ["a"]) == ("holds", "a | others: b")
    assert tally(found, ["b"]) == ("does not hold", "b | others: a")
    assert tally(found, ["c"]) == ("not tested", "others: a; b")
    assert tally(found, can=True) == ("holds", "a; b")
    assert tally(found[1:], can=True)[0] == "does not hold"


def test_claims_about_parts_of_a_curve() -> None:
    early = {"margin with updates": [[0.1, 0.3, 0.4], [0.1, 0.3, 0.402]], "margin": [[0.1, 0.2, 0.4]] * 2}
    assert _found(_rows(early), "Margin with updates improves on top b in early") == (
        "holds",
        "CIFAR-10 +10.0 ± 0.0",
    )
    late = {"margin with updates": [[0.1, 0.2, 0.4]] * 2, "margin": [[0.1, 0.21, 0.5], [0.1, 0.21, 0.51]]}
    assert _found(_rows(late), "Margin with updates improves on top b in early")[0] == "does not hold"
    behind = {"optimal": [[0.1, 0.5, 0.9]] * 2, "Typiclust": [[0.1, 0.5, 0.8], [0.1, 0.51, 0.8]]}
    falls = _found(_rows(behind, "look-ahead"), "Typiclust is closer", "look-ahead")
    assert falls == ("holds", "CIFAR-10 +10.5 ± 0.5")
    stages = [
        row._replace(x=x)
        for values, x in (([0.3, 0.4], 10.0), ([0.8, 0.7], 100.0))
        for row in _rows({"first order": [[values[0]]] * 2, "baseline": [[values[1]]] * 2}, "stages")
    ]
    for claim in ("First order is effective in early stages", "First order deteriorates"):
        assert _found(stages, claim, "stages")[1] == "CIFAR-10 -10.0 ± 0.0"


def test_closeness_is_measured_between_mean_curves() -> None:
    """Scatter around the goal is no distance from it."""
    around = [[0.501 + 0.1 * (-1) ** rep] for rep in range(10)]
    variants = {"retraining": [[0.5]] * 10, "second order": around, "baseline": [[0.46]] * 10}
    found = _found(_rows(variants, "stages"), "The update closely approximates", "stages")
    assert found == ("undecided", "CIFAR-10 +3.9 ± 3.3")
    above = {"retraining": [[0.5]] * 2, "second order": [[0.51]] * 2, "baseline": [[0.46], [0.462]]}
    assert _found(_rows(above, "stages"), "The update closely", "stages") == ("holds", "CIFAR-10 +2.9 ± 0.1")


def test_not_worse_within_a_tolerance() -> None:
    for loss, verdict in ((0.004, "holds"), (0.006, "does not hold")):
        variants = {"first order, 0.001": [[0.5 - loss]] * 2, "baseline": [[0.5], [0.50001]]}
        rows = [row._replace(dataset="dbpedia") for row in _rows(variants, "step-size")]
        assert _found(rows, "First order: 0.001 is not worse", "step-size")[0] == verdict


def _speeds(**speeds: float) -> list[Row]:
    """Return speed-ups that grow with |D|, one repetition one per cent above the other."""
    return [
        Row("speed-up", "cifar10", rep, "fast", variant.replace("_", " "), x, f"speed-up over {way}", value)
        for rep in range(2)
        for variant, speed in speeds.items()
        for x in (10.0, 1000.0)
        for value in [speed * x * (1 + rep / 100)]
        for way in ("recipe", "recipe in torch's parts", "fast")
    ]


def test_claims_about_speed() -> None:
    rows = _speeds(second_order=1.0, first_order=1.8, Monte_Carlo=0.12, exact=0.05)
    found = [(v.verdict, v.found) for v in judge({"speed-up": rows}) if v.verdict != "not tested"]
    least = "1.21x ± 0.006 over recipe"
    assert found[0] == (
        "holds",
        f"CIFAR-10 {least}, at the least; CIFAR-10 {least} in torch's parts, at the least",
    )
    assert [verdict for verdict, _ in found[:5]] == ["holds"] * 5
    assert found[-1] == ("holds", "CIFAR-10 50.2x ± 0.25 over fast")


def test_numbers_are_formatted_for_readers() -> None:
    assert times(Estimate(1881.7, 442.0, 2)) == "1,880x ± 440"
    assert times(Estimate(0.03307, 0.0, 1)) == "0.0331x"
    assert points(Estimate(0.0123, 0.004, 5)) == "+1.2 ± 0.4"
    assert points(Estimate(-0.0123, float("nan"), 1)) == "-1.2 (one repetition)"
    assert points(Estimate(0.0004, 0.0001, 5)) == "+0.04 ± 0.01"  # one digit would say nothing
    assert points(Estimate(-0.00001, 0.0, 5)) == "+0.00 ± 0.00"


def test_ratio_within_bounds() -> None:
    inside = within(850.0, 3400.0)
    assert inside(1700.0) == pytest.approx(np.log(2))
    assert inside(849.0) < 0 < inside(851.0)
    assert inside(3401.0) < 0 < inside(3399.0)


def test_shares_of_the_gain_of_retraining() -> None:
    gains = {"dtd": (0.05, 0.1), "clinc150": (0.01, 0.2)}
    rows = [
        row._replace(dataset=dataset)
        for dataset, (gain, whole) in gains.items()
        for row in _rows(
            {"baseline": [[0.5]] * 2, "first order": [[0.5 + gain]] * 2, "retraining": [[0.5 + whole]] * 2}
        )
    ]
    (found,) = (one for one in smaller_share("first order", "dtd")(rows) if one.estimate.n)
    assert found.dataset == "clinc150"
    assert found.estimate.mean == pytest.approx(0.5 - 0.05)


def test_look_ahead_is_compared_with_updates_of_another_figure() -> None:
    look = _rows({"look-ahead": [[0.5], [0.51]], "random": [[0.1]] * 2}, "look-ahead")
    batch = _rows({"margin with updates": [[0.6]] * 2, "random": [[0.1]] * 2})
    (text,) = (
        v.found
        for v in judge({"look-ahead": look, "batch-selection": batch})
        if v.claim.startswith("Ours: look-ahead")
    )
    assert text.startswith("CIFAR-10 (over margin with updates; not tested: margin, Badge, Typiclust, Badge")
    assert "-9.5" in text


def test_step_that_helps_by_chance_is_not_credited() -> None:
    rng = np.random.default_rng(0)
    steps = (0.001, 0.005, 0.01, 0.1, 1.0)
    noise = {f"monte carlo, {step:g}": 0.5 + 0.01 * rng.normal(size=(100, 1)) for step in steps}
    rows = _rows({"baseline": [[0.5]] * 100, **{k: v.tolist() for k, v in noise.items()}}, "step-size")
    found = _verdicts([row._replace(dataset="cifar10") for row in rows], "step-size")
    claim = next(c.text for c in CLAIMS if c.text.startswith("Monte Carlo: no step"))
    assert found[claim][0] == "undecided"


def test_winner_was_compared_with_all_rivals() -> None:
    claim = "The optimal look-ahead"
    good = {
        "optimal": [[0.5], [0.52], [0.51]],
        "random": [[0.3]] * 3,
        "margin": [[0.4]] * 3,
        "Badge": [[0.4]] * 3,
    }
    verdict, text = _found(_rows(good, "look-ahead"), claim, "look-ahead")
    assert (verdict, "over margin; not tested: Typiclust" in text) == ("undecided", True)
    verdict, text = _found(_rows({**good, "Typiclust": [[0.9]]}, "look-ahead"), claim, "look-ahead")
    assert (verdict, "over margin; one repetition: Typiclust" in text) == ("undecided", True)
    whole = _rows({**good, "Typiclust": [[0.41]] * 3}, "look-ahead")
    assert _found(whole, claim, "look-ahead")[0] == "holds"
    beaten = _rows({**good, "margin": [[0.6]] * 3}, "look-ahead")
    assert _found(beaten, claim, "look-ahead")[0] == "does not hold"  # whatever the others would say
