"""Rules of the study in studies/paper, and the claim about fast recipes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from roarbench.common.enums import Order, ScoredNetwork
from roarbench.plan.protocols import KAR
from roarbench.stats.intervals import Estimate
from studies.paper.agreement import judge_machine, measure_gap
from studies.paper.published import HIGH, DataSet, front, keep_level
from tests.helpers.known_contrasts import make_contrasts
from tests.helpers.made_up_results import make_suite_results
from tests.helpers.processes import ROOT


def test_front_matches_manual_pareto_front():
    """Passes: grad, gb-sq 2, sgsq-grad 30, ig, occlusion 50. The intervals of grad and occlusion reach another gain."""
    gains = {
        "occlusion": Estimate(6.0, 4.0, 8.0),
        "grad": Estimate(3.0, 1.0, 5.0),
        "gb-sq": Estimate(1.5, 0.5, 2.5),
        "ig": Estimate(4.5, 4.0, 5.0),
        "sgsq-grad": Estimate(5.0, 3.5, 6.5),
    }
    rows = {name: SimpleNamespace(gain=gain) for name, gain in gains.items()}
    assert front(SimpleNamespace(own=rows)) == {"grad": False, "sgsq-grad": True, "occlusion": False}
    del rows["gb-sq"]
    assert front(SimpleNamespace(own=rows))["grad"], "no other row has as few passes"


def test_kar_is_whole_if_its_highest_level_is():
    """Verdicts about KAR at .9 need no result at .5; one missing result at .9 withholds them."""
    complete = make_suite_results()

    def read(*left_out):
        kept = {
            run: result
            for run, result in complete.results.items()
            if (run.cell.retrain, run.cell.order, run.cell.t) not in left_out or run.cell.estimator != "grad"
        }
        part = replace(complete, results=kept)
        return DataSet("made-up", part, keep_level(part, HIGH), part, part, {}).whole(KAR)

    images = ScoredNetwork.IMAGES
    assert read((images, Order.LERF, 0.5))
    assert not read((images, Order.LERF, 0.9))


def test_judge_machine_follows_study_plan():
    """Standard errors of 0.71 and 1.41: gains up to 1.96 * sqrt(2.5) = 3.10 apart agree."""
    one, other = make_contrasts([0.0, 4.3], np.diag([0.5, 2.0]))
    assert measure_gap(one, other) == (4.3, False)
    assert measure_gap(one, other.shift(-1.25)).inside and not measure_gap(one, other.shift(-1.15)).inside
    for tau, opposed, inside, verdict in (
        (Estimate(0.9, 0.1, 1.0), 0, 0.95, "does not matter"),
        (Estimate(0.9, 0.1, 1.0), 1, 0.95, "matters"),
        (Estimate(0.5, 0.1, 1.0), 0, 0.95, "matters"),
        (Estimate(0.9, -0.1, 1.0), 0, 0.95, "open"),
        (Estimate(0.9, 0.1, 1.0), 0, 0.85, "open"),
        (Estimate(0.7, 0.1, 1.0), 0, 0.95, "open"),
    ):
        assert judge_machine(tau, opposed, inside) == verdict


def test_suites_command_claims_no_unmeasured_agreement(call):
    for command in (("suites",), ("suites", "imagenet")):
        said = " ".join(call(*command).out.split())
        assert "agreement of its ranks with those of imagenet-paper: not measured" in said, command
    assert "no page claims that `imagenet` orders" in (ROOT / "studies/short_recipe/README.md").read_text()
