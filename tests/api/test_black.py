"""Black has two words, one identity."""

import torch

import roarbench
from roarbench.estimators.catalogue import find_estimator


def test_black_and_zero_are_one_fill_and_one_baseline():
    images = torch.full((1, 1, 2, 2), 9, dtype=torch.uint8)
    removed = torch.tensor([[[[True, False], [False, False]]]])
    assert roarbench.fill(images, removed, "black").flatten().tolist() == [0, 9, 9, 9]
    assert find_estimator("ig(baseline=zero)") == find_estimator("ig(baseline=black)") == find_estimator("ig")
