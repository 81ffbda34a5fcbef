"""A store with a small version of a part of `planted`: to be read by many tests, and copied by those that change it."""

import shutil
from pathlib import Path

import pytest

from tests.helpers.command_line import PART, command


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """The finished store; to be read only."""
    folder = tmp_path_factory.mktemp("cli") / "store"
    assert command("run", *PART, "--store", folder) == 0
    return folder


@pytest.fixture
def store(made, tmp_path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "store"))
