"""A reference whose weights are given: what it predicts, what is explained of it, and that its record says so."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import torch
from rich.console import Console

from roarbench.errors import CallerError
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import jobs, runner, shards
from roarbench.forecast.workload import count_work
from roarbench.kernels.ranking import removed_bits
from roarbench.models.build import build
from roarbench.plan.points import expand
from roarbench.plan.weights import title
from roarbench.store.layout import Workspace
from roarbench.terms import Order, Split, Unit
from tests.helpers.tiny_suite import RECORD, SUITE, TEST, TRAIN, make_context, make_runs

MEAN, STD = (100.0, 120.0, 140.0), (40.0, 50.0, 60.0)  # not those of the images


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A checkpoint that was trained elsewhere, on images normalised in its own way."""
    model = build(SUITE.model, RECORD.classes, RECORD.channels, RECORD.size, torch.Generator().manual_seed(77))
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.ones_(module.weight)
    path = tmp_path_factory.mktemp("weights") / "w.pt"
    torch.save({"state_dict": model.state_dict(), "mean": list(MEAN), "std": list(STD)}, path)
    return path


@pytest.fixture(scope="module")
def suite(weights):
    return replace(SUITE, given=title(str(weights)))


@pytest.fixture(scope="module")
def context(tmp_path_factory, suite, weights):
    """With its reference and the rankings of `grad` and `sobel`."""
    context = replace(make_context(tmp_path_factory.mktemp("given"), suite), given=(str(weights),))
    jobs.train_reference(context)
    for name in ("grad", "sobel"):
        spec = context.ranking_spec(find_estimator(name), Unit.SCALAR)
        for split, count in ((Split.TRAIN, TRAIN), (Split.TEST, TEST)):
            shards.rank_shard(context, [spec], split, 0, count)
        shards.seal(context, spec)
    return context


def seen(context):
    """The test images as the given network wants them, float64, from the pixels alone."""
    pixels = torch.from_numpy(context.images(Split.TEST).pixels.astype(np.float64))
    return (pixels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def removed(context, name, t):
    """Which features the stored ranking removes, bool (n, d)."""
    rankings = context.rankings.open(context.ranking_spec(find_estimator(name), Unit.SCALAR))
    packed = removed_bits(rankings.planes(Split.TEST), t, Order.MORF, rankings.layout)
    return np.unpackbits(packed, axis=1)[:, : rankings.layout.features].astype(bool)


def test_its_predictions_are_those_of_the_given_network(context):
    logits = context.trained_reference().double()(seen(context))
    found = context.references.predictions(context.reference, Split.TEST)
    assert (found.targets == logits.argmax(1).numpy()).all()
    expected = logits.softmax(1).max(1).values.detach().numpy()
    np.testing.assert_allclose(found.probability, expected, rtol=1e-4)  # float32 sums of a few hundred terms


def test_its_gradients_are_taken_of_images_as_it_wants_them(context):
    model, images = context.trained_reference().double(), seen(context).requires_grad_()
    model(images).max(1).values.sum().backward()
    gradient = images.grad.flatten(1).numpy()
    places = np.argsort(np.argsort(-gradient, axis=1), axis=1)
    expected = places < round(0.5 * gradient.shape[1])
    assert (removed(context, "grad", 0.5) == expected).mean() > 0.99  # float32 moves a few at the boundary


def test_controls_see_images_as_the_suite_normalises_them(context, tmp_path):
    """So that they are the same beside every reference, and are ranked once."""
    plain = make_context(tmp_path)
    spec = plain.ranking_spec(find_estimator("sobel"), Unit.SCALAR)
    for split, count in ((Split.TRAIN, TRAIN), (Split.TEST, TEST)):
        shards.rank_shard(plain, [spec], split, 0, count)
    shards.seal(plain, spec)
    assert spec == context.ranking_spec(find_estimator("sobel"), Unit.SCALAR)
    assert plain.rankings.open(spec).checksum == context.rankings.open(spec).checksum


def test_records_say_what_is_explained_where_a_run_depends_on_it(context, suite, weights):
    mark = title(str(weights))
    trained = {(run.cell, run.seed): run for run in make_runs(context)}
    for run in make_runs(context, suite):
        depends = bool(run.reference)
        assert run.given == (mark if depends else "")
        assert (run.key != trained[run.cell, run.seed].key) == depends
    assert context.reference.given == mark
    assert context.reference.recipe == ""


def test_a_given_reference_is_no_training(suite):
    points = expand(suite)
    trained, given = count_work(SUITE, points, (), None), count_work(suite, points, (), None)
    assert given.trainings == trained.trainings - 1
    assert given.images_reference == 0
    assert given.images_retrained == trained.images_retrained
    assert given.images_scored == trained.images_scored  # it predicts its targets


def test_weights_that_do_not_fit_are_refused_before_anything_is_decoded(tmp_path, monkeypatch):
    torch.save({"a": torch.zeros(1)}, tmp_path / "w.pt")
    monkeypatch.setattr(runner, "decode_dataset", None)
    suite = replace(SUITE, given=title(str(tmp_path / "w.pt")))
    with pytest.raises(CallerError, match="does not fit the suite's network"):
        request = runner.Request(suite, references=(str(tmp_path / "w.pt"),))
        runner.run_suite(request, Workspace(tmp_path), None, Console(file=StringIO()))
