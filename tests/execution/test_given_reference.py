"""A reference whose weights are given: what it predicts, what is explained of it, and that its record says so."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import jobs
from roarbench.models.build import build
from roarbench.plan.weights import title
from roarbench.terms import Split, Unit
from tests.helpers.networks import randomised
from tests.helpers.tiny_suite import RECORD, SUITE, make_runs, make_work, rank_all, removed

MEAN, STD = (100.0, 120.0, 140.0), (40.0, 50.0, 60.0)  # not those of the images


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A checkpoint that was trained elsewhere, on images normalised in its own way."""
    generator = torch.Generator().manual_seed(77)
    model = randomised(build(SUITE.model, RECORD.classes, RECORD.channels, RECORD.size, generator), generator)
    path = tmp_path_factory.mktemp("weights") / "w.pt"
    torch.save({"state_dict": model.state_dict(), "mean": list(MEAN), "std": list(STD)}, path)
    return path


@pytest.fixture(scope="module")
def suite(weights):
    return replace(SUITE, given=title(str(weights)))


@pytest.fixture(scope="module")
def work(tmp_path_factory, suite, weights):
    """With its reference and the rankings of `grad` and `sobel`."""
    work = replace(make_work(tmp_path_factory.mktemp("given"), suite), given=(str(weights),))
    jobs.train_reference(work.explained[0])
    rank_all(work, "grad", "sobel")
    return work


def test_it_predicts_and_is_explained_on_images_as_it_wants_them(work):
    pixels = torch.from_numpy(work.images[Split.TEST].pixels.astype(np.float64))
    images = (pixels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    model, images = work.explained[0].trained().double(), images.requires_grad_()
    logits = model(images)
    found = work.explained[0].store.predictions(Split.TEST)
    assert (found.targets == logits.argmax(1).numpy()).all()
    expected = logits.softmax(1).max(1).values.detach().numpy()
    np.testing.assert_allclose(found.probability, expected, rtol=1e-4)  # float32 sums of a few hundred terms
    logits.max(1).values.sum().backward()
    gradient = images.grad.flatten(1).numpy()
    most = np.argsort(np.argsort(-gradient, axis=1), axis=1) < 96
    rankings = work.place.rankings.open(work.ranking_spec(find_estimator("grad"), Unit.SCALAR))
    assert (removed(rankings, Split.TEST, 0.5) == most).mean() > 0.99  # float32 moves a few at the boundary


def test_controls_see_images_as_the_suite_normalises_them(work, tmp_path):
    """So that they are the same beside every reference, and are ranked once."""
    plain = make_work(tmp_path)
    rank_all(plain, "sobel")
    spec = plain.ranking_spec(find_estimator("sobel"), Unit.SCALAR)
    assert spec == work.ranking_spec(find_estimator("sobel"), Unit.SCALAR)
    assert plain.place.rankings.open(spec).checksum == work.place.rankings.open(spec).checksum


def test_records_say_what_is_explained_where_a_run_depends_on_it(work, suite, weights):
    mark = title(str(weights))
    trained = {(run.cell, run.seed): run for run in make_runs(work)}
    for run in make_runs(work, suite):
        depends = bool(run.reference)
        assert run.given == (mark if depends else "")
        assert (run.key != trained[run.cell, run.seed].key) == depends
    assert work.explained[0].reference.given == mark
    assert work.explained[0].reference.recipe == ""
