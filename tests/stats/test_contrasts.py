"""Variances of cells, gains and differences: bootstraps of images, slow loops, and hand-made tables of networks."""

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from roarbench.stats import correctness_and_gain as module
from roarbench.stats.contrasts import join_quantities, measure_areas, measure_cells, measure_means, measure_spreads
from roarbench.stats.variance_components import (
    PooledVariance,
    ReferenceVariance,
    VarianceComponents,
    estimate_variance_components,
)
from tests.helpers.known_contrasts import LEVELS, make_explained_rows
from tests.helpers.processes import run_python

COVARIANCE = np.array([[4.0, 3.0], [3.0, 9.0]]) * 1e-4
KNOWN = ReferenceVariance(2e-4, 0.0, 1e9, LEVELS, COVARIANCE, 0.5, 10**9, prior_freedom=1e9, rows=2, networks=10**9)


def make_rows(rows=2, networks=2, trainings=1, images=400, seed=0):
    return make_explained_rows(rows, networks, trainings, images, seed)


@pytest.mark.parametrize(
    ("at_once", "in_one_thread"),  # all images at once, or 75 at a time, with many cells or few
    [(module._AT_ONCE, module._IN_ONE_THREAD), (900, 0), (module._AT_ONCE, 36 * 75)],
)
def test_image_variance_matches_bootstrap_of_images(monkeypatch, at_once, in_one_thread):
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    monkeypatch.setattr(module, "_IN_ONE_THREAD", in_one_thread)
    scores, images = make_rows(), 400
    cells = measure_cells(replace(scores, references={}), None)
    counts = np.random.default_rng(1).multinomial(images, np.full(images, 1 / images), size=20_000)
    drawn = {point: counts @ bits.mean(0) / images for point, bits in scores.correct.items()}
    one, other = ("e0", 0.5), ("e1", 0.9)
    assert cells[one].spread.totals[0] == pytest.approx(np.var(drawn[one]), rel=0.05)
    assert cells[one].subtract(cells[other]).spread.totals[0] == pytest.approx(
        np.var(drawn[one] - drawn[other]), rel=0.05
    )
    # exact, with the bias of n images removed
    deviations = scores.correct[one].mean(0) - scores.correct[one].mean()
    assert cells[one].spread.totals[0] == pytest.approx((deviations**2).sum() / images / (images - 1), rel=1e-12)
    assert cells[one].subtract(cells[one]).spread.totals[0] == 0 and cells.get(("e9", 0.5)) is None


def test_whole_moments_are_exact_and_independent_of_order_of_images():
    scores = make_rows(images=3000)
    turned = replace(scores, correct={point: bits[:, ::-1] for point, bits in scores.correct.items()})
    one, other = (measure_cells(each, None).images for each in (scores, turned))
    np.testing.assert_array_equal(one, other)


_PRODUCTS = """
import os, time
from pathlib import Path
import numpy as np
from roarbench.stats.correctness_and_gain import compute_second_moments

def count_ticks():
    threads = [each for each in Path("/proc/self/task").iterdir() if each.name != str(os.getpid())]
    ticks = [each.joinpath("stat").read_text().rpartition(")")[2].split()[11:13] for each in threads]
    return sum(int(tick) for pair in ticks for tick in pair)

time.sleep(0.3)  # threads spin for a while after their start, too
before = count_ticks()
for _ in range(20):
    compute_second_moments(np.ones((41, 1000), np.int16))
    time.sleep(0.05)
print(count_ticks() - before)
"""


@pytest.mark.skipif(os.cpu_count() == 1 or not Path("/proc/self/task").exists(), reason="one thread, or not Linux")
def test_other_threads_do_not_spin_after_products():
    """Threads of OpenBLAS spin for 25 ms after a product that they took part in, 2.5 ticks of the clock."""
    assert int(run_python(_PRODUCTS, OPENBLAS_NUM_THREADS="2", OMP_NUM_THREADS="2")) < 10


def test_joined_protocols_are_paired_by_images_and_networks():
    scores, other = make_rows(networks=3), make_rows(networks=3, seed=5)
    whole = {**scores.correct, **{(f"other {name}", t): bits for (name, t), bits in other.correct.items()}}
    names = {**scores.references, **{(f"other {name}", t): value for (name, t), value in other.references.items()}}
    together = measure_cells(replace(scores, correct=whole, references=names), None)
    first, second = measure_cells(scores, None), measure_cells(other, None)
    difference = first["e0", 0.5].subtract(second["e1", 0.9])
    expected = together["e0", 0.5].subtract(together["other e1", 0.9])
    assert difference.value == expected.value
    assert difference.spread.totals == pytest.approx(expected.spread.totals, rel=1e-12)
    assert join_quantities(first, second) is difference.quantities  # later differences of both are paired, too
    with pytest.raises(ValueError, match="400 and 300 images"):
        join_quantities(first, measure_cells(make_rows(images=300), None))


