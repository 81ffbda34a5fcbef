"""Logs of workers: a file for each, of JSON lines that name the job they are about."""

import json
import logging
import os
import warnings
from operator import add, truediv
from pathlib import Path

import pytest

from roarbench.workers.job import Job
from roarbench.workers.local import LocalEngine

pytestmark = pytest.mark.process

ENDS = {"sum": "done", "quotient": "failed", "warning": "done", "library": "done", "process": "done"}
PATIENCE = 180.0  # seconds that a slow machine may take before a test gives up


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def test_each_line_of_a_workers_log_names_its_job_and_a_failure_has_its_traceback(folder):
    with LocalEngine(1, logs=folder) as engine:
        for name, call, arguments in (
            ("sum", add, (2, 3)),
            ("quotient", truediv, (1, 0)),
            ("warning", warnings.warn, ("mind this",)),
            ("library", logging.getLogger("library").info, ("nobody asked",)),
            ("process", os.getpid, ()),
        ):
            engine.submit(Job(name, call, arguments))
            (outcome,) = engine.wait(PATIENCE)
    (path,) = folder.iterdir()
    assert path.name.endswith(f"-{outcome.value}.jsonl")
    found = lines(path)
    said = [(line["job"], line["message"]) for line in found if "mind this" not in line["message"]]
    assert said == [(name, word) for name, end in ENDS.items() for word in ("begun", end)]
    assert "ZeroDivisionError: division by zero" in next(line["traceback"] for line in found if "traceback" in line)
    (warned,) = (line for line in found if "mind this" in line["message"])
    assert (warned["job"], warned["level"]) == ("warning", "warning")
