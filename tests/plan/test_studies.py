"""Studies: steps and rules of the paper's study, rows of quick-full, and the short recipe."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from roarbench.analysis.collect_results import collect_results
from roarbench.common.enums import Order, ScoredNetwork
from roarbench.plan.planned_runs import list_stored_levels
from roarbench.plan.protocols import KAR, LERF, MORF
from roarbench.plan.read_suite_file import read_suite
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import FAST_SUITES, find_builtin_suite
from roarbench.stats.board_agreement import Agreement
from roarbench.stats.bootstrap_intervals import Estimate, Sample
from roarbench.store.transfer import import_results
from studies.paper.agreement import judge_machine, measure_gap
from studies.paper.make import SETS, Step, part, steps
from studies.paper.published import HIGH, DataSet, front, keep_level
from studies.quick_full.run import SHOWN, make_runs_table
from studies.short_recipe.run import HERE, NAMES, judge, make_tables
from tests.helpers.elsewhere import ROOT
from tests.helpers.made_up import make_suite_results


def list_cells(suite):
    return {cell for block in suite.blocks for cell in product([block.protocol], block.estimators, block.levels)}


def test_paper_steps_cover_every_run_of_every_suite():
    for name in SETS:
        suite = find_builtin_suite(f"benchmark-{name}")
        parts = [part(suite, step) for step in steps() if step.name == name]
        assert set().union(*map(list_cells, parts)) == list_cells(suite)


@pytest.mark.parametrize("protocol", ["own-network", "matched", "roar"])
def test_paper_steps_store_rankings_of_same_levels(protocol):
    suite = find_builtin_suite("benchmark-imagenette64")
    assert list_stored_levels(part(suite, Step("imagenette64", (protocol,)))) == list_stored_levels(suite)


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


def test_quick_full_page_counts_shipped_runs(store):
    page = (ROOT / "studies/quick_full/README.md").read_text("utf-8")
    assert len(import_results(store, ROOT / "studies/quick_full/rows.parquet").new) == 1717
    counted = make_runs_table(collect_results(find_builtin_suite("quick-full"), store)).split("\n")
    shipped = [line for line in counted if not any(f"`{each.name}`" in line for each in (MORF, LERF))]
    assert len(shipped) == 2 + len(SHOWN) - 2 + 1  # plus two heading lines and mask-only, minus MoRF and LeRF
    assert all(line in page for line in shipped)


SHORT, LONG = (read_suite(HERE / f"{name}.toml") for name in NAMES)
ROWS = [name for name in SHORT.estimators if name not in ("random", "random-blurred")]
STEEP = {"random": 0.0, "random-blurred": 0.0} | {
    name: 0.06 * (7 - k if k < 7 else 6 - k) for k, name in enumerate(ROWS)
}


def test_short_recipe_suites_use_scaled_imagenet_recipes():
    assert (SHORT.blocks, SHORT.reference_recipe, SHORT.dataset) == (LONG.blocks, LONG.reference_recipe, LONG.dataset)
    peaks = []
    for suite, name in ((SHORT, "imagenet-fast@1"), (LONG, "imagenet@1")):
        ours, theirs = suite.recipe_record, find_recipe(name)
        assert (ours.decay, ours.warmup, ours.weight_decay) == (theirs.decay, theirs.warmup, theirs.weight_decay)
        assert (ours.epochs, *ours.sides) == pytest.approx((theirs.epochs, *theirs.sides))
        peaks.append((ours.peak / ours.batch, theirs.peak / theirs.batch))
    assert peaks[0][0] / peaks[1][0] == pytest.approx(peaks[0][1] / peaks[1][1])


def make_accuracy_function(sign):
    return lambda cell: 0.9 - cell.t * (0.4 - sign * STEEP.get(cell.estimator, 0.0))


def test_make_tables_reports_equal_or_opposite_orders():
    short = make_suite_results(SHORT, make_accuracy_function(1))
    for sign, tau, verdict in ((1, "+1.00 [+1.00, +1.00]", "orders these"), (-1, "-1.00 [-1.00, -1.00]", "does not")):
        made = make_tables({"short": short, "long": make_suite_results(LONG, make_accuracy_function(sign))})
        assert "| short | 66 of 66 |" in made["runs"]
        assert tau in made["agreement"] and verdict in made["agreement"]
        assert made["gains"].count("\n") == 1 + len(STEEP)


def test_make_tables_says_not_measured_while_run_is_missing():
    short, long = (make_suite_results(suite, make_accuracy_function(1)) for suite in (SHORT, LONG))
    long.results.popitem()
    made = make_tables({"short": short, "long": long})
    assert "| long | 65 of 66 |" in made["runs"]
    assert "not measured" in made["agreement"] and made["gains"].startswith("Not measured")


@pytest.mark.parametrize(
    ("low", "high", "opposed", "verdict"),
    [(0.6, 1.0, 0, "orders"), (0.6, 1.0, 1, "does not"), (0.2, 0.5, 0, "does not"), (0.59, 1.0, 0, "open")],
)
def test_judge_short_recipe_follows_study_plan(low, high, opposed, verdict):
    assert verdict in judge(Agreement(Estimate(0.7, low, high), 6, 10, opposed))


def test_suites_command_claims_no_unmeasured_agreement(call):
    assert FAST_SUITES["imagenet"].tau is None
    for command in (("suites",), ("suites", "imagenet")):
        said = " ".join(call(*command).out.split())
        assert "agreement of its ranks with those of imagenet-paper: not measured" in said, command
    assert "no page claims that `imagenet` orders" in (HERE / "README.md").read_text()