def test_network_variance_adds_curve_covariance_to_rows_but_not_controls():
    """With a prior that outweighs the rows, variances are the known ones; controls have the variance of trainings."""
    scores = make_rows()
    cells = measure_cells(scores, VarianceComponents(PooledVariance(0.03**2, 0.0, 10**9), KNOWN))
    networks, trainings = measure_spreads([cells["e0", 0.5], cells["e0", 0.9], cells["random", 0.9]]).variances[:, 1:].T
    assert networks == pytest.approx([4e-4 / 2, 9e-4 / 2, 0])
    assert trainings == pytest.approx([0, 0, 0.03**2 / 2])
    area = cells.combine({("e0", 0.5): 1, ("e0", 0.9): 2})
    assert area.spread.variances[0, 1] == pytest.approx((4 + 2 * 2 * 3 + 4 * 9) * 1e-4 / 2)
    for shared in (0.0, 0.5, 0.9):  # rows share a part of a network's deviation, which cancels in differences
        cells = measure_cells(scores, VarianceComponents(None, replace(KNOWN, shared=shared)))
        difference = cells["e0", 0.9].subtract(cells["e1", 0.9])
        assert difference.spread.variances[0, 1] == pytest.approx(2 * (1 - shared) * 9e-4 / 2, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("prior", [1.0, 4.0])
def test_row_variance_is_moderated_as_by_smyth(prior):
    """The pooled variance counts with the prior's degrees of freedom, a row's own with R - 1."""
    scores = make_rows(networks=3)
    known = replace(KNOWN, prior_freedom=prior, networks=3, shared=0.0)
    spread = measure_cells(scores, VarianceComponents(None, known))["e0", 0.9].spread
    square = np.var(scores.correct["e0", 0.9].mean(1), ddof=1)
    own = 10**9  # degrees of freedom of the pooled variance: K (R - 1) if rows share nothing, here of the own part
    freedom = 1 / (1 / prior + 0.25 / 2 + 0.25 / own)
    assert spread.freedoms[0, 1] == pytest.approx(freedom + 2, rel=1e-6)
    assert spread.variances[0, 1] == pytest.approx((freedom * 9e-4 + 2 * square) / (freedom + 2) / 3, rel=1e-6)


@pytest.mark.parametrize("networks", [2, 4])
def test_satterthwaite_freedom_matches_two_mean_squares(networks):
    """K rows that share rho of their variance: (R - 1) / (1/K + (1 - 1/K) rho^2) for a row, more for a difference."""
    rows, rho = 5, 0.3
    known = replace(KNOWN, shared=rho, rows=rows, networks=networks, own_freedom=(rows - 1) * (networks - 1))
    cells = measure_cells(make_rows(rows, networks), VarianceComponents(None, known))
    row, difference = cells["e0", 0.9], cells["e0", 0.9].subtract(cells["e1", 0.9])
    of_row = (networks - 1) / (1 / rows + (1 - 1 / rows) * rho**2)
    assert row.spread.freedoms[0, 1] == pytest.approx(of_row + networks - 1, rel=1e-6)
    assert difference.spread.freedoms[0, 1] == pytest.approx((rows - 1) * (networks - 1) + networks - 1, rel=1e-6)


def test_image_noise_counts_once_and_enters_replication():
    noisy = replace(KNOWN, noise=0.25 * KNOWN.variance)
    scores = make_rows()
    quiet, loud = (measure_cells(scores, VarianceComponents(None, each))["e0", 0.9] for each in (KNOWN, noisy))
    less = quiet.spread.variances[0] - loud.spread.variances[0]
    assert less == pytest.approx([0.25 * 9e-4 / 2, 0, 0], abs=1e-12)
    repeated = measure_spreads([loud], repeated=True).variances[0]
    assert repeated == pytest.approx([0, 2 * 9e-4 / 2, 0])


def test_missing_network_leaves_those_that_both_rows_have():
    scores = make_rows(networks=4)
    point = ("e0", 0.9)
    references = {**scores.references, point: scores.references[point][:3]}
    part = replace(scores, correct={**scores.correct, point: scores.correct[point][:3]}, references=references)
    known = replace(KNOWN, prior_freedom=1e-12, networks=4)
    cells = measure_cells(part, VarianceComponents(None, known))
    difference = cells[point].subtract(cells["e1", 0.9])
    by_network = part.correct[point].mean(1) - part.correct["e1", 0.9].mean(1)[:3]
    assert difference.spread.variances[0, 1] == pytest.approx(np.var(by_network, ddof=1) / 3, rel=1e-6)
    assert difference.spread.freedoms[0, 1] == pytest.approx(2)
    apart = replace(part, correct={point: part.correct[point]}, references={point: references[point]})
    joined = measure_cells(apart, VarianceComponents(None, known))[point].subtract(cells["e1", 0.9])
    assert joined.spread.variances[0, 1] == pytest.approx(difference.spread.variances[0, 1], rel=1e-6)
    assert joined.spread.freedoms[0, 1] == pytest.approx(2)


def test_areas_are_sums_of_cells_with_every_spread():
    scores, weights = make_rows(3, 3, 2), [Fraction(1, 3), Fraction(1, 7)]
    cells = measure_cells(scores, estimate_variance_components([scores]))
    names = ("e0", "e2", "random")
    areas = measure_areas(cells, {name: [(name, t) for t in LEVELS] for name in names}, weights)
    sums = {name: cells.combine({(name, t): w for t, w in zip(LEVELS, weights, strict=True)}) for name in names}
    pairs = [(areas[name], sums[name]) for name in names]
    pairs.append((areas["e0"].subtract(areas["random"]), sums["e0"].subtract(sums["random"])))
    for area, expected in pairs:
        assert area.value == expected.value
        np.testing.assert_allclose(area.spread.variances, expected.spread.variances, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(area.spread.freedoms, expected.spread.freedoms, rtol=1e-9)


def test_means_over_images_are_paired():
    values = np.random.default_rng(0).normal(size=(2, 50))
    one, other = measure_means(values)
    difference = one.subtract(other)
    assert difference.value == pytest.approx((values[0] - values[1]).mean())
    assert difference.spread.totals[0] == pytest.approx(np.var(values[0] - values[1], ddof=1) / 50)
    assert difference.spread.freedoms[0, 0] == 49
    assert [one.spread.totals[0] for one in measure_means(np.array([[0.3], [1.0]]))] == [0, 0]  # of a single image
