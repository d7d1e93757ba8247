"""A Label Studio for all live tests, and the figures they report.

They run where `make test-label-studio` has installed Label Studio, and are skipped elsewhere.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.label_studio.figures import Figures, write_figures
from tests.live.label_studio.messages import Messages, banking
from tests.live.label_studio.studio import Studio
from tests.projects.postgres import free_port

WHERE = "EVERYLABEL_LABEL_STUDIO"  # the folder of Label Studio's virtual environment
RESULTS = "EVERYLABEL_RESULTS"  # where figures are written


@pytest.fixture(scope="session")
def environment() -> Path:
    if not os.environ.get(WHERE):
        pytest.skip(f"needs a real Label Studio: run make test-label-studio (it sets {WHERE})")
    return Path(os.environ[WHERE]).absolute()


@pytest.fixture(scope="session")
def studio(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    studio = Studio(environment, tmp_path_factory.mktemp("studio"), free_port()).start()
    yield studio
    studio.stop()


@pytest.fixture(scope="session")
def messages() -> Messages:
    return banking()


@pytest.fixture(scope="session")
def figures(studio: Studio) -> Iterator[Figures]:
    found: Figures = {}
    yield found
    if found and os.environ.get(RESULTS):
        write_figures(Path(os.environ[RESULTS]), studio.release, found)
