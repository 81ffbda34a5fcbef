"""How fast it goes: measured by a worker with a clock that tests move on, or assumed in one line."""

from dataclasses import replace

import pytest
import torch

from roarbench.errors import MachineError, NoRoom, RunError
from roarbench.execution import local_workers
from roarbench.execution.local_workers import measured_rates
from roarbench.forecast import rates
from roarbench.forecast.rates import CORE, GPU, assume, measure
from roarbench.forecast.workload import Work
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_suite
from roarbench.workers.job import Job, JobOutcome

SUITE = find_suite("planted")


def test_rates_are_measured_per_image(monkeypatch):
    """A clock that each kernel moves on by its own seconds an image: the rates are those seconds."""
    now, steps = [0.0], []
    monkeypatch.setattr(rates.time, "process_time", lambda: now[0])

    def take(kernel, seconds, images):
        def kernel_that_takes(*arguments):
            now[0] += seconds * images(*arguments)
            return {}

        monkeypatch.setattr(rates, kernel, kernel_that_takes)

    def trained(model, inputs, labels, norm, short, seed):
        steps.append(short.epochs * len(inputs) / short.batch)
        return steps[-1] * short.batch

    take("fit", 2.0, trained)
    take("predict", 3.0, lambda model, inputs, norm, batch: len(inputs))
    take("importance_maps", 5.0, lambda some, model, batch, *rest: len(batch.ids))
    take("encode", 7.0, lambda keys, layout: len(keys))
    take("noise_draws", 13.0, lambda images, ids, *rest: len(ids))
    take("decode_image", 11.0, lambda photo, record: 1)
    found = measure(SUITE)
    assert steps == pytest.approx([8, 8])
    assert (found.train, found.predict, found.explain) == pytest.approx((2.0, 3.0, 5.0))
    assert (found.rank, found.decode, found.draw) == pytest.approx((7.0, 11.0, 13.0))
    assert found.measured


@pytest.mark.parametrize(
    ("left", "tried"),
    [
        ({"references": 0}, ["quick@1"]),
        ({"images_retrained": 0}, ["quick-reference@1"]),
        ({}, ["quick-reference@1", "quick@1"]),
        ({"references": 0, "images_retrained": 0}, []),
    ],
)
def test_a_step_of_each_training_that_there_is_to_do_is_tried_at_its_own_size(left, tried, monkeypatch):
    seen = []

    def fit(model, inputs, labels, norm, recipe, seed):
        seen.append(recipe.title)
        assert recipe.epochs * len(inputs) == len(labels) == recipe.batch == find_recipe(recipe.title).batch
        raise NoRoom("no room")

    monkeypatch.setattr(rates, "fit", fit)
    work = Work(*[1] * len(Work._fields))._replace(train=10_000, **left)
    found = rates._too_large(find_suite("quick@1"), work)
    assert seen == tried
    assert found == tuple((title, "no room") for title in tried)


def test_assumed_rates_are_operations_over_speed():
    found = assume(SUITE, CORE)  # 4,415,744 operations of one pass forward (tests/models/test_models.py)
    assert found.train == pytest.approx(220.787e-6, rel=1e-5)  # three times that at 60 GFLOP/s
    assert found.predict == pytest.approx(110.394e-6, rel=1e-5)  # once at 40
    assert found.explain == pytest.approx(220.787e-6, rel=1e-5)  # twice at 40
    assert not found.measured


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_rates_of_a_gpu():
    found = measure(find_suite("cifar10"))
    assert found.gpus >= 1
    assert 0 < found.train < 1e-3


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


def test_a_worker_measures_what_there_is_to_do_and_says_what_its_device_lacks():
    found = replace(assume(SUITE, GPU), basis="", lacks=("trains without compiling",))
    worker, lines = OneWorker(found, gpus=4, late=3), []
    assert measured_rates(worker, SUITE, "what there is to do", lines.append) == replace(found, gpus=4)
    assert lines == ["planted v1: trains without compiling"]
    assert [(job.call, job.arguments) for job in worker.jobs] == [(measure, (SUITE, "what there is to do"))]


@pytest.mark.parametrize(("gpus", "error"), [(0, RunError("KeyError: 'a'")), (2, MachineError("CUDA is busy"))])
def test_where_nothing_can_be_measured_rates_are_assumed_in_one_line(gpus, error):
    lines = []
    found = measured_rates(OneWorker(None, error, gpus), SUITE, None, lines.append)
    assert found == replace(assume(SUITE, GPU if gpus else CORE), gpus=gpus)
    assert not found.measured
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
    lines = []
    with local_workers.rates_here(lines.append) as ask:
        found = ask(SUITE, None)
    assert (found.gpus, found.measured) == (2, False)
    (line,) = lines
    assert "the GPU that this process was given is lost" in line
