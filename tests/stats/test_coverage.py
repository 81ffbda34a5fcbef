"""A small version of `studies/coverage`, whose README has the large one."""

import numpy as np
import pytest

from roarbench.stats.curves import area_weights
from studies.coverage import run, specific, worlds

pytestmark = pytest.mark.slow

BOARDS = 100


def test_the_truth_of_a_synthetic_board_is_the_mean_of_many() -> None:
    world = worlds.World("test", 3, 1, images=2000)
    generator = np.random.default_rng(0)
    boards = [worlds.experiment(world, worlds.setting(world, generator), generator).scores for _ in range(40)]
    for point, accuracy in worlds.truth(world).items():
        means = [board.correct[point].mean() for board in boards]
        assert abs(np.mean(means) - accuracy) < 5 * np.std(means) / np.sqrt(len(means))


def test_references_and_trainings_of_synthetic_boards_vary_as_the_world_says() -> None:
    world = worlds.World("test", 40, 1, images=500, of_references=(2.0, 2.0), of_trainings=(1.0, 1.0))
    generator = np.random.default_rng(0)
    spread = run.spread_of([worlds.experiment(world, worlds.setting(world, generator), generator).scores])
    weights = area_weights((0.0, *world.levels))[1:]
    expected = np.sqrt(2.0**2 + (weights**2).sum() * 1.0**2)  # of a gain: the reference's, and trainings at two levels
    assert spread.references.freedom > 60
    assert 0.8 * expected < 100 * spread.references.deviation < 1.2 * expected
    assert abs(spread.references.shared - 0.5 * 2.0**2 / expected**2) < 0.25
    assert 0.8 < 100 * spread.trainings.deviation < 1.2


@pytest.fixture(scope="module")
def two_references() -> dict[str, dict[str, tuple[float, float]]]:
    """What is promised to 95%, with two references; a large spread of theirs, so that few images do."""
    world = worlds.World("test", 2, 2, images=600, of_references=(3.0, 5.0), of_trainings=(0.5, 0.5))
    found: dict[str, dict[str, tuple[float, float]]] = run.summary(run.simulate(world, BOARDS, 1, resamples=300))
    return found


@pytest.mark.parametrize("promise", ["accuracies", "gains", "controls", "over_sobel", "between", "predicted"])
def test_intervals_keep_their_promises_with_two_references(
    two_references: dict[str, dict[str, tuple[float, float]]], promise: str
) -> None:
    mean, error = two_references["here"][promise]
    assert mean > 0.93 - 3 * error  # as far as so few boards can tell; two references leave each row's own spread open


def test_places_and_verdicts_keep_theirs(two_references: dict[str, dict[str, tuple[float, float]]]) -> None:
    wrong, error = two_references["other"]["false_discoveries"]
    assert wrong < 0.05 + 3 * error
    assert two_references["other"]["all_places"][0] > 0.95 - 3 * np.sqrt(0.95 * 0.05 / BOARDS)


@pytest.mark.parametrize("promise", ["gains", "over_sobel", "between", "predicted"])
def test_told_of_one_reference_they_would_not(
    two_references: dict[str, dict[str, tuple[float, float]]], promise: str
) -> None:
    """The simulation is able to fail: pairs of trainings on one reference do not show how references differ."""
    mean, error = two_references["one_reference"][promise]
    assert mean < 0.9 - 3 * error


def test_one_reference_keeps_its_promise_for_this_network_only() -> None:
    world = worlds.World("test", 1, 2, images=600, of_references=(3.0, 5.0), of_trainings=(0.5, 0.5))
    found = run.summary(run.simulate(world, BOARDS, 1, resamples=300))["here"]
    mean, error = found["network"]
    assert abs(mean - 0.95) < 0.02 + 3 * error
    assert found["gains"][0] < 0.8 and found["predicted"][0] < 0.8


@pytest.mark.parametrize("number", (1, 2))
def test_specific_gains_hold_and_rows_that_know_nothing_have_no_verdict(number: int) -> None:
    """Networks whose luck is four times as large widen nothing, because it is in both answers."""
    world = specific.WORLDS[number]
    assert world.luck == (1.0, 4.0)[number - 1]
    found = specific.SpecificOutcome(*specific.simulate(world, 30, seed=1).mean(0))
    assert found.controls > 0.85 and found.explained > 0.9
    assert found.wrong < 0.1 and found.wrongly_beats < 0.1
    assert found.found > 0.5


@pytest.mark.parametrize("trials", (5, 20))
def test_rows_beside_the_suites_own_that_ignore_the_reference_narrow_nothing(trials: int) -> None:
    world = next(world for world in specific.WORLDS if world.trials == trials)
    found = specific.SpecificOutcome(*specific.simulate(world, 20, seed=1, resamples=300).mean(0))
    assert found.explained > 0.9 and found.wrong < 0.1
    assert found.width > 1.4
