"""Estimators with parameters on the command line, from run to board."""

import json
from dataclasses import replace

import pytest

from leaderboard.views import read_views
from roarbench.errors import CallerError
from roarbench.plan.choosing import chosen_estimators, with_added
from roarbench.plan.points import expand
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite, with_entries
from roarbench.protocols.roar import ROAR
from roarbench.report.profile import command as command_of
from roarbench.report.profile import profile
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.board_store import results as made_up
from tests.helpers.command_line import command

NAME = "var-grad(noise=0.05)"


def test_it_stands_wherever_the_suite_has_the_default_and_changes_no_key():
    suite = find_suite("quick@1")
    joined = with_entries(suite, [NAME])
    assert joined.title == suite.title
    assert set(expand(suite)) < set(expand(joined))
    for block, added in zip(suite.blocks, joined.blocks, strict=True):
        assert (NAME in added.estimators) == ("var-grad" in block.estimators)
        assert (f"{NAME}~blurred" in added.estimators) == ("var-grad~blurred" in block.estimators)
    assert with_entries(joined, [NAME, f"{NAME}~blurred"]) == joined  # as a store names them
    with pytest.raises(CallerError, match=r"suite 'quick' has no 'sg-ig\(noise=0.05\)'; it has: random"):
        chosen_estimators(with_added(find_suite("quick"), ["sg-ig(noise=.05)"]), ["sg-ig(noise=.05)"])


def test_ids_are_chosen_by_the_name_that_rows_have():
    asked = ["random, var-grad( noise=.050 )~blurred", "grad,var-grad(noise=.15)"]
    chosen = chosen_estimators(with_added(find_suite("quick@1"), asked), asked)
    assert chosen == ["random", f"{NAME}~blurred", "grad", "var-grad"]


PUBLISHED = replace(find_suite("planted"), blocks=(Block(ROAR, ("random", "var-grad"), (0.9,), seeds=1),))
SMALL = ("--suite", "planted", "--limit", "40")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parameters")
    assert command("run", *SMALL, "--estimators", "var-grad(noise=.05),var-grad", "--store", folder) == 0
    return folder


def rows(answer):
    assert answer.code == 0, answer.err
    return {row["estimator"]: row for row in json.loads(answer.out)["rows"]}


@pytest.mark.slow
def test_its_row_is_its_own_has_a_place_on_the_board_and_is_not_run_again(call, made):
    table = ("table", *SMALL, "--store", made, "--format", "json")
    whole = rows(call(*table))
    assert set(whole) == {"random", "var-grad", NAME}
    assert whole[NAME]["gain"] is not None
    assert set(rows(call(*table, "--estimators", "random,var-grad(noise=0.050)"))) == {"random", NAME}
    missing = rows(call(*table, "--estimators", "var-grad(noise=0.3)"))
    assert missing["var-grad(noise=0.3)"]["gain"] is None
    with ResultsStore.open(default_url(made), read_only=True) as results:
        found = {row.run.cell.estimator: row for row in results.results(results.keys("")).values()}
        (view,) = read_views(results, made).values()
    assert found[NAME].rankings != found["var-grad"].rankings
    assert found[NAME].weights == found["var-grad"].weights
    assert view.results.suite.placed == ("random", "var-grad", NAME)
    noise, samples = profile(NAME).settings
    assert noise.startswith("noise 0.05: ") and samples.startswith("samples 15: ")
    assert f"--estimators '{NAME}' --limit 40" in command_of(view.results, NAME)
    assert "all 3 runs are done" in call("run", *SMALL, "--estimators", NAME, "--store", made).err


def test_a_row_of_a_newer_version_is_left_out(tmp_path):
    """A store whose rows have a parameter that this version does not know is read all the same."""
    found = made_up(PUBLISHED, limit=40)
    point = next(point for point in found if point.cell.estimator == "var-grad")
    newer = replace(found[point].run, cell=replace(point.cell, estimator="var-grad(copies=50)"))
    with ResultsStore.open(default_url(tmp_path)) as results:
        results.add_all([*found.values(), replace(found[point], run=newer)])
        (view,) = read_views(results, tmp_path).values()
    assert "var-grad(copies=50)" not in view.results.suite.estimators
