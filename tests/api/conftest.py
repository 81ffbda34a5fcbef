"""A suite of seconds, whose workers are in this process."""

from dataclasses import replace

import pytest

import roarbench
from roarbench.execution import local_workers
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite
from roarbench.protocols import PROTOCOLS
from tests.helpers.tiny_suite import InlineEngine

ROWS = ("random", "truth")
BLOCKS = (Block(PROTOCOLS["roar"], ROWS, (0.9,), seeds=2), Block(PROTOCOLS["morf"], ROWS, (0.5, 0.9), seeds=1))


@pytest.fixture(scope="session")
def suite(tmp_path_factory):
    """Eight planted images of each split, in a store of these tests."""
    few = replace(find_suite("planted"), name="few", blocks=BLOCKS)
    return roarbench.Suite(few, tmp_path_factory.mktemp("api"), limit=8)


@pytest.fixture(scope="module")
def inline():
    """Workers in this process; not for a session, whose other tests start workers of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_workers, "LocalEngine", InlineEngine)
        yield
