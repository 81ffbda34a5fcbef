"""Quantus' scores in the store, each derived again by plain loops; and the run that asks for them."""

import csv
import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from io import StringIO

import numpy as np
import pytest
import torch

from roarbench.analysis.faithfulness import METRICS, score_specs
from roarbench.execution import jobs, quantus
from roarbench.execution.quantus import evaluate
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.protocols.roar import ROAR
from tests.helpers.command_line import publish
from tests.helpers.tiny_suite import SUITE, TEST, make_work

pytestmark = pytest.mark.skipif(not find_spec("quantus"), reason="Quantus is not installed")  # its import is slow

IDS = [metric.id for metric in METRICS]
ROUNDING = 1e-5  # float32 sums in another order, of probabilities


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    work = make_work(tmp_path_factory.mktemp("work"))
    jobs.train_reference(work.explained[0])
    return work


@pytest.fixture(scope="module")
def explained(work):
    return quantus._explain(work.explained[0], "grad", 64)


def chance(explained, images):
    """Softmax probability of the targets, float64 (n,)."""
    with torch.no_grad():
        logits = explained.model(torch.from_numpy(images.astype(np.float32)))
    return logits.double().softmax(1).numpy()[np.arange(len(images)), explained.targets]


def flat(values):
    return values.reshape(len(values), -1)


def pixel_flipping(explained):
    """24 steps of 8 scalars, an eighth of the 64 pixels."""
    steps = []
    for removed in range(8, 193, 8):
        images = flat(explained.images).copy()
        for image, importance in zip(images, flat(explained.maps).tolist(), strict=True):
            image[sorted(range(192), key=lambda place: -importance[place])[:removed]] = 0
        steps.append(chance(explained, images.reshape(explained.images.shape)))
    return np.mean(steps, axis=0)


def region_perturbation(explained):
    """The 16 most important of 8 x 8 regions, here of a pixel each, with all channels."""
    clean, images, losses = chance(explained, explained.images), explained.images.copy(), []
    sums = flat(explained.maps.astype(np.float64).sum(axis=1))
    for place in np.argsort(-sums, axis=1)[:, :16].T:
        for image, pixel in zip(images, place, strict=True):
            image[:, pixel // 8, pixel % 8] = 0
        losses.append(clean - chance(explained, images))
    return np.mean(losses, axis=0)


def faithfulness_correlation(explained):
    """50 random subsets of 24 scalars."""
    draws = np.random.RandomState(0)
    clean, losses, sums = chance(explained, explained.images), [], []
    for _ in range(50):
        images = flat(explained.images).copy()
        subsets = [draws.choice(192, 24, replace=False) for _ in images]
        for image, subset in zip(images, subsets, strict=True):
            image[subset] = 0
        losses.append(clean - chance(explained, images.reshape(explained.images.shape)))
        sums.append([row[subset].sum() for row, subset in zip(flat(explained.maps), subsets, strict=True)])
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(np.transpose(losses), np.transpose(sums), strict=True)])


SLOW = dict(zip(IDS, (pixel_flipping, region_perturbation, faithfulness_correlation), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("metric", IDS)
def test_a_score_is_what_its_description_says_and_missing_where_a_map_is_the_same_everywhere(metric, explained):
    # a correlation divides by the small spread of the losses, so rounding weighs more there
    tolerance = 1e-3 if metric == "faithfulness-correlation" else ROUNDING
    values = evaluate(metric, explained)
    np.testing.assert_allclose(values, SLOW[metric](explained), atol=tolerance, rtol=0)
    spec = score_specs(SUITE, "")["grad", metric]
    flat_map = evaluate(metric, explained._replace(maps=np.ones_like(explained.maps)))
    for found, count in ((values, TEST), (np.append(flat_map, values), TEST), (flat_map, 0)):
        score = quantus._score(spec, "grad", found, {})
        assert (score.value, score.count) == (values.mean() if count else None, count)


RUN = ("run", "--suite", "planted", "--limit", "40")


@pytest.mark.slow
def test_a_run_with_quantus_adds_its_columns(monkeypatch, tmp_path, call):
    publish(monkeypatch, replace(SUITES["planted"], blocks=(Block(ROAR, ("truth", "random"), (0.5,), seeds=1),)))
    for _ in range(2):
        answer = call(*RUN, "--store", tmp_path, "--with", "quantus", "--format", "json")
        assert answer.code == 0, answer.err
    assert "Quantus: " not in answer.err, "nothing is computed twice"
    for row in json.loads(answer.out)["rows"]:
        assert list(row["quantus"]) == IDS
        assert 0 <= row["quantus"]["pixel-flipping"] <= 1
        assert -1 <= row["quantus"]["region-perturbation"] <= 1
        assert -1 <= row["quantus"]["faithfulness-correlation"] <= 1
    shown = call("table", *RUN[1:], "--store", tmp_path, "--format", "csv").out
    found = {row["estimator"]: row for row in csv.DictReader(StringIO(shown))}
    assert {name for name, row in found.items() if row["quantus_pixel-flipping"]} == {"truth", "random"}


def test_without_the_extra_the_command_says_so_before_it_works(monkeypatch, tmp_path, call):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(quantus, "version", missing)
    answer = call(*RUN, "--store", tmp_path, "--with", "quantus")
    assert (answer.code, answer.out, list(tmp_path.iterdir())) == (2, "", [])
    assert answer.err == "roarbench: Quantus is not installed; write pip install 'roarbench[quantus]'\n"
