"""What was let go of goes back to the system."""

import platform
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from everylabel.labelling.giving_back import give_back, give_end_back

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries give back by themselves"
)


def held() -> int:
    """Return the megabytes that this process holds."""
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1)) // 1024


def test_memory_that_was_let_go_of_goes_back_to_the_system() -> None:
    before = held()
    arrays = [np.ones(8000) for _ in range(1600)]  # 100 MB, each too small to be asked of the system alone
    last = np.ones(8000)  # behind them: glibc gives back from the end only
    del arrays
    give_back()
    assert held() < before + 50
    assert last.sum() == 8000


@pytest.mark.parametrize("give", [give_back, give_end_back])
def test_the_end_of_a_thread_goes_back_too(give: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as thread:  # which has a stretch of memory of its own
        thread.submit(lambda: np.ones(3 * 2**20).sum()).result()  # 24 MB: such are kept from now on
        before = held()
        thread.submit(lambda: [np.ones(8000) for _ in range(800)] and None).result()  # 50 MB
        full = held()
        assert full > before + 10
        thread.submit(give).result()
        assert held() < full - 15  # against what there was last: threads of other tests take some, too
