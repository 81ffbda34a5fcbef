"""What a submission may define, called without a sandbox."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient
from torch import nn

from roarbench.sandbox.conventions import NoEstimate, estimate_of

IMAGES = torch.arange(1.0, 9.0).reshape(2, 1, 2, 2)
TARGETS = torch.tensor([0, 1])
WEIGHTS = torch.tensor([[1.0, -1.0, 0.5, 2.0], [3.0, 0.0, -2.0, 1.0]])


class FourWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2, bias=False)
        self.last.weight.data = WEIGHTS.clone()

    def forward(self, images):
        return self.last(images.flatten(1))


def seeded(seed=7):
    return torch.Generator().manual_seed(seed)


def called(generator=None, **names):
    estimate = estimate_of(SimpleNamespace(**names))
    return estimate(FourWeights(), IMAGES, TARGETS, generator or seeded())


def test_a_class_of_captum_explains_each_image_s_own_target():
    """Of a linear network the input times the gradient is the input times the weights of the target."""
    found = called(estimator=InputXGradient)
    torch.testing.assert_close(found.detach(), IMAGES * WEIGHTS.reshape(2, 1, 2, 2), rtol=0, atol=0)
    assert not IMAGES.requires_grad


def test_a_function_by_quantus_convention_gets_copies_as_arrays_by_name():
    seen = {}

    def explain_func(model, inputs, targets, **kwargs):
        seen.update(model=model, inputs=inputs.copy(), targets=targets, kwargs=kwargs)
        inputs[:] = 0
        return (np.arange(8.0) / 3).reshape(2, 1, 2, 2)

    before = IMAGES.clone()
    found = called(explain_func=explain_func)
    assert isinstance(seen["model"], FourWeights) and seen["kwargs"] == {}
    np.testing.assert_array_equal(seen["inputs"], before.numpy())
    assert seen["targets"].tolist() == [0, 1] and seen["targets"].dtype == np.int64
    torch.testing.assert_close(found, (torch.arange(8, dtype=torch.float64) / 3).float().reshape(2, 1, 2, 2))
    assert torch.equal(IMAGES, before)


@pytest.mark.parametrize(
    "draw",
    [lambda: torch.rand(4).numpy(), lambda: np.random.rand(4), lambda: [random.random() for _ in range(4)]],  # noqa: NPY002
    ids=["torch", "numpy", "python"],
)
def test_global_chance_is_that_of_the_images_generator(draw):
    def explain_func(model, inputs, targets):
        return np.asarray(draw(), np.float32)

    one, again, other = (called(seeded(seed), explain_func=explain_func) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    drawn, untouched = seeded(), seeded().get_state()
    called(drawn, explain_func=explain_func)
    assert not torch.equal(drawn.get_state(), untouched)  # so that images are explained one at a time


def test_a_function_by_the_contract_is_called_as_it_is():
    generator = seeded()
    images, given = called(generator, estimate=lambda model, images, targets, generator: (images, generator))
    assert images is IMAGES and given is generator


def test_what_is_none_is_refused_in_words():
    for names, words in (
        ({"estimator": 3}, "no function 'estimate'"),
        ({"estimator": InputXGradient, "explain_func": print}, "both 'estimator' and 'explain_func' are there"),
        ({"estimate": lambda model, images: images}, "does not take four arguments"),
    ):
        with pytest.raises(NoEstimate, match=words):
            estimate_of(SimpleNamespace(**names))
