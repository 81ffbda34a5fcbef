"""`make test` with programs that only say that they ran: it fails where a check does, and Ctrl-C ends them all."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.helpers.commands import eventually, living

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.process, pytest.mark.skipif(not shutil.which("make"), reason="needs make")]


@pytest.fixture
def environment(tmp_path):
    """The folder of an installed environment, to which `program` adds programs."""
    (tmp_path / "bin").mkdir()
    for name in ("installed", "installed-test"):
        (tmp_path / name).touch()
    for name in ("python", "ruff", "mypy", "lint-imports"):
        program(tmp_path, name, f"echo {name} ran")
    return tmp_path


def program(environment, name, lines):
    path = environment / "bin" / name
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)


def start(environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.Popen(
        ["make", "test", f"VENV={environment}"],
        **{"cwd": ROOT, "env": kept, "text": True, "stdout": subprocess.PIPE},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell ignores it in the background
        start_new_session=True,
    )


@pytest.mark.parametrize("failing", ["", "python", "ruff", "lint-imports"])
def test_it_fails_where_the_tests_or_a_check_fail_and_says_what_the_checks_said_last(environment, failing):
    if failing:
        program(environment, failing, f"echo {failing} ran; exit 1")
    made = start(environment)
    said, _ = made.communicate(timeout=60)
    assert (made.returncode == 0) == (not failing), said
    assert said.index("python ran") < said.index("ruff ran")


def test_ctrl_c_ends_the_checks_too(environment):
    waits = f"echo $$ > {environment}/$(basename $0).pid; exec sleep 100"
    for name in ("python", "mypy"):
        program(environment, name, waits)
    made, pids = start(environment), [environment / f"{name}.pid" for name in ("python", "mypy")]
    assert eventually(lambda: all(path.exists() and path.read_text() for path in pids))
    os.killpg(made.pid, signal.SIGINT)
    made.communicate(timeout=60)
    assert made.returncode and not living(made.pid)
