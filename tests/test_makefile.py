"""`make test` with stub programs: its exit status, the order of its output, and Ctrl-C."""

import os
import shutil
import signal
import subprocess

import pytest

from tests.helpers.commands import list_living_processes, wait_until
from tests.helpers.elsewhere import ROOT

pytestmark = [pytest.mark.process, pytest.mark.skipif(not shutil.which("make"), reason="needs make")]


@pytest.fixture
def environment(tmp_path):
    """The folder of an environment with stub programs."""
    (tmp_path / "bin").mkdir()
    for name in ("installed", "installed-test"):
        (tmp_path / name).touch()
    for name in ("python", "ruff", "mypy", "lint-imports"):
        write_program(tmp_path, name, f"echo {name} ran")
    return tmp_path


def write_program(environment, name, lines):
    path = environment / "bin" / name
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)


def start_make_test(environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.Popen(
        ["make", "test", f"VENV={environment}"],
        **{"cwd": ROOT, "env": kept, "text": True, "stdout": subprocess.PIPE},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell ignores it in the background
        start_new_session=True,
    )


@pytest.mark.parametrize("failing", ["", "python", "ruff", "lint-imports"])
def test_make_test_fails_with_failing_tests_or_check_and_prints_checks_last(environment, failing):
    if failing:
        write_program(environment, failing, f"echo {failing} ran; exit 1")
    made = start_make_test(environment)
    said, _ = made.communicate(timeout=60)
    assert (made.returncode == 0) == (not failing), said
    assert said.index("python ran") < said.index("ruff ran")


def test_ctrl_c_ends_make_test_with_all_checks(environment):
    waits = f"echo $$ > {environment}/$(basename $0).pid; exec sleep 100"
    for name in ("python", "mypy"):
        write_program(environment, name, waits)
    made, pids = start_make_test(environment), [environment / f"{name}.pid" for name in ("python", "mypy")]
    assert wait_until(lambda: all(path.exists() and path.read_text() for path in pids))
    os.killpg(made.pid, signal.SIGINT)
    made.communicate(timeout=60)
    assert made.returncode and not list_living_processes(made.pid)
