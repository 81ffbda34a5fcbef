"""A small version of `studies/coverage`, whose README has the large one."""

import numpy as np
import pytest

from studies.coverage import run, specific, worlds

pytestmark = pytest.mark.slow

BOARDS = 100


@pytest.fixture(scope="module")
def two_references() -> dict[str, dict[str, tuple[float, float]]]:
    """What is promised to 95%, with two references; a large spread of theirs, so that few images do."""
    world = worlds.World("test", 2, 2, images=600, of_references=(3.0, 5.0), of_trainings=(0.5, 0.5))
    found: dict[str, dict[str, tuple[float, float]]] = run.summary(run.simulate(world, BOARDS, 1, resamples=300))
    return found


def test_intervals_places_and_verdicts_keep_their_promises_with_two_references(two_references) -> None:
    """As far as so few boards can tell; the simulation is able to fail: told of one reference, gains would."""
    for promise in ("accuracies", "gains", "controls", "over_sobel", "between", "predicted"):
        mean, error = two_references["here"][promise]
        assert mean > 0.93 - 3 * error, promise  # two references leave each row's own spread open
    for promise in ("gains", "over_sobel", "between", "predicted"):
        mean, error = two_references["one_reference"][promise]
        assert mean < 0.9 - 3 * error, promise
    wrong, error = two_references["other"]["false_discoveries"]
    assert wrong < 0.05 + 3 * error
    assert two_references["other"]["all_places"][0] > 0.95 - 3 * np.sqrt(0.95 * 0.05 / BOARDS)


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
