"""The paper study: its steps, its front of gain against cost, and its rule for machines."""

from types import SimpleNamespace

import numpy as np
import pytest

from roarbench.plan.planned_runs import list_stored_levels
from roarbench.plan.suites import find_suite
from roarbench.stats.bootstrap_intervals import Estimate, Sample
from studies.paper.agreement import judge_machine, measure_gap
from studies.paper.make import SETS, Step, part, steps
from studies.paper.published import front


def test_study_steps_cover_every_run_of_every_suite():
    for name in SETS:
        suite, asked = find_suite(f"benchmark-{name}"), set()
        for step in steps():
            if step.name == name:
                asked |= {(block.protocol, row, t) for block in part(suite, step).blocks for row in block.estimators
                    for t in block.levels}  # fmt: skip
        blocks = suite.blocks
        assert asked == {(block.protocol, row, t) for block in blocks for row in block.estimators for t in block.levels}


@pytest.mark.parametrize("protocol", ["own-network", "matched", "roar"])
def test_study_steps_store_rankings_of_same_levels(protocol):
    suite = find_suite("benchmark-imagenette64")
    assert list_stored_levels(part(suite, Step("imagenette64", (protocol,)))) == list_stored_levels(suite)


def test_front_matches_manual_pareto_front():
    """Passes: grad 2, sgsq-grad 30, ig 50, occlusion 50. The gain of ig is below sgsq-grad, occlusion's uncertain."""
    gains = {
        "occlusion": Estimate(6.0, 4.0, 8.0),
        "grad": Estimate(3.0, 1.0, 5.0),
        "ig": Estimate(4.5, 4.0, 5.0),
        "sgsq-grad": Estimate(5.0, 3.5, 6.5),
    }
    rows = {name: SimpleNamespace(gain=gain) for name, gain in gains.items()}
    assert front(SimpleNamespace(own=rows)) == {"grad": True, "sgsq-grad": True, "occlusion": False}


def test_judge_machine_follows_study_plan():
    """Draws 1 and 2 apart have standard deviations of 0.71 and 1.41, so gains up to 3.10 apart agree."""
    one, other = (Sample(value, np.array([value - spread, value + spread])) for value, spread in ((0, 0.5), (4.3, 1)))
    assert measure_gap(one, other) == (4.3, False)
    assert measure_gap(one, Sample(3.05, other.draws)).inside and not measure_gap(one, Sample(3.15, other.draws)).inside
    for tau, opposed, inside, verdict in (
        (Estimate(0.9, 0.1, 1.0), 0, 0.95, "does not matter"),
        (Estimate(0.9, 0.1, 1.0), 1, 0.95, "matters"),
        (Estimate(0.5, 0.1, 1.0), 0, 0.95, "matters"),
        (Estimate(0.9, -0.1, 1.0), 0, 0.95, "open"),
        (Estimate(0.9, 0.1, 1.0), 0, 0.85, "open"),
        (Estimate(0.7, 0.1, 1.0), 0, 0.95, "open"),
    ):
        assert judge_machine(tau, opposed, inside) == verdict
