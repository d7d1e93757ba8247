"""A session in a real Jupyter kernel: the page is shown once, inside a frame; nothing is left behind."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CELLS = [
    "import everylabel as el\n"
    "texts = ['my card', 'my money', 'his card', 'his money', 'a card', 'a transfer']\n"
    "session = el.label(texts, ['card', 'money'], model='tfidf')",
    "session",
    "el.label(texts, ['card', 'money'], model='tfidf')  # shown by itself and as the cell's value",
    "from tests.notebook.people import answer\n"
    "answer(session, 4, lambda item: int('card' not in item['text']))\n"
    "print(len(session.records), session.predict(['her card']))",
    "print(session.folder)",
]


def executed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    client: Any = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs ipykernel")
    Config: Any = pytest.importorskip("traitlets.config", reason="needs traitlets").Config
    nb: Any = pytest.importorskip("nbformat.v4", reason="needs nbformat")
    kernels = folder / "kernels" / "ours"
    kernels.mkdir(parents=True)
    command = f'{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"],'
    (kernels / "kernel.json").write_text(command + ' "display_name": "ours", "language": "python"}')
    (folder / "kernel").mkdir()
    monkeypatch.setenv("JUPYTER_PATH", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder / "kernel"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    notebook = nb.new_notebook(cells=[nb.new_code_cell(text) for text in CELLS])
    patient = {"KernelManager": {"shutdown_wait_time": 120.0}}  # it kills what takes half as long to end
    client.NotebookClient(notebook, timeout=600, kernel_name="ours", config=Config(patient)).execute()
    return notebook


@pytest.fixture(autouse=True)
def own_interrupt() -> Iterator[None]:
    """Restore the interrupt handler, which nbclient changes if interrupts are ignored."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own parts
def test_notebook_shows_the_page_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, shown, both, answered, _ = executed(tmp_path, monkeypatch).cells
    assert "labels are in a temporary folder" in begun.outputs[0].text
    frames = [[_html(each).count("<iframe") for each in cell.outputs] for cell in (begun, shown, both)]
    assert frames == [[0, 1], [1], [0, 1, 0]]
    assert 'src="http://127.0.0.1:' in _html(begun.outputs[1])
    assert "http://127.0.0.1:" in _html(both.outputs[2])
    assert begun.outputs[1].data["text/plain"].startswith("Session(0 of 6 labelled")
    assert answered.outputs[0].text == "4 ['card']\n"
    left = [path.name for path in (tmp_path / "kernel").iterdir() if path.name.startswith("everylabel-")]
    assert left == []  # the kernel was shut down with two sessions running


def _html(output: Any) -> str:
    return str(output.get("data", {}).get("text/html", ""))
