"""Break every formula in turn and see a test fail: `make mutants`.

Each mutant replaces one line of the source in a temporary copy and runs the tests named; a mutant
that survives is a formula no test looks at.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rich.progress import track

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """One broken line."""

    file: str
    right: str
    wrong: str
    tests: str


CORE = [
    Mutant("core/woodbury.py", "eye(root.shape[-1], cov) + sign", "eye(root.shape[-1], cov) - sign", "core/test_updates.py"),
    Mutant("core/woodbury.py", "scale = 1.0 + sign * curvature", "scale = 1.0 + 2 * sign * curvature", "core/test_updates.py"),
    Mutant("core/woodbury.py", "+ curvature @ gram, residual", "+ gram, residual", "core/test_updates.py"),
    Mutant("core/likelihoods/shared.py", "top * (1.0 - top)", "top", "core/test_posteriors.py"),
    Mutant("core/likelihoods/shared.py", "probs[:, 0] * (1.0 - probs[:, 0])", "probs[:, 0]", "core/test_posteriors.py"),
    Mutant("core/likelihoods/shared.py", "residual / (1.0 + curvature[0] * seen.gram[0, 0])", "residual", "core/test_updates.py"),
    Mutant("core/likelihoods/per_class.py", "(probs * (1.0 - probs)).T", "(probs * probs).T", "core/test_posteriors.py"),
    Mutant("core/likelihoods/full.py", "float(c == e) - probs", "float(c == e) + probs", "core/test_posteriors.py"),
    Mutant("core/likelihoods/full.py", "diagonal(half) - probs", "diagonal(half) + probs", "core/test_updates.py"),
    Mutant("core/likelihoods/matrix_normal.py", "(1.0 - beta * eps) * precision", "precision", "core/test_posteriors.py"),
    Mutant("core/likelihoods/matrix_normal.py", "/ (1.0 - beta * eps)", "/ 1.0", "core/test_updates.py"),
    Mutant("core/likelihoods/matrix_normal.py", "inverse_of_precision(precision / d)", "inverse_of_precision(precision)", "core/test_posteriors.py"),
    Mutant("core/updates/second_order.py", "probs = kind.link(features @ mean)  #", "#", "core/test_updates.py"),
    Mutant("core/updates/second_order.py", "gram = gram - seen[:, None]", "gram = gram + seen[:, None]", "core/test_updates.py"),
    Mutant("core/updates/second_order.py", "f = f - gain * gram[:, row] * residual", "pass", "core/test_updates.py"),
    Mutant("core/updates/first_order.py", "mean - step_size * (", "mean + step_size * (", "core/test_updates.py"),
    Mutant("core/updates/monte_carlo.py", "log_weights + step_size * _log_likelihood(logits, labels[rows]", "log_weights + _log_likelihood(logits, labels[rows]", "core/test_monte_carlo.py"),
    Mutant("core/updates/monte_carlo.py", "(chosen - normaliser)", "chosen", "core/test_monte_carlo.py"),
    Mutant("core/change.py", "posterior.mean + back", "posterior.mean - back", "core/test_updates.py"),
    Mutant("core/predict.py", "1.0 + factor * _variance", "1.0 + _variance", "core/test_predict.py"),
    Mutant("core/training.py", "self.prior_precision * mean\n", "mean\n", "core/test_training.py"),
    Mutant("models/recipe.py", "scale * rectified", "scale", "models/test_recipe.py"),
]  # fmt: skip


def survives(mutant: Mutant) -> bool:
    """Return whether the tests pass although the line is broken."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, copy / part)
        shutil.copy(ROOT / "pyproject.toml", copy)
        path = copy / "src" / "everylabel" / mutant.file
        source = path.read_text()
        if mutant.right not in source:
            raise SystemExit(f"{mutant.file} has no {mutant.right!r} any more; bring the mutant up to date")
        path.write_text(source.replace(mutant.right, mutant.wrong, 1))
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", f"tests/{mutant.tests}"]
        done = subprocess.run(command, cwd=copy, env={"PYTHONPATH": str(copy / "src")}, capture_output=True)
        return done.returncode == 0


def main() -> None:
    """Try every mutant; exit with an error if one survives."""
    survivors = [mutant for mutant in track(CORE, "mutants") if survives(mutant)]
    for mutant in survivors:
        print(f"survived: {mutant.file}: {mutant.right!r} -> {mutant.wrong!r}")
    print(f"{len(CORE) - len(survivors)} of {len(CORE)} mutants were noticed")
    raise SystemExit(bool(survivors))


if __name__ == "__main__":
    main()
