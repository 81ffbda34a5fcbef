"""Rules of the studies in studies/paper and studies/resnet50, and the claim about fast recipes."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, ScoredNetwork
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import KAR, LERF, MORF, ROAR
from roarbench.plan.suites import find_builtin_suite
from roarbench.stats.intervals import Estimate
from studies.paper.agreement import judge_machine, measure_gap
from studies.paper.published import HIGH, DataSet, front, keep_level
from studies.resnet50 import __main__ as resnet50
from tests.helpers.known_contrasts import make_contrasts
from tests.helpers.made_up_results import DATA, make_suite_results
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


def test_imagenet_networks_are_built_by_the_source_that_published_rows_name():
    """One other character of the file makes another suite, to which no published row belongs."""
    source = (ROOT / "studies/paper/efficientnet_lite.py").read_text()
    files = sorted((ROOT / "results/benchmark-imagenet").rglob("*.parquet"))
    suites = [suite for file in files for suite in json.loads(pq.read_schema(file).metadata[b"roarbench_suites"])]
    assert suites
    assert {network["source"] for suite in suites for network in suite["networks"]} == {source}


def test_suites_command_claims_no_unmeasured_agreement(call):
    for command in (("suites",), ("suites", "imagenet")):
        said = " ".join(call(*command).out.split())
        assert "agreement of its ranks with those of imagenet-paper: not measured" in said, command
    assert "no page claims that `imagenet` orders" in (ROOT / "studies/short_recipe/README.md").read_text()


@pytest.mark.parametrize(("side", "tau", "verdict"), [(1, 1.0, "carries over"), (-1, -1.0, "does not")])
def test_order_of_resnet50_is_compared_with_order_of_small_networks(side, tau, verdict):
    """All rows have distinct true accuracies, far apart; the second suite has the same or the opposite order."""

    def make(name, side):
        results = resnet50.keep_shared(SuiteResults(find_builtin_suite(name), DATA, None, {}))
        names = find_builtin_suite(resnet50.LARGE).estimators

        def accuracy(cell):
            place = 0 if cell.estimator in (CLEAN, "random") else side * (names.index(cell.estimator) - 4.5)
            return 0.6 + 0.06 * place * (1 if cell.order is Order.LERF else -1) * (cell.t > 0.4)

        # own-network gain needs pairs of masks, and KAR is compared with ROAR of the same suite
        blocks = tuple(block for block in results.suite.blocks if block.protocol in (ROAR, MORF, LERF))
        return make_suite_results(replace(results.suite, blocks=blocks), accuracy)

    made = make(resnet50.SMALL, 1), make(resnet50.LARGE, side)
    small, large = map(resnet50.keep_shared, made)
    tables = resnet50.make_tables(small, large)
    lines = dict(re.findall(r"^\| ([^|]+?) \| (.+) \|$", tables["orders"], re.MULTILINE))
    # all rows but Random; benchmark-imagenette64 has no MoRF of the released Sobel
    for question, count in (("1. ROAR at .9", "8"), ("1. ROAR at .5", "8"), ("5. MoRF", "7"), ("5. LeRF", "7")):
        rows, found, _, judged = lines[question].split(" | ")
        assert (rows, float(found.split()[0]), judged) == (count, tau, verdict), question
    assert lines["own-network gain"] == lines["4. KAR and ROAR at .9, this suite"] == "– | – | – | –"
    assert tables["roar"].splitlines()[0] == "| estimator | 64 px | ResNet-50 |"
