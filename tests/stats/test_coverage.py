"""A small version of `studies/coverage`, whose README has the large one."""

import numpy as np
import pytest

from roarbench.stats.bootstrap_intervals import FEWEST_IMAGES
from studies.coverage import few_images, paired, run, worlds

pytestmark = pytest.mark.slow

BOARDS = 50


def test_coverage_study_reaches_nominal_level_with_two_explained_networks():
    """Intervals that assume a single explained network fall short, so the simulation can fail."""
    world = worlds.World("test", 2, 2, images=600, of_references=(3.0, 5.0), of_trainings=(0.5, 0.5))
    found = run.simulate(world, BOARDS, 1, resamples=300)
    for promise in ("accuracies", "gains", "controls", "over_sobel", "between", "predicted"):
        mean, error = found["here"][promise]
        assert mean > 0.93 - 3 * error, promise  # two explained networks hardly determine each row's own variance
    for promise in ("gains", "over_sobel", "between", "predicted"):
        mean, error = found["one_reference"][promise]
        assert mean < 0.9 - 3 * error, promise
    wrong, error = found["other"]["false_discoveries"]
    assert wrong < 0.05 + 3 * error
    assert found["other"]["all_places"][0] > 0.95 - 3 * np.sqrt(0.95 * 0.05 / BOARDS)


def test_paired_gain_coverage_holds_under_large_training_noise():
    """Training noise four times as large widens no interval, because both answers share it."""
    world = paired.WORLDS[2]
    assert world.training_noise == 4.0
    found = paired.PairedOutcome(*paired.simulate(world, 30, seed=1).mean(0))
    assert found.controls > 0.85 and found.explained > 0.9
    assert found.wrong < 0.1 and found.wrongly_beats < 0.1
    assert found.found > 0.5


def test_paired_gain_coverage_holds_beside_model_free_submissions():
    world = next(world for world in paired.WORLDS if world.trials == 20)
    found = paired.PairedOutcome(*paired.simulate(world, 20, seed=1, resamples=300).mean(0))
    assert found.explained > 0.9 and found.wrong < 0.1
    assert found.width > 1.4


def test_maps_without_information_have_few_false_verdicts_on_fewest_images():
    chance, tables = np.random.default_rng(1), 150
    rows, kept = few_images.CHECK[-1]
    many, few = (
        np.mean([few_images.has_false_check_verdict(images, rows, kept, chance) for _ in range(tables)])
        for images in (FEWEST_IMAGES, 2)
    )
    assert many < 0.05 + 3 * np.sqrt(0.05 * 0.95 / tables) and few > 0.4
    networks, rows, kept = few_images.OWN[1]
    own = [few_images.has_false_own_network_verdict(FEWEST_IMAGES, networks, rows, kept, chance) for _ in range(tables)]
    assert np.mean(own) < 0.05
