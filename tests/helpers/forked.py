"""Whole commands in processes that begin in no time: forked from one that has imported all that they need.

Their workers are forked, too, and how long all will take is assumed instead of measured. All else is what `roarbench`
does on a shell.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import chdir
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg  # noqa: F401
import pytest  # noqa: F401

from roarbench.cli import main
from roarbench.common import local_workers
from roarbench.execution import forecast, reproduction, run_suite
from roarbench.report import table as suite_table  # noqa: F401
from roarbench.store.results import ResultsStore
from tests.helpers.processes import PATIENCE, ROOT

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])


def start(words: tuple[object, ...], log: Path, before: Callable[[], object] | None = None) -> BaseProcess:
    """Start a command in a session of its own, which calls `before` first.

    What it prints, and `stored KEY` for every new row, is appended to its log, a file of this command alone.
    """
    with chdir(ROOT):  # the server would find no tests from another folder, and each command would import all anew
        forkserver.ensure_running()
    process = CONTEXT.Process(target=_run, args=(tuple(map(str, words)), log, before, dict(os.environ)))
    process.start()
    return process


def stored(log: Path) -> list[str]:
    """Return the keys of the rows that a command was told are stored."""
    return [line.split()[1] for line in log.read_text().splitlines() if line.startswith("stored ")]


def table(file: Path, *words: object) -> bytes:
    """Return the bytes of a table; they are written to a file first."""
    file.unlink(missing_ok=True)
    process = start(("table", "--format", "json", *words), file)
    process.join(PATIENCE)
    assert process.exitcode == 0, file.read_text()
    return file.read_bytes()


def _run(words: tuple[str, ...], log: Path, before: Callable[[], object] | None, environment: dict[str, str]) -> None:
    os.setsid()
    os.environ.update(environment)  # the process that it was forked from may be older
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1), os.dup2(file, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fork = multiprocessing.get_context("fork")
    local_workers.multiprocessing = SimpleNamespace(**vars(multiprocessing) | {"get_context": lambda method: fork})
    for module in (run_suite, reproduction):
        module.measure_or_assume_rates = lambda engine, suite, *_, **__: forecast.assume_rates(suite, forecast.CORE)
    add_results = ResultsStore.add_results

    def noted(store: ResultsStore, *arguments: Any, **options: Any) -> set[str]:
        fresh = add_results(store, *arguments, **options)
        for key in sorted(fresh):
            os.write(file, f"stored {key}\n".encode())
        return fresh

    ResultsStore.add_results = noted
    if before:
        before()
    sys.argv = ["roarbench", *words]
    main.main()
