"""A small version of `scripts/simulate_coverage.py`, whose large one is in docs/statistics.md."""

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from roarbench.stats.curves import area_weights

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parents[2] / "scripts"
DOCS = Path(__file__).parents[2] / "docs"
BOARDS = 100


@pytest.fixture
def script() -> ModuleType:
    return import_module("simulate_coverage")


def test_the_truth_of_a_synthetic_board_is_the_mean_of_many(script: ModuleType) -> None:
    world = script.World("test", 3, 1, images=2000)
    generator = np.random.default_rng(0)
    boards = [script.experiment(world, script.setting(world, generator), generator).scores for _ in range(40)]
    for point, accuracy in script.truth(world).items():
        means = [board.correct[point].mean() for board in boards]
        assert abs(np.mean(means) - accuracy) < 5 * np.std(means) / np.sqrt(len(means))


def test_references_and_trainings_of_synthetic_boards_vary_as_the_world_says(script: ModuleType) -> None:
    world = script.World("test", 40, 1, images=500, of_references=(2.0, 2.0), of_trainings=(1.0, 1.0))
    generator = np.random.default_rng(0)
    spread = script.spread_of([script.experiment(world, script.setting(world, generator), generator).scores])
    weights = area_weights((0.0, *world.levels))[1:]
    expected = np.sqrt(2.0**2 + (weights**2).sum() * 1.0**2)  # of a gain: the reference's, and trainings at two levels
    assert spread.references.freedom > 60
    assert 0.8 * expected < 100 * spread.references.deviation < 1.2 * expected
    assert abs(spread.references.shared - 0.5 * 2.0**2 / expected**2) < 0.25
    assert 0.8 < 100 * spread.trainings.deviation < 1.2


@pytest.fixture(scope="module")
def two_references() -> dict[str, dict[str, tuple[float, float]]]:
    """What is promised to 95%, with two references; a large spread of theirs, so that few images do."""
    path = str(SCRIPTS)
    sys.path.insert(0, path)
    script = import_module("simulate_coverage")
    sys.path.remove(path)
    world = script.World("test", 2, 2, images=600, of_references=(3.0, 5.0), of_trainings=(0.5, 0.5))
    found: dict[str, dict[str, tuple[float, float]]] = script.summary(script.simulate(world, BOARDS, 1, resamples=300))
    return found


@pytest.mark.parametrize("promise", ["accuracies", "gains", "controls", "over_sobel", "between", "predicted"])
def test_intervals_keep_their_promises_with_two_references(
    two_references: dict[str, dict[str, tuple[float, float]]], promise: str
) -> None:
    mean, error = two_references["here"][promise]
    assert abs(mean - 0.95) < 0.02 + 3 * error  # 93 to 97%, as far as so few boards can tell


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


def test_one_reference_keeps_its_promise_for_this_network_only(script: ModuleType) -> None:
    world = script.World("test", 1, 2, images=600, of_references=(3.0, 5.0), of_trainings=(0.5, 0.5))
    found = script.summary(script.simulate(world, BOARDS, 1, resamples=300))["here"]
    mean, error = found["network"]
    assert abs(mean - 0.95) < 0.02 + 3 * error
    assert found["gains"][0] < 0.8 and found["predicted"][0] < 0.8


def test_the_tables_of_the_page_are_those_of_the_record(script: ModuleType) -> None:
    page = (DOCS / "statistics.md").read_text()
    record = json.loads((DOCS / "statistics-coverage.json").read_text())
    assert set(record["worlds"]) == {world.name for world in script.WORLDS}
    for lines in import_module("coverage_page").tables(record).values():
        assert "\n".join(lines) in page


def test_what_the_page_says_of_the_study_is_what_the_study_says() -> None:
    line = next(
        line for line in (DOCS / "study" / "tables.md").read_text().splitlines() if line.startswith("Luck along")
    )
    words = line.partition(": ")[2].rstrip(".")
    assert words in (DOCS / "statistics.md").read_text()
