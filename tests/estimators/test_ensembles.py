"""The 18 forms against captum's bases on each noisy copy, combined in plain numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from roarbench.estimators import SAMPLES, SEED
from roarbench.estimators.catalogue import ESTIMATORS, PAPER
from roarbench.estimators.ensembles import Look, Moments, model_maps
from roarbench.estimators.noise import noisy_copies

WANTED = {(ESTIMATORS[name].base, ESTIMATORS[name].form) for name in PAPER}


@pytest.fixture(scope="module")
def found(model, batch, black):
    (found,) = model_maps([Look(WANTED, model, batch, black)])
    return found.maps


@pytest.fixture(scope="module")
def samples(model, batch, black, captum_base):
    """For each base, captum's map of the image and of its 15 noisy copies."""
    copies = [batch.images] + [noisy_copies(batch.images, batch.ids, j, SEED) for j in range(SAMPLES)]
    copies = [copy.contiguous() for copy in copies]
    return {
        base: [captum_base(base, model, copy, batch.targets, black).numpy() for copy in copies]
        for base in ("grad", "gb", "ig")
    }


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
@pytest.mark.parametrize("name", PAPER)
def test_all_18_are_captums_bases_combined(name, found, samples):
    base, form = ESTIMATORS[name].base, ESTIMATORS[name].form
    clean, *noisy = samples[base]
    expected = SLOW[form](clean, np.stack(noisy))
    # 1e-10 of the largest value, as for the bases: the moments add no digit
    np.testing.assert_allclose(found[base, form].numpy(), expected, rtol=1e-10, atol=1e-10 * abs(expected).max())


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
