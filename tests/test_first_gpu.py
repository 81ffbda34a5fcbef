"""The first run on a GPU, on a processor: its steps work, and one that fails is told and costs no other."""

import json
from pathlib import Path

import first_gpu
import pytest
import torch
from first_gpu import STEPS, TINY, Step, images_a_second, mapped_pixels, training, try_step, write_report

from roarbench.compute.streamed_images import StreamedImages
from roarbench.enums import Unit
from roarbench.execution.rate_measurement import draw_random_degraded_images
from roarbench.execution.rates import GPU, assume_rates
from roarbench.plan.suites import find_suite


def test_all_steps_take_forty_minutes_at_most():
    assert sum(step.limit for step in STEPS) <= 40 * 60
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_the_page_lists_the_steps():
    page = (Path(__file__).parents[1] / "docs/gpu.md").read_text()
    rows = [f"| {step.name} | {step.limit} s | {step.expected} |" for step in STEPS]
    assert "\n".join(rows) in page


def test_commands_fit_their_steps_by_the_rates_of_their_plan(call, tmp_path):
    commands = [step for step in STEPS if isinstance(step.work, tuple) and step.work[:1] == ("run",)]
    assert [step.name for step in commands] == ["quick", "cifar10", "networks"]
    for step in commands:
        said = call("plan", *step.work[1:], "--store", tmp_path, "--workers", "1", "--format", "json")
        assert said.code == 0, said.err
        assert json.loads(said.out)["estimates"][-1]["seconds"] < 0.9 * step.limit, step.name


def test_steps_are_timed_from_memory_and_from_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ROARBENCH_STORE", str(tmp_path))
    size, forgotten = TINY._replace(images=64, steps=2), []
    with mapped_pixels(size.side, size.images) as (pixels, forget):
        streamed = StreamedImages(pixels, None, first_gpu.FILL, Unit.SCALAR, torch.device("cpu"))
        held = draw_random_degraded_images((3, size.side, size.side), size.images, torch.device("cpu"))
        for inputs in (streamed, held):
            begun = training(size, inputs)
            rate, steps = images_a_second(begun, 60, lambda: forgotten.append(forget()))
            assert rate > 0 and steps == begun.step == begun.steps == 2
            begun = training(size._replace(steps=5), inputs)
            assert images_a_second(begun, 0, lambda: None)[1] == 2, "out of time: the second half is one step"
    assert len(forgotten) == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("seconds", "said"), [(60, "10.0 of 10.0 epochs in"), (0, "1.0 of 10.0 epochs in")])
def test_a_whole_training_is_done_or_as_many_epochs_as_fit(seconds, said, monkeypatch):
    """Of a suite's network and recipe on a GPU; here of a small one, ten steps of 64 images."""
    monkeypatch.setattr(first_gpu, "TINY", TINY._replace(images=64, recipe="quick@2(batch=64,epochs=10,warmup=1)"))
    monkeypatch.setattr(first_gpu, "WHOLE_SECONDS", seconds)
    found = first_gpu.train_whole()
    assert found.startswith(said) and "images/s, loss " in found
    assert ("a whole training would take" in found) is (seconds == 0)


def test_the_whole_training_is_that_of_the_suite_and_its_time_is_the_plans():
    suite = find_suite(first_gpu.WHOLE)
    (step,) = (step for step in STEPS if step.work is first_gpu.train_whole)
    whole = assume_rates(suite, GPU).train * suite.recipe_record.epochs * suite.dataset_record.train_images
    assert f"{whole:.0f} s by the rates of its plan" in step.expected
    assert f"{first_gpu.WHOLE_SECONDS / whole:.0%}".replace("%", " %") in step.expected
    assert suite.network_source == "" and suite.dataset_record.channels == 3


def test_ways_of_training_are_compared_on_the_networks_of_suites(monkeypatch, tmp_path):
    monkeypatch.setenv("ROARBENCH_STORE", str(tmp_path))
    assert first_gpu.compare_modes().count("networks are compiled on GPUs only") == len(first_gpu.COMPARED)


@pytest.mark.process
def test_a_step_that_fails_or_hangs_is_told_with_what_was_expected(tmp_path):
    fails = Step("fails", 60, ("no-such-command",), "done", "write another")
    hangs = Step("hangs", 1, ("doctor",), "done", "wait longer")
    found = [(step, *try_step(step, tmp_path)) for step in (fails, hangs)]
    write_report(found, tmp_path / "report.md")
    failed, hung = (tmp_path / "report.md").read_text().splitlines()[-2:]
    assert failed.startswith("| fails | failed (2): ") and failed.split("|")[3:5] == [" done ", " write another "]
    assert hung.startswith("| hangs | not done after 1 s | done | wait longer |")
