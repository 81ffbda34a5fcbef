"""Measure the wall time of commands that train nothing: `pytest benchmarks/test_start_up.py --benchmark-only`.

For comparison, the time of a Python process that does nothing is measured, which is the minimum of every command. The
goals are 0.4 s for `--help`, 1 s for `suites` and `estimators`, and 1.5 s for `table` on a store of 10,000 rows.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.commands import PROGRAM
from tests.helpers.store_rows import make_result, make_run

ROWS = 10_000
SHIPPED = Path(__file__).parents[1] / "results" / "quick" / "7" / "roarbench.parquet"


def run_command(*words: str) -> str:
    return subprocess.run([PROGRAM, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with 10,000 rows, among them the published rows of `quick`."""
    folder = tmp_path_factory.mktemp("rows")
    run_command("import", str(SHIPPED), "--store", str(folder))
    with ResultsStore.open(make_default_url(folder)) as results:
        results.add_results(
            make_result(make_run(seed), 4000) for seed in range(ROWS - len(results.list_result_keys("")))
        )
        assert len(results.list_result_keys("")) == ROWS
    return folder


def test_python_start_time(benchmark: Any) -> None:
    words = [sys.executable, "-c", "print()"]
    assert benchmark.pedantic(lambda: subprocess.run(words, check=True, capture_output=True).stdout, rounds=5) == b"\n"


@pytest.mark.parametrize(("word", "shown"), (("--help", "leaderboard"), ("suites", "quick"), ("estimators", "grad")))
def test_command_start_time(benchmark: Any, word: str, shown: str) -> None:
    assert shown in benchmark.pedantic(run_command, (word,), rounds=5, warmup_rounds=1)


def test_table_time_with_10000_rows(benchmark: Any, store: Path) -> None:
    words = ("table", "--suite", "quick", "--protocol", "roar", "--store", str(store))
    assert "var-grad" in benchmark.pedantic(run_command, words, rounds=5, warmup_rounds=1)
