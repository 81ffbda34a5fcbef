"""The drop of the predicted class's probability."""

import numpy as np
import pytest

from roarbench.stats.probability_drop import compute_probability_drop


def test_probability_drop_matches_manual_computation():
    """Two kinds of images, five of each, whose probabilities fall, at two levels, by .2 and 0, then by .6 and -.1."""
    untouched, degraded = np.tile([0.8, 0.5], 5), np.tile([[0.6, 0.5], [0.2, 0.6]], 5)
    drop = compute_probability_drop(untouched, degraded)
    assert drop.aopc.value == pytest.approx((0.2 + 0.0 + 0.6 - 0.1) / 4)
    # five means of 0.4 and five of -0.05; Student's t with 9 degrees of freedom has the quantile 2.262157
    assert drop.aopc.high == pytest.approx(0.175 + 2.262157 * 0.225 / 3, rel=1e-6)
    assert [one.value for one in drop.probabilities] == pytest.approx([0.55, 0.4])
    assert [one.value for one in drop.changes] == pytest.approx([0.25 / 2, (0.75 + 0.2) / 2])
    # of two images, 0.4 and -0.05; the quantile of one degree of freedom is 12.7062
    assert compute_probability_drop(untouched[:2], degraded[:, :2]).aopc.high == pytest.approx(0.175 + 12.7062 * 0.225)
    assert compute_probability_drop(untouched[:1], degraded[:, :1]).aopc == (pytest.approx(0.4), None, None)
