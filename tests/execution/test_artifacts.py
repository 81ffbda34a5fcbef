"""Reproduction of stored runs."""

from collections import Counter
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from sqlalchemy import delete, select

from roarbench.analysis.collect_results import collect_results
from roarbench.common.enums import ScoredNetwork, Split
from roarbench.common.errors import CallerError
from roarbench.execution import job_graph, workload
from roarbench.execution.reproduction import reproduce
from roarbench.execution.run_suite import Request, run_suite
from roarbench.plan import planned_runs
from roarbench.plan.cells_and_runs import make_weights_title
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import MATCHED, MORF, ROAR
from roarbench.plan.settings import Settings
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITE_VERSIONS
from roarbench.store.annotations_and_scores import AnnotationKind, read_measured_annotations, replace_annotations
from roarbench.store.archived_runs import read_archived_rows
from roarbench.store.results import ReproductionOutcome, ResultsStore, make_default_url
from roarbench.store.run_result import pack_correctness
from roarbench.store.schema import imports, insert_new, remarks, reproductions
from roarbench.store.workspace import Workspace
from tests.helpers.store_rows import list_result_keys
from tests.helpers.tiny_suite import SUITE, InlineEngine

pytestmark = pytest.mark.slow

PART = replace(SUITE, blocks=tuple(Block(asked, ("random", "grad"), (0.9,), seeds=1) for asked in (ROAR, MORF)))


BOTH = replace(SUITE, blocks=(Block(ROAR, ("grad",), (0.5,), seeds=1), Block(MORF, ("grad",), (0.5,), seeds=1)))
SCORED = replace(BOTH, name="scored", blocks=BOTH.blocks[1:])
RETRAINED = replace(BOTH, name="retrained", blocks=BOTH.blocks[:1])
WIDER = replace(RETRAINED, name="wider", blocks=(replace(RETRAINED.blocks[0], levels=(0.05, 0.5, 0.95)),))
UNTRAINED = replace(BOTH, name="untrained", blocks=(Block(ROAR, ("random",), (0.5,), seeds=1), BOTH.blocks[1]))
COMMON = replace(SUITE, name="common", blocks=(Block(MATCHED, ("random", "grad"), (0.5,), seeds=1),))
LENT = replace(COMMON, name="lent", tuned_on=Split.TEST)


@pytest.mark.parametrize(
    ("known", "estimator", "retrains"),
    [
        ([BOTH], "grad", [ScoredNetwork.NONE, ScoredNetwork.IMAGES]),
        ([BOTH, SCORED], "grad", [ScoredNetwork.NONE]),  # ranks test images alone, of published weights
        ([RETRAINED], "none", [ScoredNetwork.NONE]),  # how good the reference is, which no suite has among its runs
        ([COMMON, LENT], "grad", [ScoredNetwork.COMMON]),  # its network was tuned on masks of test images
        ([WIDER, RETRAINED], "grad", [ScoredNetwork.IMAGES]),  # its rankings have fewer levels
        ([UNTRAINED, RETRAINED], "grad", [ScoredNetwork.IMAGES]),  # another suite retrains without this row
    ],
    ids=["both", "scored", "retrained", "lent", "levels", "untrained"],
)
def test_reproduce_repeats_networks_and_rankings_of_the_run(
    tmp_path, store, published, monkeypatch, known, estimator, retrains
):
    """Without a plan entry, the suite is found, though another with the same images and network comes first."""
    given, workspace, console = make_weights_title("torchvision:small"), Workspace(tmp_path), Console(file=StringIO())
    known = [replace(suite, given=given) if suite is SCORED else suite for suite in known]
    monkeypatch.setattr("roarbench.execution.run_suite.LocalEngine", InlineEngine)
    for title in [title for title, suite in SUITE_VERSIONS.items() if suite.dataset == "planted"]:
        monkeypatch.delitem(SUITE_VERSIONS, title)
    for suite in known:
        monkeypatch.setitem(SUITE_VERSIONS, (suite.name, 1), suite)
    assert run_suite(Request(known[-1], Settings(workspace.root, limit=8)), store, console).failed == 0
    rows = [result.run for result in store.read_results(list_result_keys(store)).values()]
    kinds = {(run.cell.estimator, run.cell.retrain): run.key for run in rows}
    keys = [kinds[estimator, retrain] for retrain in retrains]
    with monkeypatch.context() as no_suites:  # what planned a run is stored beside its result
        for title in [*SUITE_VERSIONS]:
            no_suites.delitem(SUITE_VERSIONS, title)
        for key in keys:
            assert reproduce(key, Settings(workspace.root), store, console).verdict is ReproductionOutcome.EQUAL
    with store.database.begin_exclusive_write() as connection:  # earlier versions stored results without it
        connection.execute(delete(remarks))
    for key in keys:
        assert reproduce(key, Settings(workspace.root), store, console).verdict is ReproductionOutcome.EQUAL
    if not known[-1].given:
        with pytest.raises(CallerError, match="has no given weights; leave --reference out"):
            reproduce(key, Settings(workspace.root, weights=(str(published),)), store, console)


