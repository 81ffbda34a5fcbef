"""Runs by superpixels: whole superpixels fall, one at most is cut, and Random draws superpixels."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.datasets import superpixel_files as slic
from roarbench.kernels.ranking import removed_count
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.terms import Split, Unit
from tests.helpers.tiny_suite import SUITE, make_runs, make_work, rankings_of, removed, score_all

pytest.importorskip("skimage")
pytestmark = pytest.mark.slow

LEVELS, PIXELS = (0.3, 0.5), 64
BLOCK = Block(ROAR, ("random", "sobel", "truth"), LEVELS, seeds=1, unit=Unit.SUPERPIXEL)
SUPERPIXELS = replace(SUITE, name="superpixels", blocks=(BLOCK,))


def test_whole_superpixels_are_removed_and_one_is_cut_at_most(tmp_path, monkeypatch):
    monkeypatch.setattr(slic, "SEGMENTS", 24)
    work = make_work(tmp_path, SUPERPIXELS)
    scored = score_all(work, make_runs(work, SUPERPIXELS))
    labels = slic.superpixels(work.images.folder, Split.TEST, work.images.test.pixels, 0, 24).reshape(24, PIXELS)
    for run in (run for run in scored if run.cell.t):
        found = removed(rankings_of(work, run), Split.TEST, run.cell.t)
        assert (found.sum(1) == removed_count(run.cell.t, PIXELS)).all()
        for gone, of in zip(found, labels, strict=True):
            shares = [gone[of == number].mean() for number in np.unique(of)]
            assert len(shares) > 2
            assert sum(0 < share < 1 for share in shares) <= 1
