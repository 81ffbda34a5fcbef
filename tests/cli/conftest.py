"""A store with a small version of a part of `planted`: to be read by many tests, and copied by those that change it."""

import shutil
from pathlib import Path

import pytest

from tests.helpers import processes
from tests.helpers.command_line import PART, command, publish


@pytest.fixture(scope="module", autouse=True)
def published(request):
    """Let every command find what is `PUBLISHED` by a test's module, if anything, by its name."""
    with pytest.MonkeyPatch.context() as patch:
        if suite := getattr(request.module, "PUBLISHED", None):
            publish(patch, suite)
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The finished store, to be read only."""
    store = tmp_path_factory.mktemp("cli") / "store"
    assert command("run", *PART, "--store", store) == 0
    return store


@pytest.fixture
def store(made, tmp_path):
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "store"))


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A larger store that was filled by one command, never disturbed."""
    store = tmp_path_factory.mktemp("whole")
    assert command("run", *processes.PART, "--store", store) == 0
    return store
