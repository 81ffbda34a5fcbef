"""Exported and imported rankings and networks, and reproduction of stored runs."""

import json
import shutil
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from sqlalchemy import select

from roarbench.common.enums import ScoredNetwork, Split
from roarbench.common.errors import CallerError, StoreError
from roarbench.execution.artifacts import export_rankings, import_rankings
from roarbench.execution.job_graph import build_job_graph
from roarbench.execution.reproduction import RerunRequest, reproduce
from roarbench.execution.run_suite import Request, run_suite
from roarbench.execution.scheduler import run_missing
from roarbench.plan.cells_and_runs import make_weights_title
from roarbench.plan.protocols import AUGMENTED, MORF, OWN_NETWORK, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITE_VERSIONS
from roarbench.store.annotations_and_scores import AnnotationKind, read_annotations
from roarbench.store.export_and_import import export_results, import_results
from roarbench.store.results import Origin, ReproductionOutcome, ResultsStore, make_default_url, read_origins
from roarbench.store.schema import reproductions
from roarbench.store.workspace import Workspace
from tests.helpers.command_line import command, publish
from tests.helpers.processes import read_outcomes
from tests.helpers.store_rows import flip
from tests.helpers.tiny_suite import SUITE, InlineEngine, completed, make_runs, make_work

pytestmark = pytest.mark.slow

