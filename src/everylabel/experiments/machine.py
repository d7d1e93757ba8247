"""What a run was made on and by: cores, processor, versions and code, for whoever reads its figures."""

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import everylabel

MEASURING = ("core", "selection", "models", "experiments")
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


def describe() -> str:
    """Return the machine and the versions in one line."""
    versions = [f"{name} {number}" for name in PACKAGES if (number := _version(name))]
    machine = f"{os.cpu_count()} cores, {_processor()}, {platform.system()}"
    return f"{machine}; Python {platform.python_version()}, {', '.join(versions)}"


@cache
def code() -> str:
    """Return the version and a digest of all source that takes part in a measurement."""
    home = Path(everylabel.__file__).parent
    files = [file for folder in MEASURING for file in (home / folder).rglob("*.py")]
    digest = hashlib.sha256()
    for file in sorted(file for file in files if "reporting" not in file.parts):
        digest.update(file.relative_to(home).as_posix().encode() + b"\0" + file.read_bytes())
    return f"everylabel {version('everylabel')}, source {digest.hexdigest()[:12]}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
