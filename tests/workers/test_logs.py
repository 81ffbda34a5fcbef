"""Logs of workers: a file for each, of JSON lines that name the job they are about."""

import json
import logging
import os
import warnings
from operator import add, truediv

import pytest

from roarbench.workers.job import Job
from roarbench.workers.local import LocalEngine
from tests.helpers.engines import PATIENCE

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("forking"), pytest.mark.filterwarnings("default")]

ENDS = {"sum": "done", "quotient": "failed", "warning": "done", "library": "done", "process": "done"}


def test_each_line_of_a_workers_log_names_its_job_and_a_failure_has_its_traceback(tmp_path):
    with LocalEngine(1, logs=tmp_path) as engine:
        for name, call, arguments in (
            ("sum", add, (2, 3)),
            ("quotient", truediv, (1, 0)),
            ("warning", warnings.warn, ("mind this",)),
            ("library", logging.getLogger("library").info, ("nobody asked",)),
            ("process", os.getpid, ()),
        ):
            engine.submit(Job(name, call, arguments))
            (outcome,) = engine.wait(PATIENCE)
    (path,) = tmp_path.iterdir()
    assert path.name.endswith(f"-{outcome.value}.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    said = [(line["job"], line["message"]) for line in found if "mind this" not in line["message"]]
    assert said == [(name, word) for name, end in ENDS.items() for word in ("begun", end)]
    assert "ZeroDivisionError: division by zero" in next(line["traceback"] for line in found if "traceback" in line)
    (warned,) = (line for line in found if "mind this" in line["message"])
    assert (warned["job"], warned["level"]) == ("warning", "warning")
