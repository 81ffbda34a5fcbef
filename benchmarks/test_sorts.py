"""Time a process that sorts the features of 64 images of 64 x 64 pixels 100 times: `pytest benchmarks/test_sorts.py`.

NumPy chooses the kernel of the sort, or `process_settings.avoid_avx512_sorts_in_children` forbids AVX-512, as for
workers. On processors other than Zen 4, both times are equal.
"""

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from roarbench.common.process_settings import avoid_avx512_sorts_in_children

PROGRAM = """
import numpy as np
keys = np.random.default_rng(0).integers(-(2**31), 2**31, (64, 3 * 64 * 64), dtype=np.int32)
for _ in range(100):
    np.sort(keys, axis=1)
"""


def sort_in_process(start: Callable[[], AbstractContextManager[None]]) -> int:
    with start():
        return subprocess.run([sys.executable, "-c", PROGRAM], check=True).returncode


@pytest.mark.parametrize(
    "start", [nullcontext, avoid_avx512_sorts_in_children], ids=["as NumPy chooses", "as workers start"]
)
def test_sort_time_in_new_process(start: Callable[[], AbstractContextManager[None]], benchmark: Any) -> None:
    assert benchmark.pedantic(sort_in_process, args=(start,), rounds=3) == 0
