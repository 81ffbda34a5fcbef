"""How fast it goes: a clock that tests move on, budgets, and assumptions against what they are taken from."""

import pytest
import torch

from roarbench.errors import NoRoom
from roarbench.forecast import rates
from roarbench.forecast.rates import CORE, Rates, assume, measure
from roarbench.forecast.workload import PARTS, Work
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_suite

WORK = Work(*[9] * len(Work._fields))._replace(
    **{"references": 1, "images_decoded": 11, "images_reference": 13, "images_retrained": 2, "images_scored": 3},
    **{"images_explained": 5, "copies_drawn": 4, "images_submitted": 6, "images_ranked": 7, "train": 10_000},
)


def test_seconds_of_each_part_are_counts_times_rates():
    made = Rates("one core", 0, "", decode=1e5, train=1, predict=10, explain=100, draw=20, rank=1000, submission=1e4)
    parts = made.seconds(WORK)
    assert tuple(parts) == PARTS
    assert tuple(parts.values()) == (11e5, 13, 500, 80, 6e4, 7000, 2, 30)


def taking(clock, seconds, images):
    def kernel(*arguments):
        clock["now"] += seconds * images(*arguments)
        return {}

    return kernel


def test_rates_are_measured_per_image(monkeypatch):
    """A clock that each kernel moves on by its own seconds an image: the rates are those seconds."""
    clock, recipe = {"now": 0.0}, {}
    monkeypatch.setattr(rates.time, "process_time", lambda: clock["now"])

    def fit(model, inputs, labels, norm, short, seed):
        recipe["steps"] = short.epochs * len(inputs) / short.batch
        clock["now"] += 2.0 * recipe["steps"] * short.batch

    monkeypatch.setattr(rates, "fit", fit)
    monkeypatch.setattr(rates, "predict", taking(clock, 3.0, lambda model, inputs, norm, batch: len(inputs)))
    monkeypatch.setattr(rates, "importance_maps", taking(clock, 5.0, lambda some, model, batch, *rest: len(batch.ids)))
    monkeypatch.setattr(rates, "encode", taking(clock, 7.0, lambda keys, layout: len(keys)))
    monkeypatch.setattr(rates, "noise_draws", taking(clock, 13.0, lambda images, ids, *rest: len(ids)))
    monkeypatch.setattr(rates, "decode_image", taking(clock, 11.0, lambda photo, record: 1))
    found = measure(find_suite("planted"))
    assert recipe["steps"] == pytest.approx(8)
    assert (found.train, found.predict, found.explain) == pytest.approx((2.0, 3.0, 5.0))
    assert (found.rank, found.decode, found.draw) == pytest.approx((7.0, 11.0, 13.0))
    assert found.measured


@pytest.mark.parametrize(
    ("left", "tried"),
    [
        ({"references": 0}, ["quick@1"]),
        ({"images_retrained": 0}, ["quick-reference@1"]),
        ({}, ["quick-reference@1", "quick@1"]),
        ({"references": 0, "images_retrained": 0}, []),
    ],
)
def test_a_step_of_each_training_that_there_is_to_do_is_tried_at_its_own_size(left, tried, monkeypatch):
    seen = []

    def fit(model, inputs, labels, norm, recipe, seed):
        seen.append(recipe.title)
        assert recipe.epochs * len(inputs) == len(labels) == recipe.batch == find_recipe(recipe.title).batch
        raise NoRoom("no room")

    monkeypatch.setattr(rates, "fit", fit)
    found = rates._too_large(find_suite("quick@1"), WORK._replace(**left))
    assert seen == tried
    assert found == tuple((title, "no room") for title in tried)


def test_assumed_rates_are_operations_over_speed():
    found = assume(find_suite("planted"), CORE)  # 4,415,744 operations of one pass forward (tests/models/test_cost.py)
    assert found.train == pytest.approx(220.787e-6, rel=1e-5)  # three times that at 60 GFLOP/s
    assert found.predict == pytest.approx(110.394e-6, rel=1e-5)  # once at 40
    assert found.explain == pytest.approx(220.787e-6, rel=1e-5)  # twice at 40
    assert not found.measured


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_rates_of_a_gpu():
    found = measure(find_suite("cifar10"))
    assert found.gpus >= 1
    assert 0 < found.train < 1e-3
