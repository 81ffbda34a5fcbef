"""A suite of seconds, run once from Python."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from captum.attr import Saliency

import roarbench
from roarbench.execution import local_workers
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite
from roarbench.protocols import PROTOCOLS
from tests.helpers.given import gradient_x_input
from tests.helpers.tiny_suite import InlineEngine

ROAR, MORF = PROTOCOLS["roar"], PROTOCOLS["morf"]


def few(store):
    """Eight planted images of each split."""
    rows = ("random", "truth")
    blocks = (Block(ROAR, rows, (0.9,), seeds=2), Block(MORF, rows, (0.5, 0.9), seeds=1))
    return roarbench.Suite(replace(find_suite("planted"), name="few", blocks=blocks), store, limit=8)


@pytest.fixture(scope="session")
def suite(tmp_path_factory):
    """A suite of seconds, in a store of these tests."""
    return few(tmp_path_factory.mktemp("api"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """The same, in a store of one file's tests."""
    return few(tmp_path_factory.mktemp("fresh"))


@contextmanager
def workers_here():
    """Workers in this process; not for a session, whose other tests start workers of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_workers, "LocalEngine", InlineEngine)
        yield


@pytest.fixture(scope="module")
def inline():
    """Workers in this process, while a file's tests run."""
    with workers_here():
        yield


@pytest.fixture(scope="session")
def result(suite):
    """Two rows of functions under ROAR, two trainings each."""
    given = {"mine": gradient_x_input, "ig": Saliency}
    with workers_here():
        return roarbench.evaluate(suite, given, quiet=True)
