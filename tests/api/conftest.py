"""A suite of seconds, run once from Python."""

import pytest
import torch
from captum.attr import Saliency

import roarbench
from roarbench.execution import local_workers
from tests.helpers.tiny_suite import InlineEngine


def gradient_x_input(model, inputs, targets):
    """Gradient times input, summed over channels."""
    inputs = inputs.requires_grad_()
    (gradient,) = torch.autograd.grad(model(inputs).gather(1, targets[:, None]).sum(), inputs)
    return (gradient * inputs).sum(1)


@pytest.fixture(scope="session")
def suite(tmp_path_factory):
    """Eight planted images of each split, in a store of these tests."""
    return roarbench.load("planted", tmp_path_factory.mktemp("api"), limit=8)


@pytest.fixture(scope="session")
def inline():
    """Workers in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_workers, "LocalEngine", InlineEngine)
        yield


@pytest.fixture(scope="session")
def result(suite, inline):
    """Two rows of functions under ROAR, two trainings each."""
    given = {"mine": gradient_x_input, "ig": Saliency}
    return roarbench.evaluate(suite, given, protocol="roar", seeds=2, quiet=True)
