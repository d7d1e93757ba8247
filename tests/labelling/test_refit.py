"""Training in the background leaves nothing behind that it does not need."""

import platform
import re
from pathlib import Path

import numpy as np
import pytest

from everylabel.labelling.refit import give_back


def held() -> int:
    """Return the megabytes that this process holds."""
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1)) // 1024


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give back by themselves")
def test_memory_that_was_let_go_of_goes_back_to_the_system() -> None:
    before = held()
    arrays = [np.ones(8000) for _ in range(1600)]  # 100 MB, each too small to be asked of the system alone
    last = np.ones(8000)  # behind them: glibc gives back from the end only
    del arrays
    give_back()
    assert held() < before + 50
    assert last.sum() == 8000
