"""A run is planned again from its record and its plan entry, without the suite that planned it first."""

import json
import random
from dataclasses import replace

import pytest

from roarbench.common.enums import Split, Unit
from roarbench.common.errors import CallerError
from roarbench.common.identity import encode_canonically, make_json_record
from roarbench.plan.plan_entry import make_plan_entry, plan_single_run, read_plan_entry
from roarbench.plan.planned_runs import build_run, list_clean_runs_of_explained_networks, list_planned_runs
from roarbench.plan.protocols import MATCHED, MORF, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suite_changes import (
    add_estimators_with_twins,
    select_part_of_suite,
    set_allowed_fill_and_unit,
    set_explained_weights,
)
from roarbench.plan.suites import SUITE_VERSIONS, find_builtin_suite, read_suite
from roarbench.store.annotations_and_scores import make_plan_annotations
from roarbench.store.ranking_files import make_ranking_spec
from tests.helpers.image_files import TEXT, write_suite

QUICK = find_builtin_suite("quick")
MIXED = replace(QUICK, blocks=(Block(MORF, ("grad",), (0.2,), 1), Block(ROAR, ("grad",), (0.5, 0.95), 3)))
CHANGED = {
    "fill and unit": set_allowed_fill_and_unit(QUICK, "linear", Unit.PIXEL),
    "seeds": select_part_of_suite(QUICK, seeds=2),
    "more seeds": select_part_of_suite(QUICK, seeds=7),
    "replication": replace(QUICK, replication=3),
    "weights": set_explained_weights(QUICK, "file@0123456789abcdef"),
    "submission": add_estimators_with_twins(QUICK, ["mine@1a2b3c4d(samples=3)", "var-grad(noise=0.05)"]),
    "both splits ranked": MIXED,
    "test masks": replace(find_builtin_suite("quick-matched"), tuned_on=Split.TEST),
    "one pair": replace(QUICK, blocks=(Block(MATCHED, ("random", "grad"), (0.5,), 2), *MIXED.blocks)),
}


def refuse_other_identity(suite, known=(), count=20):
    """Compare runs and rankings of a suite with those of suites that are made from runs and entries alone."""
    points = [*list_planned_runs(suite), *list_clean_runs_of_explained_networks(suite)]
    for point in random.Random(0).sample(points, min(count, len(points))):
        run = build_run(suite, point, "da7a", 40)
        entry = read_plan_entry(json.loads(encode_canonically(make_json_record(make_plan_entry(suite, run)))))
        single = plan_single_run(run, entry, known)
        assert build_run(single, point, "da7a", 40) == run
        if estimator := run.cell.estimator_of_stored_ranking:
            numbers = (each.find_explained_number(run.cell, run.seed) for each in (suite, single))
            specs = [
                make_ranking_spec(each, "da7a", (3, 8, 8), estimator, run.cell.unit, number)
                for each, number in zip((suite, single), numbers, strict=True)
            ]
            assert specs[0] == specs[1], (suite.title, point)
        assert list_planned_runs(single)


@pytest.mark.parametrize("suite", SUITE_VERSIONS.values(), ids=lambda suite: suite.versioned)
def test_run_of_published_suite_is_planned_without_suite(suite):
    refuse_other_identity(suite)


@pytest.mark.parametrize("name", CHANGED)
def test_run_with_options_is_planned_without_suite(name):
    refuse_other_identity(CHANGED[name], count=60)


def test_run_of_own_suite_is_planned_from_stored_description(tmp_path):
    """The data set and the network of another suite with the same content count, also if that suite has other runs."""
    build = "def build(classes, channels, size):\n    return nn.Linear(channels * size**2, classes)\n"
    (tmp_path / "net.py").write_text(f"from torch import nn\n\n\n{build}")
    text = TEXT.replace('"resnet-planted"', '"net.py:build"')
    suite = read_suite(write_suite(tmp_path, text))
    other = read_suite(write_suite(tmp_path, text.replace('"grad"', '"sobel"')))
    assert other.version != suite.version
    refuse_other_identity(suite, [other])
    run = build_run(suite, list_planned_runs(suite)[-1], "da7a", None)
    single = plan_single_run(run, make_plan_entry(suite, run), [other])
    assert (single.dataset_record, single.network_source) == (suite.dataset_record, suite.network_source)
    with pytest.raises(CallerError, match=f"no description of the data set {suite.dataset}"):
        plan_single_run(run, make_plan_entry(suite, run), [])


@pytest.mark.parametrize("name", CHANGED)
def test_annotations_of_many_runs_have_entry_of_each_run(name):
    suite = CHANGED[name]
    runs = [build_run(suite, point, "da7a", 40) for point in list_planned_runs(suite)][::7]
    annotations = make_plan_annotations(suite, runs)
    for run in runs:
        entry = make_plan_entry(suite, run)
        assert annotations[f"plan {run.key}"] == entry.key
        assert annotations[f"entry {entry.key}"] == make_json_record(entry)


def test_entry_of_another_plan_is_refused():
    run = build_run(QUICK, list_planned_runs(QUICK)[-1], "da7a", None)
    entry = make_plan_entry(QUICK, run)
    assert run.reference
    for changed in (replace(entry, reference_recipe="planted@1"), replace(entry, given=("file@1a2b",) * 5)):
        with pytest.raises(CallerError, match="plans another run than"):
            plan_single_run(run, changed, [])
    with pytest.raises(CallerError, match="was run under newer"):
        plan_single_run(run, replace(entry, protocol="newer"), [])
    wrong_counts, unknown = [{"references": 0}, {"given": ["file@1a2b"]}], [{"splits": ["validation"]}, {"newer": 1}]
    for wrong in (*wrong_counts, *unknown, {"levels": [2]}, {"protocol": 1}):
        with pytest.raises((ValueError, TypeError)):
            read_plan_entry({**json.loads(json.dumps(make_json_record(entry))), **wrong})
