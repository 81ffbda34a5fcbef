"""A small version of `scripts/simulate_coverage.py`, whose large one is in docs/statistics.md."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
BOARDS = 80


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module("simulate_coverage")


def test_the_truth_of_a_synthetic_board_is_the_mean_of_many(script: ModuleType) -> None:
    world = script.World("test", seeds=3, images=2000)
    generator = np.random.default_rng(0)
    boards = [script.answers(world, 3, generator) for _ in range(30)]
    for point, accuracy in script.truth(world).items():
        means = [board.correct[point].mean() for board in boards]
        assert abs(np.mean(means) - accuracy) < 5 * np.std(means) / np.sqrt(len(means))


def test_seeds_of_a_synthetic_board_vary_as_the_world_says(script: ModuleType) -> None:
    world = script.World("test", seeds=2, images=500, deviation=1.5, drops=(0.0,) * 60)
    spread = script.seed_spread([script.answers(world, 2, np.random.default_rng(0))])
    # the cells' accuracies are .53 to .8, where a normal's density is .70 to 1 of its largest
    assert 0.7 * 1.5 < 100 * spread.deviation < 1.2 * 1.5


@pytest.mark.parametrize("seeds", [2, 5])
def test_intervals_places_and_discoveries_keep_their_promises(script: ModuleType, seeds: int) -> None:
    world = script.World("test", seeds, images=500, deviation=1.5)
    outcomes = script.simulate(world, BOARDS, seed=seeds, resamples=300)
    for promise in ("accuracies", "gains", "over_sobel"):
        shares = np.array([getattr(one, promise) for one in outcomes])
        error = shares.std() / np.sqrt(BOARDS)
        assert abs(shares.mean() - 0.95) < 0.02 + 3 * error, promise  # 93 to 97%, as far as so few boards can tell
    wrong = np.array([one.false_discoveries for one in outcomes])
    assert wrong.mean() < 0.05 + 3 * wrong.std() / np.sqrt(BOARDS)
    assert np.mean([one.all_places for one in outcomes]) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / BOARDS)


def test_images_alone_would_not_keep_it(script: ModuleType) -> None:
    """The simulation is able to fail: intervals without the trainings' chance miss far too often."""
    outcomes = script.simulate(script.World("test", 2, images=2000, deviation=2.0), 40, seed=0, resamples=200)
    shares = np.array([one.images_only for one in outcomes])
    assert shares.mean() < 0.93 - 3 * shares.std() / np.sqrt(40)
