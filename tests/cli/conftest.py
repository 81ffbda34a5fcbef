"""A store with a small version of a part of `planted`: to be read by many tests, and copied by those that change it."""

import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers import commands
from tests.helpers.command_line import PART, Answer, command, publish


@pytest.fixture(scope="module", autouse=True)
def published(request):
    """Let every command find what is `PUBLISHED` by a test's module, if anything, by its name."""
    with pytest.MonkeyPatch.context() as patch:
        if suite := getattr(request.module, "PUBLISHED", None):
            publish(patch, suite)
        yield


class FirstRun(NamedTuple):
    store: Path
    said: Answer


@pytest.fixture(scope="session")
def first_run(tmp_path_factory) -> FirstRun:
    """The finished store, to be read only, and what its run printed."""
    folder = tmp_path_factory.mktemp("cli") / "store"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        patch.setenv("COLUMNS", "80")
        code = command("run", *PART, "--store", folder)
    return FirstRun(folder, Answer(code, out.getvalue(), err.getvalue()))


@pytest.fixture(scope="session")
def made(first_run) -> Path:
    assert first_run.said.code == 0, first_run.said.err
    return first_run.store


@pytest.fixture
def store(made, tmp_path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "store"))


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> Path:
    """A larger store that was filled by one command, never disturbed."""
    store = tmp_path_factory.mktemp("whole")
    assert command("run", *commands.PART, "--store", store) == 0
    return store
