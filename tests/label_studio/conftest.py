"""A stand-in of Label Studio with tasks, and stores of both kinds."""

from collections.abc import Iterator

import pytest

from tests.fixtures import postgres, where
from tests.label_studio.running import TEXTS
from tests.label_studio.stand_in import LabelStudio

__all__ = ["postgres", "where"]


@pytest.fixture
def studio() -> Iterator[LabelStudio]:
    made = LabelStudio(TEXTS)
    yield made
    made.close()
