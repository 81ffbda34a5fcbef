"""Exact Shapley values: by all orders of joining, in closed form, and where they are refused."""

from itertools import permutations

import pytest
import torch
from torch import nn

from roarbench.errors import RunError
from roarbench.estimators.base import Batch
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import importance_maps
from roarbench.estimators.families.shapley import SHAPLEY_FEATURES
from roarbench.models.build import build
from roarbench.plan.suites import SUITES, find_suite


def values(model: nn.Module, images: torch.Tensor, targets: torch.Tensor, name: str = "shapley") -> torch.Tensor:
    batch = Batch(images, targets, torch.arange(len(images)))
    black = torch.full((images.shape[1], 1, 1), -2.0, dtype=images.dtype)
    return importance_maps([find_estimator(name)], model, batch, black)[name]


@pytest.fixture
def model() -> nn.Module:
    return build("mlp", 3, 4, 1, torch.Generator().manual_seed(0)).eval().double()


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(3, 4, 1, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


TARGETS = torch.tensor([0, 2, 1])


@pytest.mark.parametrize(("name", "start"), [("shapley", 0.0), ("shapley(baseline=black)", -2.0)])
@torch.no_grad()
def test_they_are_the_mean_over_all_orders_of_what_a_feature_adds(model, images, name, start):
    expected = torch.zeros_like(images)
    for image, target, found in zip(images, TARGETS.tolist(), expected, strict=True):
        orders = list(permutations(range(4)))
        for order in orders:
            shown = torch.full_like(image, start)
            before = model(shown[None])[0, target]
            for feature in order:
                shown[feature] = image[feature]
                after = model(shown[None])[0, target]
                found[feature] += (after - before) / len(orders)
                before = after
    torch.testing.assert_close(values(model, images, TARGETS, name), expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_they_add_up_in_float32_for_more_coalitions_than_go_at_once():
    model = build("mlp", 2, 10, 1, torch.Generator().manual_seed(0)).eval()
    images = torch.randn(3, 10, 1, 1, generator=torch.Generator().manual_seed(1))
    targets = torch.tensor([0, 1, 0])
    gap = (model(images) - model(torch.zeros_like(images))).gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(values(model, images, targets).flatten(1).sum(1), gap, rtol=0, atol=1e-5)


def test_of_many_features_they_are_refused():
    images = torch.zeros(1, SHAPLEY_FEATURES + 1, 1, 1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(SHAPLEY_FEATURES + 1, 2)).eval()
    with pytest.raises(RunError, match="every coalition of 16 features at most, got 17; leave it out"):
        values(model, images, torch.zeros(1, dtype=torch.int64))


def test_a_suite_says_whether_they_apply():
    assert find_suite("breast-cancer-10").why_not("shapley") == ""
    said = "it looks at every coalition of 16 features at most, and here are {}"
    assert find_suite("breast-cancer").why_not("shapley") == said.format(30)
    assert find_suite("quick").why_not("shapley~blurred") == said.format("12,288")
    assert [suite.name for suite in SUITES.values() if "shapley" in suite.estimators] == ["breast-cancer-10"]
