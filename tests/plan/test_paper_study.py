"""The benchmark's study: the order of its steps, and the front of gain against cost."""

from types import SimpleNamespace

import pytest

from roarbench.plan.planned_runs import list_stored_levels
from roarbench.plan.suites import find_suite
from roarbench.stats.bootstrap import Estimate
from studies.paper.make import SETS, Step, part, steps
from studies.paper.published import front


def test_the_steps_cover_every_run_of_every_suite():
    for name in SETS:
        suite, asked = find_suite(f"benchmark-{name}"), set()
        for step in steps():
            if step.name == name:
                asked |= {(block.protocol, row, t) for block in part(suite, step).blocks for row in block.estimators
                    for t in block.levels}  # fmt: skip
        blocks = suite.blocks
        assert asked == {(block.protocol, row, t) for block in blocks for row in block.estimators for t in block.levels}


@pytest.mark.parametrize("protocol", ["own-network", "matched", "roar"])
def test_all_steps_store_rankings_of_the_same_levels(protocol):
    suite = find_suite("benchmark-imagenette64")
    assert list_stored_levels(part(suite, Step("imagenette64", (protocol,)))) == list_stored_levels(suite)


def test_the_front_by_hand():
    """Passes: grad 2, sgsq-grad 30, ig 50, occlusion 50; ig is no more than sgsq-grad, occlusion only perhaps."""
    gains = {
        "occlusion": Estimate(6.0, 4.0, 8.0),
        "grad": Estimate(3.0, 1.0, 5.0),
        "ig": Estimate(4.5, 4.0, 5.0),
        "sgsq-grad": Estimate(5.0, 3.5, 6.5),
    }
    rows = {name: SimpleNamespace(gain=gain) for name, gain in gains.items()}
    assert front(SimpleNamespace(own=rows)) == {"grad": True, "sgsq-grad": True, "occlusion": False}
