"""What a run was made on: cores, processor and versions, for whoever reads its figures."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


def describe() -> str:
    """Return the machine and the versions in one line."""
    versions = [f"{name} {number}" for name in PACKAGES if (number := _version(name))]
    machine = f"{os.cpu_count()} cores, {_processor()}, {platform.system()}"
    return f"{machine}; Python {platform.python_version()}, {', '.join(versions)}"


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
