"""Commands, Python programs and jobs in other processes, and what they leave behind."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from operator import add, truediv
from pathlib import Path
from typing import Any

from roarbench.common.errors import CallerError, RunError
from roarbench.common.job_interface import Engine, Job, JobOutcome
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import RunResult

ROOT = Path(__file__).parents[2]


def run_python(program: str, *words: object, folder: Path | None = None, **variables: str) -> str:
    """Run a program in a folder, with this process's modules but torch, which `datasets` would import for long.

    Returns the output; fails if the program does.
    """
    environment = (
        os.environ | {"USE_TORCH": "0", "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"} | variables
    )
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


_CALLS = """
import json, os, sys
from contextlib import redirect_stdout
from io import StringIO
from roarbench.cli.main import main
heavy = {"torch", "torchvision", "captum", "datasets", "scipy", "sqlalchemy", "matplotlib", "numpy", "pyarrow"}
ended = []
for words, variables in json.loads(sys.argv[1]):
    sys.argv, code = ["roarbench", *words], 0
    os.environ |= variables
    with redirect_stdout(StringIO()) as said:
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    ended.append((code, said.getvalue(), sorted(heavy & set(sys.modules))))
print(json.dumps(ended))
"""


def call_in_new_process(asked: Sequence[tuple[Sequence[object], dict[str, str]]], folder: Path | None = None) -> Any:
    """Exit code, output, and what heavy is imported by then, of commands in one process with words and variables."""
    variables = {"PYTHONPATH": str(folder)} if folder else {}
    return json.loads(run_python(_CALLS, json.dumps(asked, default=str), folder=folder, **variables))


PROGRAM = str(Path(sys.executable).with_name("roarbench"))
PATIENCE = 300.0  # seconds that a slow machine may take before a test gives up; none is spent on a quick one
LARGER = ("--suite", "planted", "--max-images", "40")  # takes long enough to be ended on the way
PART = (*LARGER, "--estimators", "truth", "--seeds", "1", "--workers", "1")


def rows(store: Path) -> int:
    """Count the finished runs of a folder, without disturbing who writes them."""
    try:
        with closing(sqlite3.connect(f"file:{store}/results.sqlite?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.OperationalError:  # no store yet
        return 0


def read_results(url: str) -> dict[str, RunResult]:
    from tests.helpers.store_rows import list_result_keys  # imports numpy and SQLAlchemy, which commands may not

    with ResultsStore.open(url, read_only=True) as store:
        return store.read_results(list_result_keys(store))


def read_outcomes(url: str) -> dict[str, tuple[bytes, str]]:
    """Return the answers of every finished run, and the checksum of the rankings that it removed by."""
    return {key: (row.bits, row.rankings) for key, row in read_results(url).items()}


def wait_until(condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Wait until something is so; False if it never is."""
    deadline = time.monotonic() + patience
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(found)


def list_living_processes(session: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(its_session) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return sorted(found)


def collect(engine: Engine, count: int) -> dict[str, JobOutcome]:
    """Wait for so many outcomes; by the names of their jobs."""
    outcomes: dict[str, JobOutcome] = {}
    deadline = time.monotonic() + PATIENCE
    while len(outcomes) < count and time.monotonic() < deadline:
        outcomes |= {outcome.name: outcome for outcome in engine.wait(1.0)}
    return outcomes


def do(engine: Engine, call: Callable[..., object], *arguments: object) -> JobOutcome:
    engine.start_job(Job("job", call, arguments))
    return collect(engine, 1)["job"]


def check_outcomes(engine: Engine) -> int:
    """Jobs bring values, or errors of one line, and the engine's one worker outlives them; its process number."""
    pid = int(do(engine, os.getpid).value)
    assert do(engine, add, 2, 3)[:3] == ("job", 5, None)
    seen = do(engine, find_builtin_suite, "quikc").error
    assert (type(seen), str(seen)) == (CallerError, "no suite 'quikc'; did you mean 'quick'?")
    seen = do(engine, truediv, 1, 0).error
    assert (type(seen), str(seen)) == (RunError, "ZeroDivisionError: division by zero")
    assert do(engine, os.getpid).value == pid != os.getpid()
    return pid
