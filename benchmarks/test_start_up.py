"""How long a person waits for commands that train nothing: `pytest benchmarks/test_start_up.py --benchmark-only`.

Wall time of whole processes, beside that of a Python that does nothing, which no command can be faster than. What they
should take: `--help` 0.4 s, `suites` and `estimators` 1 s, `table` on a store of 10,000 rows 1.5 s.
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
    """Return a store that holds the rows of `quick` and as many others as make 10,000."""
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
