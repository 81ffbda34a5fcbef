"""Simulate boards of ROAR with known true gains; a prediction is correct if a normal hidden number is large enough."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from roarbench.plan.protocols import ROAR
from roarbench.stats.correctness_and_gain import (
    POINTS,
    UNTOUCHED,
    Bits,
    Correctness,
    Point,
    compute_gain,
    compute_trapezoid_weights,
)

CLEAN_ACCURACY = 0.8
CONTROLS = ("random", "sobel", "random-blurred")
DROPS = (0.0, 0.0, 3.0, -6.0, -1.0, 1.5, 1.5, 0.0, 4.0)  # `World.drops` of the controls, then of the explained rows
# variances of the hidden number: an image's difficulty for all cells, for a cell, for an explained network in a cell,
# and for a training run
SHARED, OWN, EXPLAINED, NOISE = 0.6, 0.25, 0.05, 0.1


@dataclass(frozen=True)
class World:
    """Settings of the simulated boards."""

    name: str  # name in the table
    references: int  # number of explained networks
    trainings: int  # training runs per explained network; a control has as many training runs as another row in total
    drops: tuple[float, ...] = DROPS  # true mean drop of every estimator below Random, in accuracy points at t = 1
    levels: tuple[float, ...] = (0.5, 0.9)  # levels above 0
    images: int = 3925  # number of test images
    # standard deviation of a row's gain between explained networks in accuracy points, for the first and the last row;
    # the rows between them are evenly spaced
    of_references: tuple[float, float] = (1.0, 2.3)
    shared: float = 0.5  # share of this variance that all rows have in common
    # standard deviation of a cell's accuracy between training runs in accuracy points, log-uniform in this range
    of_trainings: tuple[float, float] = (0.5, 1.0)

    @property
    def estimators(self) -> tuple[str, ...]:
        """Return the ids of the rows, controls first."""
        return (*CONTROLS, *(f"e{number}" for number in range(1, len(self.drops) - len(CONTROLS) + 1)))

    @property
    def explained(self) -> tuple[str, ...]:
        return self.estimators[len(CONTROLS) :]


WORLDS = (
    World("1 reference x 2 trainings", 1, 2, of_trainings=(0.3, 3.0)),
    World("2 references x 1 training", 2, 1, of_trainings=(0.3, 3.0)),
    World("3 references x 1 training", 3, 1, of_trainings=(0.3, 3.0)),
    World("3 references x 2 trainings", 3, 2, of_trainings=(0.3, 3.0)),
    World("5 references x 1 training", 5, 1, of_trainings=(0.3, 3.0)),
    World("2 x 1, references share nothing", 2, 1, shared=0.0),
    World("2 x 1, references share 80%", 2, 1, shared=0.8),
    World("3 x 1, references share 80%", 3, 1, shared=0.8),
    World("3 x 1, references alike", 3, 1, of_references=(0.0, 0.0)),
    World("3 x 1, 10,000 images", 3, 1, images=10_000),
    World("3 x 1, all rows equal to Random", 3, 1, drops=(0.0,) * 9),
    World("5 x 1, 20 rows, 5 levels", 5, 1, tuple(np.linspace(-6, 12, 19)), (0.1, 0.3, 0.5, 0.7, 0.9)),
    World("1 x 2, references alike", 1, 2, of_references=(0.0, 0.0)),
    World("1 x 5, references alike", 1, 5, of_references=(0.0, 0.0)),
)
DESIGNS = 5  # the first worlds have designs of suites; they are simulated most often


def compute_true_accuracies(world: World) -> dict[Point, float]:
    """Return the true accuracies: Random's accuracy falls linearly with t, and a row's gain grows linearly."""
    accuracies = {UNTOUCHED: CLEAN_ACCURACY}
    for name, drop in zip(world.estimators, world.drops, strict=True):
        for t in world.levels:
            accuracies[name, t] = CLEAN_ACCURACY - 0.3 * t - drop / POINTS * t
    return accuracies


def compute_gains(world: World, accuracies: dict[Point, float]) -> dict[str, float]:
    levels = (0.0, *world.levels)
    curves = {
        name: np.array([accuracies[UNTOUCHED], *(accuracies[name, t] for t in world.levels)])
        for name in world.estimators
    }
    return {name: float(compute_gain(levels, curve, curves["random"], ROAR.order)) for name, curve in curves.items()}


class Setting(NamedTuple):
    """Random numbers that all experiments on the same test images share."""

    shared: NDArray[np.float32]  # difficulty of the images for all cells
    own: dict[Point, NDArray[np.float32]]  # additional difficulty of the images for each cell
    trainings: dict[Point, float]  # standard deviation of a cell's accuracy between training runs, in accuracy points


def draw_setting(world: World, generator: np.random.Generator) -> Setting:
    points = compute_true_accuracies(world)
    shared = np.float32(SHARED**0.5) * _draw_normal(generator, world.images)
    own = {point: np.float32(OWN**0.5) * _draw_normal(generator, world.images) for point in points}
    low, high = np.log(np.maximum(world.of_trainings, 1e-9))
    return Setting(shared, own, {point: float(np.exp(generator.uniform(low, high))) for point in points})


def _draw_normal(generator: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return np.asarray(generator.standard_normal(shape, dtype=np.float32))


class Experiment(NamedTuple):
    """Simulated results of one board."""

    scores: Correctness
    accuracies: dict[Point, float]  # true accuracies for these explained networks, over all images and training runs


def draw_experiment(world: World, given: Setting, generator: np.random.Generator) -> Experiment:
    count = world.references * world.trainings
    explains = np.arange(count) % world.references
    common = generator.standard_normal(world.references)
    rows = dict(zip(world.explained, np.linspace(*world.of_references, len(world.explained)), strict=True))
    of_rows = {
        name: np.sqrt(world.shared) * common + np.sqrt(1 - world.shared) * generator.standard_normal(world.references)
        for name in rows
    }
    # an explained network shifts a curve in proportion to t, such that the gain has its standard deviation
    unit = float(compute_trapezoid_weights((0.0, *world.levels))[1:] @ np.array(world.levels))
    correct: dict[Point, Bits] = {}
    exact: dict[Point, float] = {}
    for point, accuracy in compute_true_accuracies(world).items():
        name, t = point
        threshold = norm.ppf(accuracy)
        hidden_unit = POINTS * norm.pdf(threshold)
        training = given.trainings[point] / hidden_unit
        reference = rows.get(name, 0.0) * t / unit / hidden_unit
        shift = -reference * of_rows[name] if name in rows else np.zeros(world.references)
        hidden = given.shared + given.own[point] + np.float32(NOISE**0.5) * _draw_normal(generator, count, world.images)
        if name in rows:
            hidden += np.float32(EXPLAINED**0.5) * _draw_normal(generator, world.references, world.images)[explains]
        else:
            hidden += np.float32(EXPLAINED**0.5) * _draw_normal(generator, count, world.images)
        hidden += (shift[explains] + training * generator.standard_normal(count))[:, None].astype(np.float32)
        line = threshold * np.sqrt(1 + training**2 + reference**2)
        correct[point] = hidden > -line
        exact[point] = float(np.mean(norm.cdf((line + shift) / np.sqrt(1 + training**2))))
    names = tuple(f"reference {number}" for number in explains)
    references = {(name, t): names for name in world.explained for t in world.levels}
    return Experiment(Correctness(world.estimators, world.levels, correct, references=references), exact)
