"""The steps of scripts/first_gpu.py, run on a CPU: limits, expectations, reports and failures."""

import ctypes
import json
import mmap
import os
import re
import subprocess
import sys
from unittest.mock import Mock, patch

import first_gpu
import pytest
import torch
from first_gpu import (
    STEPS,
    TINY,
    Step,
    begin_timed_training,
    map_random_pixels,
    measure_images_per_second,
    run_step_in_process,
    write_report,
)

from roarbench.cli.doctor import Diagnosis
from roarbench.common.enums import Unit
from roarbench.compute.streamed_degraded_images import StreamedImages
from roarbench.execution.rate_measurement import draw_random_degraded_images
from roarbench.execution.rates import GPU, assume_rates
from roarbench.plan.suites import find_builtin_suite
from tests.helpers.elsewhere import ROOT


def test_all_steps_take_forty_minutes_at_most():
    assert sum(step.limit for step in STEPS) <= 40 * 60
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_gpu_page_lists_steps():
    page = (ROOT / "docs/gpu.md").read_text()
    rows = [f"| {step.name} | {step.limit} s | {step.expected} |" for step in STEPS]
    assert "\n".join(rows) in page


def test_planned_time_of_commands_fits_step_limits(call, tmp_path):
    commands = [step for step in STEPS if isinstance(step.work, tuple) and step.work[:1] == ("run",)]
    assert [step.name for step in commands] == ["quick", "cifar10", "networks"]
    for step in commands:
        said = call("plan", *step.work[1:], "--store", tmp_path, "--workers", "1", "--format", "json")
        assert said.code == 0, said.err
        assert json.loads(said.out)["estimates"][-1]["seconds"] < 0.9 * step.limit, step.name


def test_measure_images_per_second_times_memory_and_file_inputs(tmp_path, monkeypatch):
    monkeypatch.setenv("ROARBENCH_STORE", str(tmp_path))
    size, forgotten = TINY._replace(images=64, steps=2), []
    with map_random_pixels(size.side, size.images) as (pixels, forget):
        streamed = StreamedImages(pixels, None, first_gpu.FILL, Unit.SCALAR, torch.device("cpu"))
        held = draw_random_degraded_images((3, size.side, size.side), size.images, torch.device("cpu"))
        for inputs in (streamed, held):
            begun = begin_timed_training(size, inputs)
            rate, steps = measure_images_per_second(begun, 60, lambda: forgotten.append(forget()))
            assert rate > 0 and steps == begun.step == begun.steps == 2
            begun = begin_timed_training(size._replace(steps=5), inputs)
            assert measure_images_per_second(begun, 0, lambda: None)[1] == 2, "out of time: the second half is one step"
    assert len(forgotten) == 4
    assert list(tmp_path.iterdir()) == []


