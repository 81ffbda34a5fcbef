"""The 18 forms against captum's bases on each noisy copy, combined in plain numpy."""

import numpy as np
import pytest
import torch
from captum.attr import GuidedBackprop, IntegratedGradients, Saliency
from hypothesis import given
from hypothesis import strategies as st

from roarbench.estimators import IG_STEPS, SAMPLES, SEED
from roarbench.estimators.catalogue import ESTIMATORS, PAPER
from roarbench.estimators.ensembles import Look, Moments, model_maps
from roarbench.estimators.noise import noisy_copies
from tests.helpers.networks import assert_near


def captum_base(base, model, images, targets, black):
    inputs = images.contiguous().requires_grad_()
    if base == "grad":
        return Saliency(model).attribute(inputs, target=targets, abs=False)
    if base == "gb":
        return GuidedBackprop(model).attribute(inputs, target=targets)
    baselines = black.expand(images.shape[1:])[None]
    steps = {"method": "riemann_right", "n_steps": IG_STEPS}
    found = IntegratedGradients(model).attribute(inputs, baselines=baselines, target=targets, **steps)
    # captum 0.9 rounds the step size 1/25 to float32 in every precision: 2e-8 too much on each value
    return found * (1 / IG_STEPS / float(np.float32(1 / IG_STEPS)))


SLOW = {  # from the clean map and the array of noisy ones (docs/protocol.md, section 3)
    "base": lambda clean, noisy: clean,
    "squared": lambda clean, noisy: clean * clean,
    "smooth": lambda clean, noisy: sum(noisy) / 15,
    "smooth-squared": lambda clean, noisy: (sum(noisy) / 15) ** 2,
    "smoothed-square": lambda clean, noisy: sum(g * g for g in noisy) / 15,
    "variance": lambda clean, noisy: np.var(noisy, axis=0),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU")  # captum's, on each guided backprop
@pytest.mark.parametrize("base", ["grad", "gb", "ig"])
def test_all_18_are_captums_bases_combined(base, model, batch, black):
    assert {row.form for row in map(ESTIMATORS.get, PAPER) if row.base == base} == set(SLOW)
    copies = [batch.images, *(noisy_copies(batch.images, batch.ids, j, SEED) for j in range(SAMPLES))]
    clean, *noisy = (captum_base(base, model, copy, batch.targets, black).detach().numpy() for copy in copies)
    (found,) = model_maps([Look({(base, form) for form in SLOW}, model, batch, black)])
    for form, slow in SLOW.items():
        # 1e-10 of the largest value: some hundred summands in each layer and 25 points lose 2 to 4 digits of float64
        assert_near(found.maps[base, form], torch.from_numpy(slow(clean, np.stack(noisy))), 1e-10)


@given(
    values=st.lists(st.lists(st.floats(-10, 10), min_size=3, max_size=3), min_size=1, max_size=20),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_moments_are_numpys(values, offset):
    samples = np.array(values) + offset
    moments = Moments(torch.zeros(3, dtype=torch.float64))
    for sample in samples:
        moments.add(torch.from_numpy(sample))
    # with an offset of 1e6 and values of 10 the variance keeps 16 - 5 digits of 1e2; a sum of squares would keep 4
    np.testing.assert_allclose(moments.form("variance"), samples.var(axis=0), rtol=0, atol=1e-7)
    np.testing.assert_allclose(moments.form("smooth"), samples.mean(axis=0), rtol=1e-14, atol=1e-12)
    np.testing.assert_allclose(moments.form("smooth-squared"), samples.mean(axis=0) ** 2, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(moments.form("smoothed-square"), (samples**2).mean(axis=0), rtol=1e-13, atol=1e-12)
