"""The program that holds a plan against its run says by how much they differ."""

from importlib import import_module
from types import ModuleType

import pytest


@pytest.fixture
def program() -> ModuleType:
    return import_module("plan_check")


@pytest.mark.parametrize(
    ("wall", "word"), [(119.0, "+19% of the plan's: within"), (70.0, "-30% of the plan's: beyond")]
)
def test_the_report_compares(program, wall: float, word: str):
    plan, run = program.Taken(100.0, 180.0, 2e9, 4e8), program.Taken(wall, 200.0, 1e9, 6e8)
    said = program.report(plan, {"decode": 5.0, "noise": 0.0, "retraining": 175.0}, run)
    assert "| disk | MB | 2,000.0 | 1,000.0 | 0.50 |" in said
    assert "planned core-s: decode 5.0, retraining 175.0\n" in said
    assert said.endswith(f"{word} 20%")