def count_pages_in_memory(array):
    found = (ctypes.c_ubyte * -(-array.nbytes // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), found) == 0
    return sum(page & 1 for page in found)


def test_forget_drops_file_pages_from_memory(tmp_path, monkeypatch):
    """The step "not in memory" needs this: the system keeps mapped pages in memory."""
    monkeypatch.setenv("ROARBENCH_STORE", str(tmp_path))
    with map_random_pixels(32, 512) as (pixels, forget):
        read = pixels.sum()
        pages = count_pages_in_memory(pixels)
        forget()
        if (kept := count_pages_in_memory(pixels)) == pages and is_in_memory_file_system(tmp_path):
            pytest.skip("the temporary folder is in memory")
        assert pages == 512 * 3 * 32 * 32 // mmap.PAGESIZE and kept == 0
        assert pixels.sum() == read


def is_in_memory_file_system(folder):
    return subprocess.run(("stat", "-f", "-c", "%T", folder), capture_output=True, text=True).stdout.strip() == "tmpfs"


@pytest.mark.parametrize(("seconds", "said"), [(60, "10.0 of 10.0 epochs in"), (0, "1.0 of 10.0 epochs in")])
def test_whole_training_step_runs_epochs_that_fit_time_limit(seconds, said, monkeypatch):
    """A GPU trains a suite's network; here a small network takes ten steps of 64 images."""
    monkeypatch.setattr(first_gpu, "TINY", TINY._replace(images=64, recipe="quick@2(batch=64,epochs=10,warmup=1)"))
    monkeypatch.setattr(first_gpu, "WHOLE_SECONDS", seconds)
    found = first_gpu.time_whole_training()
    assert found.startswith(said) and "images/s, loss " in found
    assert ("a whole training run would take" in found) is (seconds == 0)


def test_whole_training_step_expects_planned_time_of_suite():
    suite = find_builtin_suite(first_gpu.WHOLE)
    (step,) = (step for step in STEPS if step.work is first_gpu.time_whole_training)
    whole = assume_rates(suite, GPU).train * suite.recipe_record.epochs * suite.dataset_record.train_images
    assert f"(plan: {whole:.0f} s)" in step.expected
    assert f"{first_gpu.WHOLE_SECONDS / whole:.0%}".replace("%", " %") in step.expected
    assert suite.network_source == "" and suite.dataset_record.channels == 3


def test_expected_rates_equal_rates_of_plans():
    expected = {step.name: step.expected for step in STEPS}
    assert expected["convolution"].startswith(f"{GPU.train / 1e12:.0f} TFLOP/s")


def test_machine_step_reports_every_fault_of_doctor(monkeypatch):
    """The last line of doctor's table does not decide about the other lines."""
    findings = [
        Diagnosis("device", "no GPU", False, "install another torch"),
        Diagnosis("store", "full", False, "free space"),
        Diagnosis("extra ray", "2.60.0", True, ""),
    ]
    monkeypatch.setattr(first_gpu, "examine_machine", lambda store: findings)
    assert first_gpu.describe_machine_faults() == "! device: no GPU (install another torch); ! store: full (free space)"
    findings[:2] = []
    assert first_gpu.describe_machine_faults() == STEPS[0].expected


def test_stopped_step_keeps_output_and_reports_plan(tmp_path, monkeypatch):
    """`run` prints its plan first, so the report can show the plan of a step that took too long."""
    told = b"quick: 9 of 9 runs to do\n  time about 58 s of wall time with 1 GPU and 4 workers\n  4 trainings\nrun 3\n"
    stopped = subprocess.TimeoutExpired("roarbench", 7, b"a table\n", told)
    monkeypatch.setattr(first_gpu.subprocess, "run", run := Mock(side_effect=stopped))
    found, _ = run_step_in_process(Step("quick", 7, ("run",), "", ""), tmp_path)
    assert found == "not done after 7 s; plan: time about 58 s of wall time with 1 GPU and 4 workers"
    assert (tmp_path / "quick.txt").read_bytes() == b"a table\n" + told
    environment = run.call_args.kwargs["env"]
    assert run.call_args.args[0][1:] == ["run"]
    assert (environment["ROARBENCH_STORE"], environment["ROARBENCH_DB"]) == (str(tmp_path), "")
    run_step_in_process(Step("pinned copy", 7, first_gpu.time_pinned_copy, "", ""), tmp_path)
    assert run.call_args.args[0][2:] == ["--step", "pinned copy", "--out", str(tmp_path)]


def test_single_step_uses_report_folder_as_store(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["first_gpu.py", "--step", "modes", "--out", str(tmp_path / "gpu")])
    monkeypatch.setattr(first_gpu, "STEPS", (Step("modes", 1, lambda: str(first_gpu.find_report_folder()), "", ""),))
    with patch.dict(os.environ):
        os.environ.pop("ROARBENCH_STORE", None)
        first_gpu.main()
    assert capsys.readouterr().out.strip() == str(tmp_path / "gpu")
    assert (tmp_path / "gpu").is_dir()


@pytest.mark.process
def test_first_gpu_docstring_names_existing_options():
    _, whole, one = re.findall("^    (.*?) +# ", first_gpu.__doc__, re.MULTILINE)
    assert "first-gpu:" in (ROOT / "Makefile").read_text()
    program = [sys.executable, whole.split()[1], "--help"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    usage = done.stdout.partition("\n\n")[0]  # the description below it repeats the docstring
    named = re.findall("--[a-z]+", f"{whole} {one}")
    assert done.returncode == 0 and sorted(named) == ["--out", "--step"]
    assert [option for option in named if option not in usage] == []


@pytest.mark.process
def test_report_shows_failed_and_hanging_steps_with_expectation(tmp_path):
    fails = Step("fails", 60, ("no-such-command",), "done", "write another")
    hangs = Step("hangs", 1, ("doctor",), "done", "wait longer")
    found = [(step, *run_step_in_process(step, tmp_path)) for step in (fails, hangs)]
    write_report(found, tmp_path / "report.md")
    failed, hung = (tmp_path / "report.md").read_text().splitlines()[-2:]
    assert failed.startswith("| fails | failed (2): ") and failed.split("|")[3:5] == [" done ", " write another "]
    assert hung.startswith("| hangs | not done after 1 s | done | wait longer |")
