"""Rates come from a worker, or are assumed in one line; the process that plans opens no GPU."""

from dataclasses import replace

import pytest
import torch

from roarbench.errors import MachineError, RunError
from roarbench.execution import local_workers
from roarbench.execution.local_workers import measured_rates
from roarbench.forecast.rates import CORE, GPU, assume, measure
from roarbench.plan.suites import find_suite
from roarbench.workers.job import Job, JobOutcome

SUITE = find_suite("planted")


class OneWorker:
    """Ends each job with this value or error; it is there after so many looks."""

    def __init__(self, value, error=None, gpus=0, late=0):
        self.jobs: list[Job] = []
        self.gpus, self._outcome, self._late = gpus, JobOutcome("rates", value, error), late

    @property
    def idle(self):
        return int(not self._late)

    def submit(self, job):
        assert self.idle
        self.jobs.append(job)

    def wait(self, timeout):
        self._late = max(0, self._late - 1)
        return [self._outcome] if self.jobs else []


def lines_of(worker, work=None):
    lines: list[str] = []
    return measured_rates(worker, SUITE, work, lines.append), lines


def test_a_worker_measures_what_there_is_to_do_and_says_what_its_device_lacks():
    found = replace(assume(SUITE, GPU), basis="", lacks=("trains without compiling",))
    worker = OneWorker(found, gpus=4, late=3)
    rates, lines = lines_of(worker, "what there is to do")
    assert (rates, lines) == (replace(found, gpus=4), ["planted v1: trains without compiling"])
    assert [(job.call, job.arguments) for job in worker.jobs] == [(measure, (SUITE, "what there is to do"))]


@pytest.mark.parametrize(("gpus", "error"), [(0, RunError("KeyError: 'a'")), (2, MachineError("CUDA is busy"))])
def test_where_nothing_can_be_measured_rates_are_assumed_in_one_line(gpus, error):
    rates, lines = lines_of(OneWorker(None, error, gpus))
    assert rates == replace(assume(SUITE, GPU if gpus else CORE), gpus=gpus)
    assert not rates.measured
    assert lines == [f"planted v1: nothing was measured ({error}); the times below are assumed"]


@pytest.mark.process
def test_the_process_that_plans_opens_no_gpu(monkeypatch):
    """On a machine that says it has two GPUs, and whose workers find none: the plan is made all the same."""

    def opened():
        raise AssertionError("the process that plans asked for CUDA")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "_lazy_init", opened)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    lines: list[str] = []
    with local_workers.rates_here(lines.append) as ask:
        rates = ask(SUITE, None)
    assert (rates.gpus, rates.measured) == (2, False)
    assert len(lines) == 1
    assert "the GPU that this process was given is lost" in lines[0]
