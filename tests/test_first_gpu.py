"""The steps of scripts/first_gpu.py: limits, expectations, reports and failures."""

import ctypes
import json
import mmap
import re
import subprocess
from unittest.mock import Mock

import first_gpu
import pytest
import torch
from first_gpu import STEPS, Step, map_random_pixels, measure_step_seconds, run_step, write_report

from roarbench.execution.forecast import GPU
from roarbench.execution.rate_measurement import draw_random_degraded_images
from roarbench.plan.recipes import find_recipe
from tests.helpers.processes import ROOT

EXPECTED = {step.name: step.expected for step in STEPS}


def test_gpu_page_lists_steps():
    page = (ROOT / "docs/gpu.md").read_text()
    assert "\n".join(f"| {step.name} | {step.limit} s | {step.expected} |" for step in STEPS) in page
    assert sum(step.limit for step in STEPS) <= 40 * 60


def test_planned_time_of_commands_fits_step_limits(call, tmp_path):
    commands = [step for step in STEPS if isinstance(step.command, tuple) and step.command[0] == "run"]
    assert len(commands) == 3
    for step in commands:
        said = call("plan", *step.command[1:], "--store", tmp_path, "--workers", "1", "--format", "json")
        assert said.code == 0, said.err
        assert json.loads(said.out)["estimates"][-1]["seconds"] < 0.9 * step.limit, step.name


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("convolution", r"[\d.e-]+ TFLOP/s"),
        ("pinned copy", r"[\d.]+ GB/s"),
        ("random reads", r"[\d,]+ images/s"),
        ("training", r"[\d,]+ images/s in memory \(2 of 2 steps\), [\d,]+ images/s not in memory \(2 of 2 steps\)"),
    ],
)
def test_measurement_of_small_version_returns_its_rate(name, unit, tmp_path):
    (step,) = (step for step in STEPS if step.name == name)
    assert re.fullmatch(unit, step.command(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_modes_are_printed_as_they_are_measured(tmp_path, monkeypatch, capsys):
    """A mode that fails, here for lack of memory, leaves the others; each line is flushed before the next mode."""
    real = first_gpu.begin_training

    def begin_training(network, classes, inputs, recipe):
        if recipe.micro_batch == 512:
            raise first_gpu.NoRoom("a step takes more than 80 GB of GPU memory")
        return real(network, classes, inputs, recipe)

    monkeypatch.setattr(first_gpu, "begin_training", begin_training)
    monkeypatch.setattr(first_gpu, "measure_step_seconds", lambda *_: 0.5)
    last, (loading, *lines) = first_gpu.time_modes(tmp_path), capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"loading a pass [\d.]+ ms", loading)
    plain, memory, *others = lines
    assert re.fullmatch(r"uncompiled 1,024 images/s \(1.00 x uncompiled, first step \d+ s\)", plain)
    assert memory == "512 images a pass fails (a step takes more than 80 GB of GPU memory)"
    # by hand: 512 or 256 images in half a second; without a GPU nothing is compiled or replayed
    rates = ("512 images/s (0.50 x", "1,024 images/s (1.00 x", "512 images/s (0.50 x", "1,024 images/s (1.00 x")
    names = (name for name, _ in first_gpu.MODES[2:])
    assert all(map(str.startswith, others, map(" ".join, zip(names, rates, strict=True)))), others
    assert last == "fastest: uncompiled"


def test_only_runs_named_steps_in_their_order(tmp_path, monkeypatch, capsys):
    done = []
    monkeypatch.setattr(first_gpu, "GPU", True)
    monkeypatch.setattr(first_gpu, "run_step", lambda step, out: (done.append(step.name) or "done", 1.0))
    monkeypatch.setattr("sys.argv", ["first_gpu.py", "--only", "modes,quick", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="False"):
        first_gpu.main()
    assert done == ["modes", "quick"]
    monkeypatch.setattr("sys.argv", ["first_gpu.py", "--only", "speed", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        first_gpu.main()
    assert "--only names no step 'speed'; expected some of doctor, convolution" in capsys.readouterr().err


@pytest.mark.parametrize(("seconds", "steps"), [(60, 10), (0, 4)])
def test_training_is_timed_in_its_second_half_until_the_time_limit(seconds, steps, monkeypatch):
    clock = iter([0, 100, 100, 200] + [1000 * n + part for n in range(3) for part in (0, 8 + n)])
    monkeypatch.setattr(first_gpu, "choose_processor_or_gpu_clock", lambda device: clock.__next__)
    inputs = draw_random_degraded_images((3, 32, 32), 8, torch.device("cpu"))
    training = first_gpu.begin_training("resnet-quick", 10, inputs, find_recipe("quick@2(batch=8,epochs=10,warmup=1)"))
    assert measure_step_seconds(training, seconds, steps_per_measurement=2) == (4.5 if steps == 10 else 50)
    assert training.step == steps


def count_pages_in_memory(array):
    found = (ctypes.c_ubyte * -(-array.nbytes // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), found) == 0
    return sum(page & 1 for page in found)


def test_forget_drops_file_pages_from_memory(tmp_path):
    """The steps with a file that is not in memory need this: the system keeps mapped pages in memory."""
    if subprocess.run(("stat", "-f", "-c", "%T", tmp_path), capture_output=True, text=True).stdout.strip() == "tmpfs":
        pytest.skip("the temporary folder is in memory")
    with map_random_pixels(tmp_path, 32, 512) as (pixels, forget):
        read = pixels.sum()
        assert count_pages_in_memory(pixels) == 512 * 3 * 32 * 32 // mmap.PAGESIZE
        forget()
        assert count_pages_in_memory(pixels) == 0
        assert pixels.sum() == read


def test_expected_rate_equals_rate_of_plans():
    assert EXPECTED["convolution"].startswith(f"{GPU.train / 1e12:.0f} TFLOP/s")


def test_stopped_step_keeps_output_and_reports_plan(tmp_path, monkeypatch):
    """`run` prints its plan first, so the report can show the plan of a step that took too long."""
    told = b"quick: 9 of 9 runs to do\n  time about 58 s of wall time with 1 GPU and 4 workers\n  4 trainings\nrun 3\n"

    def print_and_exceed_time(words, stdout, timeout, **options):
        stdout.write(told)
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(first_gpu.subprocess, "run", run := Mock(side_effect=print_and_exceed_time))
    found, _ = run_step(Step("quick", 7, ("run",), "", ""), tmp_path)
    assert found == "not done after 7 s; time about 58 s of wall time with 1 GPU and 4 workers"
    assert (tmp_path / "quick.txt").read_bytes() == told
    environment = run.call_args.kwargs["env"]
    assert run.call_args.args[0][1:] == ["run"]
    assert (environment["ROARBENCH_STORE"], environment["ROARBENCH_DB"]) == (str(tmp_path), "")
    run_step(Step("pinned copy", 7, first_gpu.time_pinned_copy, "", ""), tmp_path)
    assert run.call_args.args[0][2:] == ["--step", "pinned copy", "--out", str(tmp_path)]


@pytest.mark.process
def test_report_shows_findings_of_doctor_whole(tmp_path, monkeypatch):
    """On a terminal of 80 columns, the table of `doctor` breaks its advice into several lines."""
    whole = "! sandbox user namespaces are switched off on this machine, so no submission is run allow them with sysctl"
    program = tmp_path / "doctor.py"
    program.write_text(
        "from rich.console import Console\n"
        "from roarbench.cli.doctor import Diagnosis, make_findings_table\n"
        "found = 'user namespaces are switched off on this machine, so no submission is run'\n"
        "Console().print(make_findings_table([Diagnosis('sandbox', found, False, 'allow them with sysctl')]))\n"
    )
    step = Step("doctor", 60, (str(program),), "", "")
    monkeypatch.setattr(first_gpu, "TESTS", step.command)  # run by Python
    assert run_step(step, tmp_path)[0] == f"done; {whole}"


@pytest.mark.process
def test_report_shows_failed_and_finished_steps_with_expectation(tmp_path):
    fails = Step("fails", 60, ("no-such-command",), "done", "write another")
    doctor = Step("doctor", 60, ("doctor",), "no line that begins with !", "wait longer")
    write_report([(step, *run_step(step, tmp_path)) for step in (fails, doctor)], tmp_path / "report.md")
    failed, done = (tmp_path / "report.md").read_text().splitlines()[-2:]
    assert failed.startswith("| fails | failed (2): ") and failed.split("|")[3:5] == [" done ", " write another "]
    assert done.startswith("| doctor | done; ")
