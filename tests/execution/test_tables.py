"""A bundled table from the command to its rows: what stands there, what is left out, and with which words."""

import json
import re

import pytest

from leaderboard.pictures import read_pictures
from leaderboard.source import read_suites
from roarbench.plan.common import common_network
from roarbench.plan.suite import NO_NEIGHBOURS, controls_on
from roarbench.plan.suites import find_suite
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Order, Unit
from tests.helpers.command_line import command

SMALL = ("--suite", "breast-cancer", "--limit", "60", "--seeds", "1")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small version of the suite with one estimator, under all protocols."""
    folder = tmp_path_factory.mktemp("table") / "store"
    assert command("run", *SMALL, "--estimators", "grad", "--store", folder) == 0
    return folder


def rows(call, store, protocol):
    said = call("table", *SMALL[:4], "--protocol", protocol, "--store", store, "--format", "json").out
    return {row["estimator"]: row for row in json.loads(said)["rows"]}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["specific", "augmented", "roar", "roar-exchanged", "mask-only", "morf", "lerf"])
def test_every_protocol_has_its_rows(call, made, protocol):
    found = rows(call, made, protocol)
    assert {"random", "grad"} <= set(found)
    assert all(found["grad"]["curve"][t] > 0 for t in ("0.1", "0.5", "0.9"))
    if protocol != "mask-only":
        assert found["grad"]["curve"]["0.0"] > 0.8  # a guess is right on one of two


@pytest.mark.slow
def test_the_table_says_what_is_left_out(call, made):
    said = " ".join(call("table", *SMALL[:4], "--protocol", "specific", "--store", made).out.split())
    assert f"Left out: sobel, random-blurred: {NO_NEIGHBOURS}." in said


@pytest.mark.slow
def test_a_row_of_a_table_is_no_picture(made):
    with ResultsStore.open(default_url(made)) as store:
        (found,) = read_suites(store, made).values()
    assert read_pictures(found, made) is None


@pytest.mark.parametrize("name", ["sobel", "gradcam", "grad~blurred", "ig(baseline=blur)", "occlusion"])
def test_what_needs_neighbours_is_refused_in_one_line(call, tmp_path, name):
    answer = call("run", *SMALL, "--estimators", name, "--store", tmp_path)
    assert answer.code == 2
    assert answer.err == f"roarbench: suite 'breast-cancer' has no '{name}': {NO_NEIGHBOURS}\n"


def test_a_table_has_one_control_and_its_common_network_meets_no_other():
    table, images = find_suite("breast-cancer"), find_suite("quick")
    assert controls_on(table.dataset_record) == ("random",)
    assert images.controls == ("random", "sobel", "random-blurred")
    met = [common_network(suite, "", Order.MORF, Unit.SCALAR, 0).families for suite in (table, images)]
    assert [len(families) for families in met] == [1, 3]
    assert met[0] == met[1][:1]


def test_its_lists_speak_of_columns(call):
    assert re.search(
        r"285 training and 284 test images .* of 2 classes, 30 columns", call("suites", "breast-cancer").out
    )
