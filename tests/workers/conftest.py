"""Workers of this machine that begin in no time."""

import multiprocessing
from types import SimpleNamespace

import pytest

from roarbench.workers import local


@pytest.fixture(scope="module")
def forking():
    """Fork workers from this process, which has imported all that they need, instead of starting a Python for each."""
    context = multiprocessing.get_context("fork")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "multiprocessing", SimpleNamespace(get_context=lambda method: context))
        yield


@pytest.fixture
def spawning(monkeypatch):
    """Start them as outside of tests."""
    monkeypatch.setattr(local, "multiprocessing", multiprocessing)
