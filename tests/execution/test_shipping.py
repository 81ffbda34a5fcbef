"""Rankings of a suite in a folder: what is exported, what is refused, and a run that makes no map."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from roarbench.errors import StoreError
from roarbench.execution.job_graph import steps
from roarbench.execution.scheduler import complete
from roarbench.execution.shipping import export_rankings, import_rankings
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.store.entries import Origin, origins
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.command_line import command, publish
from tests.helpers.damage import flip
from tests.helpers.tiny_suite import SUITE, InlineEngine, completed, make_runs, make_work

pytestmark = pytest.mark.slow

PART = replace(SUITE, blocks=tuple(Block(asked, ("random", "grad"), (0.9,), seeds=1) for asked in (ROAR, MORF)))


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A folder of the tiny suite's rankings, and the answers of the store that made them."""
    root = tmp_path_factory.mktemp("shipping")
    with completed(root / "first", PART) as (work, _, _, store):
        export_rankings(work, root / "shipped", "the project, two cores")
        return root / "shipped", {key: result.bits for key, result in store.results(store.keys("")).items()}


@pytest.fixture
def folder(shipped, tmp_path):
    return Path(shutil.copytree(shipped[0], tmp_path / "shipped"))


def test_a_new_store_retrains_without_a_map_and_says_whose_they_are(shipped, tmp_path):
    folder, answers = shipped
    work, engine = make_work(tmp_path / "new", PART), InlineEngine()
    runs = make_runs(work, PART)
    with ResultsStore.open(default_url(tmp_path / "new")) as store:
        import_rankings(work, store, folder)
        import_rankings(work, store, folder)
        assert {step.kind for step in steps(work, runs)} == {"run"}
        assert [event.failure for event in complete(work, runs, store, engine) if event.failure] == []
        found = store.results(store.keys(""))
        assert {key: found[key].bits for key in answers} == answers
        told = origins(store.database, found)
    assert {told[key] for key, result in found.items() if result.rankings} == {Origin.SELF_REPORTED}
    assert {told[key] for key, result in found.items() if not result.rankings} == {Origin.VERIFIED}


def edit(folder, **values):
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(index | values))


def link(folder):
    path = next(folder.glob("references/*/weights.pt"))
    path.rename(folder.parent / "away.pt")
    path.symlink_to(folder.parent / "away.pt")


TAMPERED = {
    "a flipped bit": (lambda f: flip(next(f.glob("rankings/*/*/grad-*/test.arrow"))), "has the SHA-256"),
    "a missing file": (lambda f: next(f.glob("rankings/*/*/*/manifest.json")).unlink(), "not in both"),
    "a file too many": (lambda f: (f / "more.pt").write_text(""), "more.pt is in index.json or in the folder"),
    "a path out of the folder": (lambda f: edit(f, files={"../away": ""}), "not in both"),
    "other images": (lambda f: edit(f, data="0" * 32), "on the images 00000000, expected tiny v1 on the images"),
    "another suite": (lambda f: edit(f, suite="quick v3"), "is of quick v3"),
    "a link": (link, "is a link"),
    "a newer format": (lambda f: edit(f, format=2), "format is 2"),
    "two lines about it": (lambda f: edit(f, about="a\nb"), "no index of rankings"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_tampering_is_refused_in_one_line_and_nothing_is_taken(folder, tmp_path, kind):
    tamper, said = TAMPERED[kind]
    tamper(folder)
    work = make_work(tmp_path / "new", PART)
    with ResultsStore.open(default_url(tmp_path / "new")) as store, pytest.raises(StoreError) as refused:
        import_rankings(work, store, folder)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not work.workspace.rankings.exists() and not work.workspace.references.exists()


def test_the_command_line_ships_and_takes(tmp_path, capsys, monkeypatch):
    publish(monkeypatch, PART)
    small, out = ("--suite", "tiny", "--limit", "8", "--store"), tmp_path / "out"
    assert command("rankings", "export", out, *small, tmp_path / "a", "--about", "lab") == 2
    assert "tiny v1, such as rankings/" in capsys.readouterr().err
    assert command("run", *small, tmp_path / "a") == 0
    assert command("rankings", "export", out, *small, tmp_path / "a", "--about", "lab") == 0
    assert command("rankings", "import", out, *small, tmp_path / "b") == 0
    assert "2 rankings; next: roarbench run" in capsys.readouterr().err
    assert command("run", *small, tmp_path / "b") == 0
    assert not list((tmp_path / "b").glob("rankings/*/locks"))