@pytest.mark.parametrize("earlier", [WIDER, replace(SCORED, blocks=(replace(SCORED.blocks[0], levels=(0.05, 0.5)),))])
def test_reproduce_repeats_run_whose_rankings_have_checksum_of_earlier_ones(tmp_path, store, monkeypatch, earlier):
    """Rankings with other levels or splits came first, remove the same features and gave the run their checksum."""
    monkeypatch.setattr("roarbench.execution.run_suite.LocalEngine", InlineEngine)
    console = Console(file=StringIO())
    for suite in (earlier, replace(RETRAINED, blocks=(replace(RETRAINED.blocks[0], levels=(0.9, 0.5)),))):
        assert run_suite(Request(suite, Settings(tmp_path, limit=8)), store, console).failed == 0
    rows = store.read_results(list_result_keys(store)).values()
    named = [row for row in rows if row.run.cell.estimator == "grad"]
    assert len({row.rankings for row in named}) == 1 and len(named) == 4
    (key,) = [row.run.key for row in named if row.run.cell.retrain is ScoredNetwork.IMAGES and row.run.cell.t == 0.9]
    outcome = reproduce(key, Settings(tmp_path), store, console)
    assert outcome.verdict is ReproductionOutcome.EQUAL and "same rankings" in outcome.format_report()


def test_reproduce_stores_no_outcome_for_another_explained_network(tmp_path, store, monkeypatch):
    monkeypatch.setattr("roarbench.execution.run_suite.LocalEngine", InlineEngine)
    monkeypatch.setitem(SUITE_VERSIONS, (SCORED.name, 1), SCORED)
    console = Console(file=StringIO())
    assert run_suite(Request(SCORED, Settings(tmp_path, limit=8)), store, console).failed == 0
    rows = store.read_results(list_result_keys(store)).values()
    stored = next(row for row in rows if row.weights and row.rankings and not row.run.cell.retrain.trains)
    again = replace(stored, weights="0" * len(stored.weights), bits=bytes(len(stored.bits)), correct=0)
    monkeypatch.setattr("roarbench.execution.reproduction._rerun", lambda *_: (again, {}))
    outcome = reproduce(stored.run.key, Settings(tmp_path), store, console)
    assert outcome.verdict is ReproductionOutcome.INCOMPARABLE and "has other weights" in outcome.format_report()
    with store.database.begin_read() as connection:
        assert connection.execute(select(reproductions)).all() == []
    claims = {f"{kind} {stored.rankings}": 0.5 for kind in (AnnotationKind.TIES, AnnotationKind.STABILITY)}
    store.database.run_write(lambda connection: replace_annotations(connection, claims))
    measured = {AnnotationKind.TIES: 0.25, AnnotationKind.STABILITY: None}
    monkeypatch.setattr("roarbench.execution.reproduction._rerun", lambda *_: (stored, measured))
    assert reproduce(stored.run.key, Settings(tmp_path), store, console).verdict is ReproductionOutcome.EQUAL
    with store.database.begin_read() as connection:
        assert len(connection.execute(select(reproductions)).all()) == 1
    found = read_measured_annotations(store.database, stored)
    assert (found[AnnotationKind.TIES], found[AnnotationKind.STABILITY]) == (0.25, None), "claims were confirmed"


