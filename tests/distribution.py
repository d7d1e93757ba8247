"""Build the package, check it, and use it in clean environments. Run by `make dist`.

    python -m tests.distribution [--extras table ...] [--pythons python3.12 ...] [--lowest tests/core ...]

The wheel without extras must run the demo, the page, a simulation and the README's Python. With each extra
alone, the modules that need it must import; errors must name a missing extra. With the lowest version of each
dependency, the tests of the packages that need no extra must pass.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST_WHEEL, LARGEST_INSTALL = 1_000_000, 400 * 10**6  # bytes
OWN = ("test", "bench", "docs")  # extras for development
TOOLS = ("array-api-strict", "beartype", "httpx", "hypothesis", "pytest", "pytest-xdist", "torch")
LOWEST = ("tests/core", "tests/selection", "tests/labelling", "tests/web/test_server.py")
IMPORTS = {
    "fast": "numba, everylabel.selection.pool.loops",
    "plot": "matplotlib, everylabel.experiments.reporting.report",
    "torch": "everylabel.torch",
    "text": "sentence_transformers",
    "image": "transformers, torch",
    "table": "pandas, pyarrow",
    "onnx": "onnx, onnxruntime, safetensors, tokenizers",
    "timm": "timm",
    "heif": "pillow_heif",
    "postgresql": "psycopg",
    "export": "onnx, pyarrow, skops.io",
    "umap": "umap",
    "mlflow": "mlflow.pyfunc, everylabel.integrations.mlflow",
    "skactiveml": "everylabel.integrations.skactiveml",
    "river": "everylabel.integrations.river",
    "skorch": "everylabel.integrations.skorch",
    "laplace": "everylabel.integrations.laplace",
    "ray": "ray, pyarrow, fsspec",
}  # of each extra
MISSING = {
    "plot": "from everylabel.simulation.people import check_ending; check_ending(Path('a.png'))",
    "text": "el.embed(['a', 'b'], model='sentence-transformers/all-MiniLM-L6-v2')",
    "timm": "el.embed([np.zeros((8, 8, 3), np.uint8)] * 3, model='timm:resnet18')",
    "onnx": "el.embed([np.zeros((8, 8, 3), np.uint8)] * 3, model='some.onnx')",
    "torch": "import everylabel.torch",
    "skorch": "import everylabel.integrations.skorch",
    "laplace": "import everylabel.integrations.laplace",
    "ray": "from everylabel.scale.cluster import connect; connect('local')",
}  # what has to be refused without an extra, naming it


def run(*command: str | Path, **how: object) -> str:
    """Run a command and return what it prints; its whole output if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **how)  # type: ignore
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def say(text: str) -> None:
    print(text, flush=True)


class Environment:
    """A clean virtual environment."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        run(python, "-m", "venv", folder)
        self.folder, self.bin = folder, folder / "bin"

    def install(self, *what: str) -> None:
        run(self.bin / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *what)

    def python(self, code: str, **how: object) -> str:
        return run(self.bin / "python", "-c", code, **how)

    def size(self) -> int:
        files = (path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())
        return sum(path.stat().st_size for path in files)


def build(out: Path) -> Path:
    """Return the wheel, built and checked together with the sdist."""
    run(sys.executable, "-m", "build", "--outdir", out, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *out.iterdir())
    (wheel,) = out.glob("*.whl")
    size = wheel.stat().st_size
    say(f"{wheel.name}: {size / 1000:.0f} kB")
    if size > LARGEST_WHEEL:
        raise SystemExit(f"the wheel has {size:,} bytes; expected at most {LARGEST_WHEEL:,}")
    return wheel


def plain(wheel: Path, folder: Path, python: str) -> None:
    """Use the wheel alone as a new user would."""
    empty, made = folder / "bare", folder / "plain"
    before = Environment(empty, python).size()
    here = Environment(made, python)
    here.install(str(wheel))
    size = here.size() - before
    say(f"{python}: installed {size / 1e6:.0f} MB")
    if size > LARGEST_INSTALL:
        raise SystemExit(f"expected at most {LARGEST_INSTALL / 1e6:.0f} MB")
    work = folder / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1"}
    command = here.bin / "everylabel"
    for arguments in (["--version"], ["demo"], ["simulate", "digits", "--budget", "20"]):
        run(command, *arguments, cwd=work, env=environment)
        say(f"  everylabel {' '.join(arguments)}")
    served(command, work, environment)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    here.python("\n".join(code for code in blocks if "torch" not in code), cwd=work, env=environment)
    say("  the README's Python")
    for extra, code in MISSING.items():
        names = "import numpy as np, everylabel as el; from pathlib import Path"
        asked = f"{names}\ntry:\n    {code}\nexcept Exception as e:\n    print(e)"
        told = here.python(asked, cwd=work, env=environment)
        if f"everylabel[{extra}]" not in told:
            raise SystemExit(f"without the extra {extra}, {code} says {told!r}; expected how to install it")
    say("  what is missing names its extra")


def served(command: Path, work: Path, environment: dict[str, str]) -> None:
    """Serve digits, ask for the page, and stop."""
    asked = [str(command), "label", "digits", "--no-browser", "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(asked, cwd=work, env=environment, stdout=pipe, text=True) as server:
        assert server.stdout is not None
        address = next(line.split()[-1] for line in server.stdout if "ready" in line)
        code = f"import urllib.request as u; print(u.urlopen({address!r}).status)"
        if "200" not in run(sys.executable, "-c", code):
            raise SystemExit("the page did not come")
        server.send_signal(signal.SIGTERM)
        if server.wait(60):
            raise SystemExit(f"the server ended with {server.returncode}")
    say("  everylabel label digits")


def lowest(wheel: Path, folder: Path, tests: list[str]) -> None:
    """Run tests with the lowest supported version of each dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["fast"]]
    oldest = [re.sub(r">=", "==", need) for need in needs]
    here = Environment(folder / "lowest")
    here.install(str(wheel), *oldest, *TOOLS)
    say("with " + ", ".join(oldest))
    how = ["-q", "-p", "no:cacheprovider", "-W", "default", "--numprocesses=2"]
    told = run(here.bin / "python", "-m", "pytest", *how, *tests, cwd=ROOT)
    say(f"  {told.strip().splitlines()[-1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    usual = [extra for extra in known if extra not in OWN]
    parser.add_argument("--extras", nargs="*", default=usual)
    parser.add_argument("--pythons", nargs="*", default=[sys.executable])
    parser.add_argument("--lowest", nargs="*", default=LOWEST)
    given = parser.parse_args()
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    wheel = build(out)
    for python in given.pythons:
        with tempfile.TemporaryDirectory() as folder:
            plain(wheel, Path(folder), python)
    if given.lowest:
        with tempfile.TemporaryDirectory() as folder:
            lowest(wheel, Path(folder), list(given.lowest))
    for extra in given.extras:
        with tempfile.TemporaryDirectory() as folder:
            here = Environment(Path(folder) / "extra")
            here.install(f"{wheel}[{extra}]")
            here.python(f"import everylabel, {IMPORTS[extra]}")
            say(f"everylabel[{extra}] imports {IMPORTS[extra]}")


if __name__ == "__main__":
    main()
