"""Comparison of today's figures with the stored reproduction."""

from benchmarks.reproduction import compared


def test_differences_are_in_points_and_steps_of_an_update_count_together() -> None:
    cell = "step-size", "digits", 0, "fast"
    before = {(*cell, "second order, 1", 1.0): 0.5, (*cell, "second order, 10.0", 1.0): 0.6}
    now = {**before, (*cell, "second order, 10.0", 1.0): 0.62, (*cell, "exact", 1.0): 0.9}
    (row,) = compared(before, now)
    assert (row["variant"], row["values"], row["same"]) == ("second order", 2, 1)
    assert (row["mean difference"], row["largest difference"]) == (1.0, 2.0)
