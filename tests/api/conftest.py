"""A suite of seconds, whose workers are in this process."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import roarbench
from roarbench.execution import run_suite
from roarbench.plan.protocols import PROTOCOLS
from roarbench.plan.settings import Settings
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_builtin_suite
from roarbench.submissions import run_in_sandbox
from roarbench.submissions.sandbox_isolation import make_trusted_command
from tests.helpers.sandboxed import serve_submissions
from tests.helpers.tiny_suite import InlineEngine

ROWS = ("random", "truth")
BLOCKS = (Block(PROTOCOLS["roar"], ROWS, (0.9,), seeds=2), Block(PROTOCOLS["morf"], ROWS, (0.5, 0.9), seeds=1))


@pytest.fixture(scope="session")
def suite(tmp_path_factory):
    """Eight planted images of each split, in a store of these tests."""
    few = replace(find_builtin_suite("planted"), name="few", blocks=BLOCKS)
    return roarbench.Suite(few, Settings(tmp_path_factory.mktemp("api"), limit=8))


@pytest.fixture(scope="module")
def networks():
    """Three networks of two classes for images of 2 x 6 x 6, each with weights of its own."""
    torch.manual_seed(0)  # of the networks' own weights
    return [nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)) for _ in range(3)]


@pytest.fixture(scope="session")
def run_trusted():
    """One process for all functions: each would have a Python of its own, which imports torch."""
    with serve_submissions(make_trusted_command) as run:
        yield run


@pytest.fixture(scope="module")
def inline(run_trusted):
    """Workers in this process; not for a session, whose other tests start workers of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_suite, "LocalEngine", InlineEngine)
        patch.setattr(run_in_sandbox, "_run_and_close_pipe", run_trusted)
        yield