PART = replace(SUITE, blocks=tuple(Block(asked, ("random", "grad"), (0.9,), seeds=1) for asked in (ROAR, MORF)))


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A folder of exported rankings, and the correctness bits of the store that made them."""
    root = tmp_path_factory.mktemp("shipping")
    with completed(root / "first", PART) as (work, _, _, store):
        export_rankings(work, root / "shipped", "the project, two cores")
        results = store.read_results(store.list_result_keys(""))
        return root / "shipped", {key: result.bits for key, result in results.items()}


def test_imported_rankings_give_same_results_and_record_origin(shipped, tmp_path):
    folder, answers = shipped
    work, engine = make_work(tmp_path / "new", PART), InlineEngine()
    runs = make_runs(work, PART)
    with ResultsStore.open(make_default_url(tmp_path / "new")) as store:
        import_rankings(work, store, folder)
        import_rankings(work, store, folder)
        assert {step.kind for step in build_job_graph(work, runs)} == {"run"}
        assert [event.failure for event in run_missing(work, runs, store, engine) if event.failure] == []
        found = store.read_results(store.list_result_keys(""))
        assert {key: found[key].bits for key in answers} == answers
        told = read_origins(store.database, found)
    assert {told[key] for key, result in found.items() if result.rankings} == {Origin.SELF_REPORTED}
    assert {told[key] for key, result in found.items() if not result.rankings} == {Origin.VERIFIED}


def test_importing_own_rankings_leaves_results_verified(tmp_path):
    with completed(tmp_path, PART) as (work, _, _, store):
        export_rankings(work, tmp_path / "shipped", "the project, two cores")
        assert len(import_rankings(work, store, tmp_path / "shipped")) == 2
        assert {*read_origins(store.database, store.list_result_keys("")).values()} == {Origin.VERIFIED}
        # a second machine has its own folder and the same database
        assert len(import_rankings(make_work(tmp_path / "second", PART), store, tmp_path / "shipped")) == 2
        assert {*read_origins(store.database, store.list_result_keys("")).values()} == {Origin.VERIFIED}
        export_results(store, tmp_path / "all.parquet")
    with ResultsStore.open(make_default_url(tmp_path / "third")) as store:  # imported results vouch for no rankings
        import_results(store, tmp_path / "all.parquet")
        import_rankings(make_work(tmp_path / "third", PART), store, tmp_path / "shipped")
        made = {result.rankings for result in store.read_results(store.list_result_keys("")).values()} - {""}
        assert read_annotations(store.database, AnnotationKind.IMPORTED, made).keys() == made
    for name in ("rankings", "references"):  # as after an interrupted run: there are rankings, but no results
        shutil.copytree(tmp_path / name, tmp_path / "fourth" / name)
    with ResultsStore.open(make_default_url(tmp_path / "fourth")) as store:
        assert len(import_rankings(make_work(tmp_path / "fourth", PART), store, tmp_path / "shipped")) == 2
        assert read_annotations(store.database, AnnotationKind.IMPORTED, made) == {}


def edit_index(folder, **values):
    (folder / "index.json").write_text(json.dumps(json.loads((folder / "index.json").read_text()) | values))


def replace_by_link(folder):
    path = next(folder.glob("references/*/weights.pt"))
    path.rename(folder.parent / "away.pt")
    path.symlink_to(folder.parent / "away.pt")


TAMPERED = {
    "a flipped bit": (lambda f: flip(next(f.glob("rankings/*/*/grad-*/test.arrow"))), "has the SHA-256"),
    "additional file": (lambda f: (f / "more.pt").write_text(""), "more.pt is not in both index.json and the folder"),
    "path outside folder": (lambda f: edit_index(f, files={"../away": ""}), "not in both"),
    "other images": (lambda f: edit_index(f, data="0" * 32), "on images 00000000"),
    "no index": (lambda f: (f / "index.json").unlink(), "name a folder of `roarbench rankings export`"),
    "a link": (replace_by_link, "is a link"),
    "a newer format": (lambda f: edit_index(f, format=2), "its format is 2"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_import_rankings_rejects_tampered_folder(shipped, tmp_path, kind):
    tamper, said = TAMPERED[kind]
    folder = tmp_path / "shipped"
    shutil.copytree(shipped[0], folder)
    tamper(folder)
    work = make_work(tmp_path / "new", PART)
    with ResultsStore.open(make_default_url(tmp_path / "new")) as store, pytest.raises(StoreError) as refused:
        import_rankings(work, store, folder)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not work.workspace.rankings.exists() and not work.workspace.references.exists()


def test_rankings_export_and_import_commands_transfer_rankings(tmp_path, capsys, monkeypatch):
    publish(monkeypatch, PART)
    small, out = ("--suite", "tiny", "--max-images", "8", "--store"), tmp_path / "out"
    assert command("rankings", "export", out, *small, tmp_path / "a", "--about", "lab") == 2
    assert "no results store at" in capsys.readouterr().err
    assert command("run", *small, tmp_path / "a") == 0
    assert command("rankings", "export", out, *small, tmp_path / "a", "--about", "lab") == 0
    assert command("rankings", "import", out, *small, tmp_path / "b") == 0
    assert "2 rankings; next: roarbench run" in capsys.readouterr().err
    assert command("run", *small, tmp_path / "b") == 0
    assert not list((tmp_path / "b").glob("rankings/*/locks"))


def test_exported_references_contain_only_existing_predictions(tmp_path, capsys, monkeypatch):
    """A machine that retrains predicts classes of training images by the imported networks."""
    of = (Block(ROAR, ("random", "grad"), (0.5,), seeds=1), Block(OWN_NETWORK, ("random", "grad"), (0.5,), seeds=1))
    publish(monkeypatch, replace(SUITE, blocks=of, references=3))
    words = ("--suite", "tiny", "--max-images", "8", "--store")
    alone = ("--about", "lab", "--references-only")
    assert command("run", *words, tmp_path / "a", "--protocol", "own-network") == 0
    assert command("rankings", "export", tmp_path / "out", *words, tmp_path / "a", *alone) == 0
    exported = {path.name for path in (tmp_path / "out").glob("references/*/*")}
    assert exported == {"manifest.json", "test.npz", "weights.pt"}
    assert command("rankings", "import", tmp_path / "out", *words, tmp_path / "b") == 0
    assert command("run", *words, tmp_path / "b") == 0
    first, second = (read_outcomes(make_default_url(tmp_path / name)) for name in "ab")
    assert {key: bits for key, (bits, _) in first.items()} == {key: second[key][0] for key in first}
    assert command("rankings", "export", tmp_path / "more", *words, tmp_path / "b", *alone) == 0
    assert command("rankings", "import", tmp_path / "more", *words, tmp_path / "a") == 0  # has fewer predictions
    path, *_ = (tmp_path / "b").glob("references/*/weights.pt")
    flip(path)
    capsys.readouterr()
    assert command("rankings", "export", tmp_path / "none", *words, tmp_path / "b", *alone) == 2
    assert f"nothing was exported: the reference in {path.parent} is damaged" in capsys.readouterr().err


BOTH = replace(SUITE, blocks=(Block(ROAR, ("grad",), (0.5,), seeds=1), Block(MORF, ("grad",), (0.5,), seeds=1)))
SCORED = replace(BOTH, name="scored", blocks=BOTH.blocks[1:])
RETRAINED = replace(BOTH, name="retrained", blocks=BOTH.blocks[:1])
WIDER = replace(RETRAINED, name="wider", blocks=(replace(RETRAINED.blocks[0], levels=(0.05, 0.5, 0.95)),))
UNTRAINED = replace(BOTH, name="untrained", blocks=(Block(ROAR, ("random",), (0.5,), seeds=1), BOTH.blocks[1]))
COMMON = replace(SUITE, name="common", blocks=(Block(AUGMENTED, ("random", "grad"), (0.5,), seeds=1),))
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
def test_reproduce_uses_suite_of_the_run(tmp_path, store, published, monkeypatch, known, estimator, retrains):
    """Another suite with the same images and network comes first in the table of suites."""
    given, workspace, console = make_weights_title("torchvision:small"), Workspace(tmp_path), Console(file=StringIO())
    known = [replace(suite, given=given) if suite is SCORED else suite for suite in known]
    monkeypatch.setattr("roarbench.execution.run_suite.LocalEngine", InlineEngine)
    for title in [title for title, suite in SUITE_VERSIONS.items() if suite.dataset == "planted"]:
        monkeypatch.delitem(SUITE_VERSIONS, title)
    for suite in known:
        monkeypatch.setitem(SUITE_VERSIONS, (suite.name, 1), suite)
    assert run_suite(Request(known[-1], limit=8), workspace, store, console).failed == 0
    rows = [result.run for result in store.read_results(store.list_result_keys("")).values()]
    for retrain in retrains:
        (key,) = [run.key for run in rows if (run.cell.estimator, run.cell.retrain) == (estimator, retrain)]
        assert reproduce(RerunRequest(key), workspace, store, console).verdict is ReproductionOutcome.EQUAL
    if not known[-1].given:
        with pytest.raises(CallerError, match="has no given weights; leave --reference out"):
            reproduce(RerunRequest(key, references=(str(published),)), workspace, store, console)


def test_reproduce_stores_no_outcome_for_another_explained_network(tmp_path, store, monkeypatch):
    monkeypatch.setattr("roarbench.execution.run_suite.LocalEngine", InlineEngine)
    monkeypatch.setitem(SUITE_VERSIONS, (SCORED.name, 1), SCORED)
    workspace, console = Workspace(tmp_path), Console(file=StringIO())
    assert run_suite(Request(SCORED, limit=8), workspace, store, console).failed == 0
    rows = store.read_results(store.list_result_keys("")).values()
    stored = next(row for row in rows if row.weights and row.rankings and not row.run.cell.retrain.trains)
    again = replace(stored, weights="0" * len(stored.weights), bits=bytes(len(stored.bits)), correct=0)
    monkeypatch.setattr("roarbench.execution.reproduction._rerun", lambda *_: again)
    outcome = reproduce(RerunRequest(stored.run.key), workspace, store, console)
    assert outcome.verdict is ReproductionOutcome.INCOMPARABLE and "has other weights" in outcome.format_report()
    with store.database.begin_read() as connection:
        assert connection.execute(select(reproductions)).all() == []
    monkeypatch.setattr("roarbench.execution.reproduction._rerun", lambda *_: stored)
    assert reproduce(RerunRequest(stored.run.key), workspace, store, console).verdict is ReproductionOutcome.EQUAL
    with store.database.begin_read() as connection:
        assert len(connection.execute(select(reproductions)).all()) == 1
