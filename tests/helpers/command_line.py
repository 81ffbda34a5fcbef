"""The command line within this process, with workers in it, too."""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roarbench.cli import main
from roarbench.execution import run_suite
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import SUITE_VERSIONS, SUITES
from tests.helpers.tiny_suite import InlineEngine

SMALL = ("--suite", "planted", "--max-images", "8")
PART = (*SMALL, "--estimators", "truth", "--seeds", "1")
RUNS = 1 + 2 * 2 * 5  # of PART: untouched images; truth and random under ROAR and KAR at five levels


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Answer]


def record(call: Call, *words: object) -> Any:
    """What a command tells a program."""
    answer = call(*words, "--format", "json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def read_refusal(call: Call, *words: object) -> str:
    """The one line by which a command says why it does nothing."""
    code, out, err = call(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    return err


def publish(patch: pytest.MonkeyPatch, suite: SuiteSpec) -> None:
    """Let every command find this suite by its name, and by its name with its version."""
    patch.setitem(SUITES, suite.name, suite)
    patch.setitem(SUITE_VERSIONS, (suite.name, suite.version), suite)


def command(*words: object) -> int:
    """Run a command as the console script does; its exit code."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stop:
        patch.setattr(run_suite, "LocalEngine", InlineEngine)
        patch.setattr(sys, "argv", ["roarbench", *map(str, words)])
        main.main()
    signal.signal(signal.SIGTERM, before)
    return stop.value.code


def read_files(folder: Path) -> dict[Path, bytes]:
    """Read every file except auxiliary files of the database."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal", ".lock"))}
