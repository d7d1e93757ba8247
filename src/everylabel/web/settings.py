"""Settings of a project, and the port: what they may be, by whichever door they come."""

from collections.abc import Callable
from typing import Any

import numpy as np

from everylabel.core.errors import EverylabelError
from everylabel.labelling.views import STRATEGIES

MOST_CHECKS = 1000  # labels between two random checks, as the page has it
LONGEST_PERSON = 64  # characters, as the page has it
PORTS = 65535


def check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings that are given; refuse what the log must not hold."""
    given = {name: value for name, value in settings.items() if value is not None}
    return {name: _CHECKS[name](value) for name, value in given.items()}


def check_port(port: Any) -> int:
    """Return a port's number; 0 takes any that is free."""
    return _whole("--port", 0, PORTS)(port)


def _strategy(value: Any) -> str:
    if not isinstance(value, str) or value not in STRATEGIES:
        raise EverylabelError(f"--strategy is {value!r:.80}; expected one of {', '.join(STRATEGIES)}")
    return value


def _whole(name: str, least: int, most: int | None = None) -> Callable[[Any], int]:
    expected = f"a whole number of at least {least}" if most is None else f"a whole number, {least} to {most}"

    def check(value: Any) -> int:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            raise EverylabelError(f"{name} is {value!r:.80}; expected {expected}")
        return int(value)

    return check


def _switch(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise EverylabelError(f"--names-prior is {value!r:.80}; expected on (True) or off (False)")
    return bool(value)


def _person(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_PERSON or not value.isprintable():
        raise EverylabelError(
            f"--tester is {value!r:.80}; expected a person's name of at most {LONGEST_PERSON} printable "
            "characters, or '' for everybody"
        )
    return value


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "strategy": _strategy,
    "check_every": _whole("--check-every", 0, MOST_CHECKS),
    "annotators_per_item": _whole("--annotators-per-item", 1),
    "lease_seconds": _whole("--lease-seconds", 1),
    "names": _switch,
    "tester": _person,
}