def test_values_of_another_network_replace_claims_of_confirmed_import_only(tmp_path, store, monkeypatch):
    monkeypatch.setattr("roarbench.execution.run_suite.LocalEngine", InlineEngine)
    console = Console(file=StringIO())
    assert run_suite(Request(RETRAINED, Settings(tmp_path, limit=8)), store, console).failed == 0
    rows = store.read_results(list_result_keys(store)).values()
    stored = next(row for row in rows if row.weights and row.rankings)
    subject, again = f"{AnnotationKind.TIES} {stored.rankings}", replace(stored, weights="0" * 64, rankings="0" * 32)
    store.database.run_write(lambda connection: replace_annotations(connection, {subject: 0.5}))
    monkeypatch.setattr("roarbench.execution.reproduction._rerun", lambda *_: (again, {AnnotationKind.TIES: 0.25}))
    for ties in (0.5, 0.25):
        assert reproduce(stored.run.key, Settings(tmp_path), store, console).verdict is ReproductionOutcome.WITHIN
        assert read_measured_annotations(store.database, stored)[AnnotationKind.TIES] == ties
        with store.database.begin_exclusive_write() as connection:
            insert_new(connection, imports, [{"key": stored.run.key, "file": "f11e"}])


def test_run_archives_imported_rows_with_another_number_of_images(tmp_path, store, monkeypatch):
    """Such a row, imported before the images were decoded, stopped each table and board until it was archived."""
    monkeypatch.setattr("roarbench.execution.run_suite.LocalEngine", InlineEngine)
    monkeypatch.setitem(SUITE_VERSIONS, (SCORED.name, 1), SCORED)
    request, console = Request(SCORED, Settings(tmp_path, limit=8)), Console(file=StringIO())
    assert run_suite(request, store, console).failed == 0
    rows = store.read_results(list_result_keys(store))
    row = next(row for row in rows.values() if row.rankings)
    seven = row.correctness[:7]
    short = replace(row, total=7, bits=pack_correctness(seven), correct=int(seven.sum()), probability=None)
    with ResultsStore.open(make_default_url(tmp_path / "other")) as other:
        # seven and eight images have one byte of bits, so a table would take the eighth for a wrong answer
        other.add_results([short, *(each for each in rows.values() if each is not row)])
        with pytest.raises(CallerError, match="have 7 and 8 test images"):
            collect_results(SCORED, other, 8, row.run.data)
        assert run_suite(request, other, console).failed == 0
        again = other.read_results(list_result_keys(other))
        assert {key: each.bits for key, each in again.items()} == {key: each.bits for key, each in rows.items()}
        (archived,) = read_archived_rows(other.database, [*rows])
        assert (archived.run.key, archived.row["total"]) == (row.run.key, 7)
    said = "1 imported result with another number of test images than 8, archived; `roarbench runs {}` shows the first"
    assert said.format(row.run.key) in console.file.getvalue()


def test_run_derives_plan_once_and_reads_each_result_once(tmp_path, store, monkeypatch):
    monkeypatch.setattr("roarbench.execution.run_suite.LocalEngine", InlineEngine)
    request, console = Request(SCORED, Settings(tmp_path, limit=8)), Console(file=StringIO())
    assert run_suite(request, store, console).failed == 0
    derived, read = [], Counter()

    def watch(module, name):
        derive = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: [derived.append(name), derive(*given)][1])

    for module in (workload, job_graph):
        watch(module, "list_shared_inputs")
    watch(planned_runs, "build_run")
    planned_runs.list_runs.cache_clear()

    def count(self, keys, *parsed, read_results=ResultsStore.read_results):
        found = read_results(self, keys, *parsed)
        read.update(key for key, result in found.items() if result.run.cell.t)
        return found

    monkeypatch.setattr(ResultsStore, "read_results", count)
    more = replace(request, suite=BOTH)
    finished = run_suite(more, store, console)
    assert Counter(derived) == {"list_shared_inputs": 1, "build_run": len(list_planned_runs(BOTH))}
    degraded = {result.run.key for point, result in finished.suite_results.results.items() if point.cell.t}
    assert read == dict.fromkeys(degraded, 1)
    assert run_suite(more, store, console).failed == 0
    assert Counter(derived)["list_shared_inputs"] == 1 and read == dict.fromkeys(degraded, 2)
