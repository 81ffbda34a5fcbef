"""Warnings of fills, labels and networks that do not seem to fit the images; bool labels of several classes."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import roarbench as rb

IMAGES = torch.linspace(-2, 2, 64 * 4).view(64, 1, 2, 2)
LABELS = np.repeat([0, 1], 32)


def make_linear_network(seed):
    """Return a network whose classes are about the sign of the sum of the features."""
    layer = nn.Linear(4, 2, bias=False)
    noise = 0.2 * torch.randn(4, generator=torch.Generator().manual_seed(seed))
    layer.weight = nn.Parameter(torch.stack([-1 - noise, 1 + noise]))
    return nn.Sequential(nn.Flatten(), layer)


def compute_curve(images=IMAGES, labels=LABELS, model=None, fill=None):
    return rb.perturbation_curve(model or make_linear_network(0), images, labels, images, levels=(0.5,), fill=fill)


@pytest.mark.parametrize(
    "call",
    [
        lambda fill: rb.remove(IMAGES, IMAGES, 0.5, fill=fill),
        lambda fill: compute_curve(fill=fill),
        lambda fill: rb.own_network_gain([*map(make_linear_network, range(3))], IMAGES, ["grad"], fill=fill),
    ],
)
def test_fill_on_another_scale_causes_warning_at_call(call):
    words = "the fill 127 of channel 0 is far outside the images' values, -2 to 2; pass a fill on the scale of"
    for value, expected in ((127.0, 1), (-7.0, 0)):  # -7 is outside, but less than 3 times 2 below -2
        with warnings.catch_warnings(record=True, action="always") as caught:
            call([value])
        caught = [warning for warning in caught if "fill" in str(warning.message)]
        assert [str(warning.message)[: len(words)] for warning in caught] == [words] * expected
        assert len({warning.filename for warning in caught} | {__file__}) == 1


def test_perturbation_curve_warns_at_chance():
    """Reversed labels are wrong for all images; the true labels cause no warning, nor do fewer than 20 images."""
    words = "the network classifies 0 of 64 images correctly, which is not significantly above chance of 50.0%; check"
    with pytest.warns(UserWarning, match=words) as caught:
        compute_curve(labels=LABELS[::-1])
    assert caught[0].filename == __file__
    compute_curve()
    compute_curve(IMAGES[:19], np.ones(19))


@pytest.mark.parametrize("form", [list, np.array, torch.tensor])
def test_api_functions_reject_bool_labels_of_more_than_two_classes(form, tmp_path):
    labels, three = form([True, False]), nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    words = "labels are bool, and the network has 3 classes; expected whole numbers from 0 to 2"
    with pytest.raises(rb.CallerError, match=f"^{words}"):
        compute_curve(IMAGES[:2], labels, three)
    with pytest.raises(rb.CallerError, match=f"^{words}"):
        rb.check(three, IMAGES[:2], labels, ["grad"], levels=(0.5,))
    with pytest.raises(rb.CallerError, match=f"^test {words}"):
        rb.Suite.from_arrays(three, None, (IMAGES[:2], labels), protocols=("morf",), store=tmp_path)
    assert compute_curve(IMAGES[:2], labels) == compute_curve(IMAGES[:2], [1, 0])
