"""Quantus scores match plain loops, and runs with Quantus show them."""

import csv
import json
from dataclasses import replace
from importlib.util import find_spec
from io import StringIO

import numpy as np
import pytest
import torch

from roarbench.analysis.faithfulness_scores import METRICS, list_score_specs
from roarbench.execution import quantus
from roarbench.execution.quantus import QuantusInput, score_maps
from roarbench.plan.protocols import ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from tests.helpers.command_line import publish
from tests.helpers.tiny_suite import SUITE, TEST, make_work

pytestmark = pytest.mark.skipif(not find_spec("quantus"), reason="Quantus is not installed")  # its import is slow

IDS = [metric.id for metric in METRICS]
WHOLE = np.zeros((TEST, 192), bool)


def compute_probability(explained, gone=WHOLE):
    """Compute the target probability, float64 (n,), with the scalars in `gone`, bool (n, 192), at 0."""
    images = np.where(gone.reshape(explained.images.shape), np.float32(0), explained.images)
    with torch.no_grad():
        logits = explained.model(torch.from_numpy(images))
    return logits.double().softmax(1).numpy()[np.arange(len(images)), explained.targets]


def compute_ranks(importance):
    """Compute the rank of each scalar of an image, 0 for the most important."""
    return np.argsort(np.argsort(-importance, axis=1, kind="stable"), axis=1)


def compute_pixel_flipping(explained):
    """Remove 8 scalars, an eighth of the 64 pixels, in each of 24 steps."""
    order = compute_ranks(explained.maps.reshape(TEST, -1))
    return np.mean([compute_probability(explained, order < removed) for removed in range(8, 193, 8)], axis=0)


def compute_region_perturbation(explained):
    """Remove the 16 most important of 8 x 8 regions, here one pixel each, with all channels."""
    order = compute_ranks(explained.maps.astype(np.float64).sum(axis=1).reshape(TEST, -1))
    left = [compute_probability(explained, np.tile(order < n, 3)) for n in range(1, 17)]
    return np.mean(compute_probability(explained) - left, axis=0)


def compute_faithfulness_correlation(explained):
    """Correlate losses and importance over 50 random subsets of 24 scalars."""
    draws, losses, sums = np.random.RandomState(0), [], []
    for _ in range(50):
        gone = WHOLE.copy()
        for row in gone:
            row[draws.choice(192, 24, replace=False)] = True
        losses.append(compute_probability(explained) - compute_probability(explained, gone))
        sums.append((explained.maps.reshape(TEST, -1) * gone).sum(axis=1))
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(np.transpose(losses), np.transpose(sums), strict=True)])


@pytest.mark.slow
def test_quantus_scores_match_slow_loops_and_skip_constant_maps(tmp_path):
    explained = quantus._make_quantus_input(make_work(tmp_path).explained[0], "grad", 64)
    for metric, slowly in zip(
        IDS, (compute_pixel_flipping, compute_region_perturbation, compute_faithfulness_correlation), strict=True
    ):
        # float32 sums in another order, of probabilities; a correlation divides by the small spread of the losses
        tolerance = 1e-3 if metric == "faithfulness-correlation" else 1e-5
        values = score_maps(metric, explained)
        np.testing.assert_allclose(values, slowly(explained), atol=tolerance, rtol=0, err_msg=metric)
        spec = list_score_specs(SUITE, "")["grad", metric]
        flat_map = score_maps(metric, explained._replace(maps=np.ones_like(explained.maps)))
        for found, count in ((values, TEST), (np.append(flat_map, values), TEST), (flat_map, 0)):
            score = quantus._make_score(spec, "grad", found, {})
            assert (score.value, score.count) == (values.mean() if count else None, count)


