"""How a pool learns: what may be asked of it."""

from everylabel.core.checks import check_choice, check_positive
from everylabel.core.errors import EverylabelError
from everylabel.core.posterior import Posterior
from everylabel.core.updates import METHODS


def check_how(method: str | None, step_size: float | str | None) -> tuple[str | None, float | str | None]:
    """Return a method and a step size that go together."""
    if method is not None:
        check_choice(method, "method", [*METHODS, "exact"])
    if method == "exact" and step_size is not None:
        raise EverylabelError(f"step_size is {step_size!r}; method='exact' has none: leave it out")
    if step_size is None or step_size == "auto":
        return method, step_size
    return method, check_positive(step_size, "step_size", zero=True)


def check_closed_form(wanted: bool, posterior: Posterior, method: str | None) -> None:
    """Refuse to take labels back in closed form where there is none."""
    if wanted and (posterior.likelihood != "gaussian" or method not in (None, "second_order")):
        raise EverylabelError(
            f"closed_form is True, the likelihood {posterior.likelihood!r} and method {method!r}; "
            "expected likelihood='gaussian' and method='second_order', or closed_form=False"
        )
