"""Checks of a network are the same in all functions of the API; other precisions are copied to float32."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import roarbench as rb
from tests.helpers.given import WithChangedOutput

IMAGES = torch.randn(6, 2, 6, 6, generator=torch.Generator().manual_seed(0))
LABELS = np.arange(6) % 2
API_CALLS = {
    "curve": lambda one, others: rb.perturbation_curve(one, IMAGES, LABELS, IMAGES, levels=(0.5,)),
    "check": lambda one, others: rb.check(one, IMAGES, LABELS, ["grad"], fills=("mean",)),
    "siblings": lambda one, others: rb.check(others[0], IMAGES, LABELS, ["grad"], [others[1], one], fills=("mean",)),
    "own-network": lambda one, others: rb.own_network_gain([*others[:2], one], IMAGES, "grad"),
}


@pytest.fixture(params=API_CALLS)
def judge(request, networks):
    """Return a function that passes a network to one function of the API."""
    return lambda one: API_CALLS[request.param](one, networks)


def return_logits_object(model):
    """Wrap a network so that it returns an object with `logits`, as those of Hugging Face do."""
    return WithChangedOutput(model, lambda y: SimpleNamespace(logits=y))


def test_network_with_logits_object_matches_inner_network(judge, networks):
    assert repr(judge(return_logits_object(networks[2]))) == repr(judge(networks[2]))


def test_layer_tracing_estimators_unwrap_logits_object(networks):
    names, last = ["gb", "deeplift"], (networks[2], return_logits_object(networks[2]))
    one, other = (rb.own_network_gain([*networks[:2], each], IMAGES, names).to_dataframe() for each in last)
    assert one.equals(other)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: nn.Sequential(nn.ReLU(inplace=True), one), "modifies its input images in place"),
        (lambda one: deepcopy(one).to("meta"), "is on the device meta, .*; build the network on the CPU"),
        (lambda one: lambda x: one(x), "is a function, expected a torch.nn.Module"),
    ],
)
def test_api_functions_reject_unusable_networks(judge, networks, change, words):
    with pytest.raises(rb.CallerError, match=words):
        judge(change(networks[2]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_api_functions_copy_network_to_float32(judge, networks, dtype):
    given = deepcopy(networks[2]).to(dtype)
    expected = judge(deepcopy(given).float())
    words = f"has weights in {str(dtype).removeprefix('torch.')}; a copy in float32 is used"
    with pytest.warns(UserWarning, match=words):
        found = judge(given)
    assert repr(found) == repr(expected) and next(given.parameters()).dtype is dtype
