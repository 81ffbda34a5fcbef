"""Runs by superpixels: whole superpixels fall, one at most is cut, and Random draws superpixels."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.datasets import superpixel_files as slic
from roarbench.execution.common_networks import row_rankings
from roarbench.kernels.ranking import removed_bits, removed_count
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.terms import Split, Unit
from tests.helpers.tiny_suite import SUITE, make_context, make_runs, score_all

pytest.importorskip("skimage")
LEVELS, PIXELS = (0.3, 0.5), 64
SUPERPIXELS = replace(
    SUITE,
    name="superpixels",
    blocks=(Block(ROAR, ("random", "sobel", "truth"), LEVELS, seeds=1, unit=Unit.SUPERPIXEL),),
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slic, "SEGMENTS", 24)
        context = make_context(tmp_path_factory.mktemp("superpixels"), SUPERPIXELS)
        scored = score_all(context, make_runs(context, SUPERPIXELS))
        found = slic.superpixels(context.data.folder, Split.TEST, context.data.test.pixels, 0, 24)
    return context, scored, found.reshape(24, PIXELS)


def removed(context, run):
    rankings = row_rankings(context, run)
    bits = removed_bits(rankings.planes(Split.TEST), run.cell.t, run.cell.order, rankings.layout)
    return np.unpackbits(bits, axis=1, count=PIXELS).astype(bool)


def test_whole_superpixels_are_removed_and_one_is_cut_at_most(done):
    context, scored, labels = done
    for run in (run for run in scored if run.cell.t):
        found = removed(context, run)
        assert (found.sum(1) == removed_count(run.cell.t, PIXELS)).all()
        for gone, of in zip(found, labels, strict=True):
            shares = [gone[of == number].mean() for number in np.unique(of)]
            assert len(shares) > 2
            assert sum(0 < share < 1 for share in shares) <= 1


def test_the_most_important_superpixel_goes_first(done):
    context, scored, labels = done
    run = next(run for run in scored if (run.cell.estimator, run.cell.t) == ("truth", 0.3))
    truth = context.data.test.truth.sum(1).reshape(24, PIXELS)
    for gone, of, values in zip(removed(context, run), labels, truth, strict=True):
        means = [values[of == number].mean() for number in np.unique(of)]
        first = of == np.unique(of)[int(np.argmax(means))]
        assert gone[first].all() or gone.sum() <= first.sum()
