"""`examples/roar.py` gives the rankings, degraded images, accuracies and gains of roarbench."""

import numpy as np
import pytest
import roar
import torch

from roarbench.common.enums import Order, Precision, Unit
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.map_ranking import rank_to_bit_planes
from roarbench.compute.prediction import Normalisation, predict_logits
from roarbench.compute.ranking import Layout, draw_tie_order, find_removed_bits
from roarbench.compute.ranking import rank as rank_in_engine
from roarbench.compute.recipe import Augmentation, Decay, Recipe
from roarbench.compute.train import fit
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Batch
from roarbench.report.paper_claims import compute_curve_gain
from tests.helpers.processes import ROOT

LAYOUT = Layout((1, 8, 8), Unit.SCALAR, roar.LEVELS[1:])
EPOCHS, SCALE = 10, 16  # the engine's images are bytes, here 0 … 16
RECIPE = Recipe(
    *("digits", 1, EPOCHS, 64, 0.1, 0, Decay.LINEAR, Augmentation.NONE, Precision.FLOAT32),
    weight_decay=5e-4,
    smoothing=0,
)
EXPLAINERS = (roar.compute_gradient, roar.draw_random)


@pytest.fixture(scope="module")
def splits():
    """The explained network; images, labels and maps, by the gradient and by chance, of both splits."""
    images, labels, test_images, test_labels = roar.load_digits()
    network = roar.train(images, labels, 0, EPOCHS)
    found = [(images, labels), (test_images, test_labels)]
    return network, [(x, y, {explain: explain(network, x) for explain in EXPLAINERS}) for x, y in found]


def degrade_in_engine(images, maps, t, fill):
    """Rank maps and remove features as a run does, through stored bit-planes."""
    planes = rank_to_bit_planes(maps, np.arange(len(maps)), LAYOUT).planes
    removed = torch.from_numpy(find_removed_bits(planes, t, Order.MORF, LAYOUT))
    return DegradedImages((SCALE * images).byte(), removed, torch.tensor([SCALE * fill]), Unit.SCALAR)


def test_example_ranks_as_the_engine(splits):
    network, ((images, _, maps), _) = splits
    with torch.no_grad():
        targets = network(images).argmax(1)
    batch = Batch(images, targets, torch.arange(len(images)))
    found = compute_importance_maps([find_estimator("grad")], network, batch, torch.zeros(1, 1, 1))["grad"]
    gradient = maps[roar.compute_gradient]
    torch.testing.assert_close(found, gradient, rtol=1e-5, atol=1e-6)
    untied = [row.unique().numel() == 64 for row in gradient.flatten(1)]
    assert sum(untied) > 0.95 * len(images)
    ranked = rank_in_engine(gradient.flatten(1).numpy(), draw_tie_order(np.arange(len(images)), 64))
    np.testing.assert_array_equal(roar.rank(gradient)[untied], ranked[untied])


@pytest.mark.parametrize("t", roar.LEVELS)
def test_example_degrades_images_as_the_engine(splits, t):
    _, ((images, _, maps), _) = splits
    fill = images.mean().item()
    for drawn in maps.values():
        untied = torch.tensor([row.unique().numel() == 64 for row in drawn.flatten(1)])
        degraded = degrade_in_engine(images, drawn, t, fill).batch(torch.arange(len(images))) / SCALE
        expected = roar.remove(images, roar.rank(drawn), t, fill)
        assert torch.equal(degraded[untied], expected[untied])
        assert int((expected[0] == torch.tensor(fill)).sum()) == round(64 * t)


@pytest.mark.slow
@pytest.mark.parametrize("explain", EXPLAINERS)
def test_example_has_accuracy_of_engine_within_noise(splits, explain):
    """Trainings differ in their draws. 898 images have a standard error of 1.6 points; trainings differ by about 1."""
    _, found = splits
    (_, labels, _), (_, test_labels, _) = found
    fill, t = found[0][0].mean().item(), 0.9
    degraded, test = (roar.remove(images, roar.rank(maps[explain]), t, fill) for images, _, maps in found)
    inputs, test_inputs = (degrade_in_engine(images, maps[explain], t, fill) for images, _, maps in found)
    norm, accuracies = Normalisation((0.0,), (float(SCALE),)), []
    for seed in (1, 2):
        network = roar.train(degraded, labels, seed, EPOCHS)
        other = roar.train(degraded, labels, seed, epochs=0)  # random weights
        fit(other, inputs, labels, norm, RECIPE, seed)
        right = predict_logits(other, test_inputs, norm, 128).argmax(1) == test_labels
        accuracies.append((roar.compute_accuracy(network, test, test_labels), right.double().mean().item()))
    mine, engine = np.mean(accuracies, 0)
    assert mine == pytest.approx(engine, abs=0.05)
    assert mine > 0.9 if explain is roar.compute_gradient else 0.2 < mine < 0.45


def test_example_has_gain_of_engine():
    random, curve = ([0.9, 0.8, 0.7, 0.5, 0.4, 0.2], [0.9, 0.7, 0.7, 0.6, 0.1, 0.1])
    exact = compute_curve_gain(*(dict(zip(roar.LEVELS, values, strict=True)) for values in (curve, random)))
    assert roar.compute_gain(random, curve) == pytest.approx(exact, abs=1e-4)


def test_readme_names_example_first():
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert page.index("examples/roar.py") < page.index("docs/architecture.md")
    assert "examples/roar.py" in (ROOT / "README.md").read_text("utf-8")