def make_linear_input(count=6, side=8, channels=3):
    """A linear network with a nearly linear softmax; its exact explanation is the image times weights."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * side**2, 4, bias=False)).eval()
    network[1].weight.data *= 0.05
    images = (np.random.default_rng(0).random((count, channels, side, side)) - 0.5).astype(np.float32)
    weights = network[1].weight.detach().numpy()
    targets = network(torch.from_numpy(images)).argmax(1).numpy()
    maps = images * (weights[targets] - weights.mean(0)).reshape(images.shape)
    return QuantusInput(network, images, targets, maps)


@pytest.mark.parametrize("metric", IDS)
def test_constant_map_leaves_out_its_own_image_only(metric):
    inputs = make_linear_input()
    expected = score_maps(metric, inputs)
    for value in (0, 1, -3):
        maps = inputs.maps.copy()
        maps[2] = value
        np.testing.assert_allclose(
            score_maps(metric, inputs._replace(maps=maps)), np.where(np.arange(6) == 2, np.nan, expected)
        )
    steps = np.arange(6.0)[:, None, None, None] + np.zeros_like(inputs.maps)  # constant, but not equal
    assert np.isnan(score_maps(metric, inputs._replace(maps=steps))).all()


@pytest.mark.parametrize("side", [8, 10])  # Quantus pads maps of 10 pixels with 0 to 11 regions per side
@pytest.mark.parametrize("metric", IDS)
def test_maps_below_zero_have_the_scores_of_maps_above_zero(metric, side):
    inputs = make_linear_input(side=side)
    expected = score_maps(metric, inputs)
    for shift in (-5, 5):
        found = score_maps(metric, inputs._replace(maps=inputs.maps.astype(np.float64) + shift))
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(6, 8, 8), (6, 1, 8, 8), (6, 3, 8, 8)])
def test_exact_pixel_map_has_faithfulness_correlation_1(shape):
    """Subsets of scalars would give about 0.5: a pixel's value would count for each of its channels."""
    inputs = make_linear_input()
    sums = inputs.maps.sum(1)
    maps = np.broadcast_to(sums if len(shape) == 3 else sums[:, None], shape)
    assert score_maps("faithfulness-correlation", inputs._replace(maps=maps)).min() > 0.999
    noise = np.random.default_rng(1).normal(size=shape[:1] + shape[-2:])
    maps = np.broadcast_to(noise if len(shape) == 3 else noise[:, None], shape)
    assert abs(score_maps("faithfulness-correlation", inputs._replace(maps=maps)).mean()) < 0.3


@pytest.mark.parametrize(("side", "channels"), [(1, 30), (3, 3), (5, 1), (30, 1), (8, 9)])
def test_metrics_take_images_of_any_side(side, channels):
    """Quantus refuses steps that do not divide the pixels (112 of 900) and subsets larger than a channel.

    One pixel has no order of regions.
    """
    inputs = make_linear_input(2, side, channels)
    undefined = [metric for metric in IDS if np.isnan(score_maps(metric, inputs)).any()]
    assert undefined == (["region-perturbation"] if side == 1 else [])


RUN = ("run", "--suite", "planted", "--max-images", "40")


@pytest.mark.slow
def test_run_with_quantus_adds_columns(monkeypatch, tmp_path, call):
    publish(monkeypatch, replace(SUITES["planted"], blocks=(Block(ROAR, ("truth", "random"), (0.5,), seeds=1),)))
    for _ in range(2):
        answer = call(*RUN, "--store", tmp_path, "--with", "quantus", "--format", "json")
        assert answer.code == 0, answer.err
    assert "Quantus: " not in answer.err, "the second run computes no score again"
    for row in json.loads(answer.out)["rows"]:
        assert list(row["quantus"]) == IDS
    shown = call("table", *RUN[1:], "--store", tmp_path, "--format", "csv").out
    found = {row["estimator"]: row for row in csv.DictReader(StringIO(shown))}
    assert {name for name, row in found.items() if row["quantus_pixel-flipping"]} == {"truth", "random"}


def test_run_with_quantus_fails_when_quantus_is_missing(monkeypatch, tmp_path, call):
    monkeypatch.setattr(quantus, "read_package_version", lambda name: "")
    answer = call(*RUN, "--store", tmp_path, "--with", "quantus")
    assert (answer.code, answer.out, list(tmp_path.iterdir())) == (2, "", [])
    assert answer.err == "roarbench: Quantus is not installed; run pip install 'roarbench[quantus]'\n"
