"""What runs cost on this machine: counted work, times rates that are measured on the spot."""

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple

import torch

from roarbench.datasets import DatasetRecord, find_dataset
from roarbench.datasets.subsets import check_limit
from roarbench.degrade import DegradedImages
from roarbench.estimators import Estimator, find_estimator
from roarbench.estimators.base import Batch
from roarbench.estimators.engine import importance_maps, passes
from roarbench.models import build
from roarbench.plan import CLEAN, Point, Suite
from roarbench.ranking import Layout, encode, sort_keys, tie_order
from roarbench.recipes import find_recipe
from roarbench.terms import Retrain, Unit
from roarbench.train import Normalisation, fit, predict
from roarbench.work import EXPLAINED
from roarbench.workspace import needs_reference, stored_levels

_STEPS = 8  # training steps that are timed, after as many that are not


class Rates(NamedTuple):
    """Processor seconds of one core.

    Attributes:
        train: One image in one epoch of training.
        predict: One test image.
        explain: One image, forward and backward once.
        rank: One image, ranked by one estimator.
    """

    train: float
    predict: float
    explain: float
    rank: float


class Work(NamedTuple):
    """What there is to do, counted.

    Attributes:
        trainings: Networks trained from scratch, the reference among them.
        scorings: Runs that only score the reference.
        images_trained: Training images times epochs, over all trainings.
        images_scored: Test images, over all runs.
        images_explained: Images times forward passes of the reference.
        images_ranked: Images times rankings.
        disk: Bytes of decoded images, rankings and results.
    """

    trainings: int
    scorings: int
    images_trained: float
    images_scored: int
    images_explained: int
    images_ranked: int
    disk: int

    def seconds(self, rates: Rates) -> float:
        """Core-seconds."""
        counts = (self.images_trained, self.images_scored, self.images_explained, self.images_ranked)
        return sum(count * rate for count, rate in zip(counts, rates, strict=True))


def count_work(suite: Suite, points: Collection[Point], done: Collection[Point], limit: int | None) -> Work:
    """Count what these points need.

    Args:
        suite: What they belong to.
        points: Those that are missing.
        done: Those that are stored; their reference and rankings are there already.
        limit: Images per split if the data set is made small.

    Raises:
        DataError: The small version would lack a class.
    """
    record = find_dataset(suite.dataset)
    check_limit(record, limit)
    train, test = (min(limit or n, n) for n in (record.train_images, record.test_images))
    trained = [point for point in points if point.cell.retrain is not Retrain.NONE]
    rankings = _rankings(points) - _rankings(done)
    reference = int(_explained(points) and not _explained(done))
    epochs = len(trained) * find_recipe(suite.recipe).epochs + reference * find_recipe(suite.reference_recipe).epochs
    layouts = [Layout(_shape(record), unit, stored_levels(suite)) for _, unit in rankings]
    planes = sum(layout.planes * layout.width for layout in layouts)
    return Work(
        trainings=len(trained) + reference,
        scorings=len(points) - len(trained),
        images_trained=epochs * train,
        images_scored=len(points) * test + reference * (train + test),
        images_explained=passes({estimator for estimator, _ in rankings}).forward * (train + test),
        images_ranked=len(rankings) * (train + test),
        disk=(train + test) * (planes + record.channels * record.size**2) + len(points) * test // 8,
    )


def _rankings(points: Collection[Point]) -> set[tuple[Estimator, Unit]]:
    """The rankings that these points remove by."""
    cells = {(point.cell.estimator, point.cell.unit) for point in points if point.cell.estimator != CLEAN}
    wanted = {(find_estimator(name), unit) for name, unit in cells}
    return {(estimator, unit) for estimator, unit in wanted if estimator.mapped}


def _explained(points: Collection[Point]) -> bool:
    return any(needs_reference(point.cell) for point in points)


def measure(suite: Suite) -> Rates:
    """Time each kind of work on this processor, in a few seconds, on made-up images of the suite's shape."""
    record, recipe = find_dataset(suite.dataset), find_recipe(suite.recipe)
    n = max(_STEPS * recipe.batch, EXPLAINED)
    inputs = _made_up(record, n)
    generator = torch.Generator().manual_seed(0)
    model = build(suite.model, record.classes, record.channels, record.size, generator)
    norm = Normalisation((128.0,) * record.channels, (64.0,) * record.channels)
    labels = torch.randint(record.classes, (n,), generator=generator)
    short = replace(recipe, epochs=_STEPS * recipe.batch / n)
    batch = Batch(inputs.batch(torch.arange(EXPLAINED)) / 64 - 2, labels[:EXPLAINED], torch.arange(EXPLAINED))
    black = torch.full((record.channels, 1, 1), -2.0)
    layout = Layout(_shape(record), Unit.SCALAR, stored_levels(suite))
    importance = torch.rand(EXPLAINED, layout.features, generator=generator).numpy()
    ties = tie_order(batch.ids.numpy(), layout.features)
    return Rates(
        train=_timed(lambda: fit(model, inputs, labels, norm, short, 0)) / (_STEPS * recipe.batch),
        predict=_timed(lambda: predict(model, inputs, norm)) / n,
        explain=_timed(lambda: importance_maps([find_estimator("grad")], model.eval(), batch, black)) / EXPLAINED,
        rank=_timed(lambda: encode(sort_keys(importance, ties), layout)) / EXPLAINED,
    )


def _timed(work: Callable[[], object]) -> float:
    """Processor seconds of the second time; the first one warms up."""
    work()
    start = time.process_time()
    work()
    return time.process_time() - start


def _shape(record: DatasetRecord) -> tuple[int, int, int]:
    return (record.channels, record.size, record.size)


def _made_up(record: DatasetRecord, n: int) -> DegradedImages:
    """Random images with half of their features removed."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (n, *_shape(record)), dtype=torch.uint8, generator=generator)
    width = -(-pixels[0].numel() // 8)
    removed = torch.randint(256, (n, width), dtype=torch.uint8, generator=generator)
    return DegradedImages(pixels, removed, torch.full((record.channels,), 128.0), Unit.SCALAR)
