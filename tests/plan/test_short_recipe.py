"""The study of a short recipe: scaled recipes, the plan's rule, and no claim of unmeasured agreement."""

import pytest

from roarbench.plan.read_suite_file import read_suite
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import FAST_SUITES
from roarbench.stats.board_agreement import Agreement
from roarbench.stats.bootstrap_intervals import Estimate
from studies.short_recipe.run import HERE, NAMES, judge, make_tables
from tests.helpers.made_up import make_suite_results

SHORT, LONG = (read_suite(HERE / f"{name}.toml") for name in NAMES)
ROWS = [name for name in SHORT.estimators if name not in ("random", "random-blurred")]
STEEP = {"random": 0.0, "random-blurred": 0.0} | {
    name: 0.06 * (7 - k if k < 7 else 6 - k) for k, name in enumerate(ROWS)
}


def test_study_suites_use_scaled_imagenet_recipes():
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
    short, long = (
        make_suite_results(SHORT, make_accuracy_function(1)),
        make_suite_results(LONG, make_accuracy_function(1)),
    )
    long.results.popitem()
    made = make_tables({"short": short, "long": long})
    assert "| long | 65 of 66 |" in made["runs"]
    assert "not measured" in made["agreement"] and made["gains"].startswith("Not measured")


@pytest.mark.parametrize(
    ("low", "high", "opposed", "verdict"),
    [(0.6, 1.0, 0, "orders"), (0.6, 1.0, 1, "does not"), (0.2, 0.5, 0, "does not"), (0.59, 1.0, 0, "open")],
)
def test_judge_follows_study_plan(low, high, opposed, verdict):
    assert verdict in judge(Agreement(Estimate(0.7, low, high), 6, 10, opposed))


def test_suites_command_claims_no_unmeasured_agreement(call):
    assert FAST_SUITES["imagenet"].tau is None
    for command in (("suites",), ("suites", "imagenet")):
        said = " ".join(call(*command).out.split())
        assert "agreement of its ranks with those of imagenet-paper: not measured" in said, command
    assert "no page claims that `imagenet` orders" in (HERE / "README.md").read_text()
