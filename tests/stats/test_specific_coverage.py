"""A small version of `scripts/simulate_specific.py`, whose large one is in docs/statistics.md."""

from importlib import import_module
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def script() -> ModuleType:
    return import_module("simulate_specific")


@pytest.mark.parametrize("number", (1, 2))
def test_intervals_hold_and_rows_that_know_nothing_have_no_verdict(script: ModuleType, number: int) -> None:
    """Networks whose luck is four times as large widen nothing, because it is in both answers."""
    world = script.WORLDS[number]
    assert world.luck == (1.0, 4.0)[number - 1]
    controls, explained, _, wrong, found, _ = script.simulate(world, 30, seed=1).mean(0)
    assert controls > 0.85
    assert explained > 0.9
    assert wrong < 0.1
    assert found > 0.6


@pytest.mark.parametrize("trials", (5, 20))
def test_rows_beside_the_suites_own_that_ignore_the_reference_narrow_nothing(script: ModuleType, trials: int) -> None:
    world = next(world for world in script.WORLDS if world.trials == trials)
    _, explained, _, wrong, _, width = script.simulate(world, 20, seed=1, resamples=300).mean(0)
    assert explained > 0.9 and wrong < 0.1
    assert width > 1.4
