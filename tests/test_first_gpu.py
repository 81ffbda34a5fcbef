"""The steps of scripts/first_gpu.py: limits, expectations, reports and failures."""

import json
import subprocess
from unittest.mock import Mock

import first_gpu
import pytest
from first_gpu import STEPS, Step, run_step, write_report

from tests.helpers.processes import ROOT


def test_gpu_page_lists_steps():
    page = (ROOT / "docs/gpu.md").read_text()
    assert "\n".join(f"| {step.name} | {step.limit} s | {step.expected} |" for step in STEPS) in page
    assert sum(step.limit for step in STEPS) <= 26 * 60


def test_planned_time_of_commands_fits_step_limits(call, tmp_path):
    commands = [step for step in STEPS if step.command[0] == "run"]
    assert len(commands) == 3
    for step in commands:
        said = call("plan", *step.command[1:], "--store", tmp_path, "--workers", "1", "--format", "json")
        assert said.code == 0, said.err
        assert json.loads(said.out)["estimates"][-1]["seconds"] < 0.9 * step.limit, step.name


def test_stopped_step_keeps_output_and_reports_plan(tmp_path, monkeypatch):
    """`run` prints its plan first, so the report can show the plan of a step that took too long."""
    told = b"quick: 9 of 9 runs to do\n  time about 58 s of wall time with 1 GPU and 4 workers\n  4 trainings\nrun 3\n"
    stopped = subprocess.TimeoutExpired("roarbench", 7, told)
    monkeypatch.setattr(first_gpu.subprocess, "run", run := Mock(side_effect=stopped))
    found, _ = run_step(Step("quick", 7, ("run",), "", ""), tmp_path)
    assert found == "not done after 7 s; time about 58 s of wall time with 1 GPU and 4 workers"
    assert (tmp_path / "quick.txt").read_bytes() == told
    environment = run.call_args.kwargs["env"]
    assert run.call_args.args[0][1:] == ["run"]
    assert (environment["ROARBENCH_STORE"], environment["ROARBENCH_DB"]) == (str(tmp_path), "")


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
