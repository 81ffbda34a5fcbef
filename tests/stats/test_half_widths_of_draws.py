"""Half widths by formula against bootstrap draws of published gains; studies/coverage/draws.md has all of them."""

from itertools import product

import numpy as np
import pytest

from roarbench.plan.protocols import OWN_NETWORK, ROAR
from studies.coverage.draws import compare_protocol, compute_distribution_of_sum


@pytest.mark.parametrize("influences", [[0, 1, 1, 4], [-7, -7, 2, 3, 3], [5, 5, 5]])
def test_distribution_of_a_sum_is_that_of_all_samples_with_replacement(influences):
    sums, shares = compute_distribution_of_sum(np.array(influences))
    samples = [sum(sample) for sample in product(influences, repeat=len(influences))]
    expected = {total: samples.count(total) / len(samples) for total in samples}
    found = {int(total): share for total, share in zip(sums, shares, strict=True) if share > 1e-12}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("protocol", "rows"), [(ROAR, 7), (OWN_NETWORK, 11)], ids=["roar", "own-network"])
def test_half_widths_of_published_gains_are_those_of_draws(protocol, rows):
    pairs = compare_protocol("benchmark-breast-cancer", protocol, 300_000)
    assert len(pairs) == rows  # under own-network gain with four blind searches
    for row, drawn in pairs:
        assert row.half_width == pytest.approx(drawn, rel=0.01)
