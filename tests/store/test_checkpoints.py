"""Unfinished trainings: what comes back, what a kill -9 leaves, and when the file goes away."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from roarbench import train, work
from roarbench.errors import StoreError
from roarbench.pipeline import complete
from roarbench.recipes import RECIPES, find_recipe
from roarbench.store.checkpoints import CheckpointFile
from roarbench.store.results import ResultsStore
from tests.tiny_bench import SUITE, InlineEngine, make_bench, make_runs

TESTS = Path(__file__).parents[1]
LONG = replace(find_recipe("planted@1"), name="long", epochs=64)  # 64 steps of one batch, the 40 images
STATE = {"step": 3, "weights": {"a": torch.arange(4.0)}, "generators": [torch.Generator().get_state()]}


def test_what_was_saved_last_comes_back(tmp_path):
    file = CheckpointFile(tmp_path / "folder" / "run.pt")
    assert file.load() is None
    file.save(STATE | {"step": 2})
    file.save(STATE)
    torch.testing.assert_close(file.load(), STATE, rtol=0, atol=0)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["run.pt"]
    file.remove()
    assert file.load() is None
    file.remove()  # gone already


def test_a_training_on_other_rankings_is_not_continued(tmp_path):
    CheckpointFile(tmp_path / "run.pt", "0ne").save(STATE)
    assert CheckpointFile(tmp_path / "run.pt", "0ther").load() is None
    assert CheckpointFile(tmp_path / "run.pt").load() is None
    torch.testing.assert_close(CheckpointFile(tmp_path / "run.pt", "0ne").load(), STATE, rtol=0, atol=0)


def test_a_write_that_is_cut_off_leaves_the_one_before(tmp_path, monkeypatch):
    file = CheckpointFile(tmp_path / "run.pt")
    file.save(STATE)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("cut off")))
    with pytest.raises(StoreError, match="cannot write .*run.pt"):
        file.save(STATE | {"step": 9})
    assert file.load()["step"] == 3


def test_a_file_that_is_none_is_named(tmp_path):
    path = tmp_path / "run.pt"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(StoreError, match=r"the checkpoint .*run\.pt is damaged; delete it"):
        CheckpointFile(path).load()


CHILD = """
import sys, time
from pathlib import Path
from roarbench import train, work
from roarbench.recipes import RECIPES
from roarbench.store.checkpoints import CheckpointFile
from tests.store.test_checkpoints import LONG, long_bench

RECIPES[LONG.title] = LONG
train.CHECKPOINT_EVERY = -1.0
save = CheckpointFile.save
def saved(self, state):
    save(self, state)
    print(state["step"], flush=True)
    time.sleep(0.02)
CheckpointFile.save = saved
work.train_reference(long_bench(Path(sys.argv[1])))
"""


def long_bench(folder):
    return make_bench(folder, replace(SUITE, reference_recipe=LONG.title))


def test_killed_in_the_middle_and_begun_again_it_ends_with_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setitem(RECIPES, LONG.title, LONG)
    paths = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", CHILD, tmp_path / "killed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}) as child:
        while (step := child.stdout.readline().strip()) != "17":
            assert step, "the child ended before it was killed"
        child.kill()
    assert child.returncode == -signal.SIGKILL
    bench, whole = long_bench(tmp_path / "killed"), long_bench(tmp_path / "whole")
    assert not bench.references.has(bench.reference)
    assert 17 <= bench.checkpoint(bench.reference.key).load()["step"] < 64
    taken = []
    advance = train._Training.advance
    monkeypatch.setattr(train._Training, "advance", lambda self: taken.append(self.step) or advance(self))
    work.train_reference(bench)
    assert taken[0] >= 17
    assert taken[-1] == 63
    work.train_reference(whole)
    one, other = (some.references.weights(some.reference) for some in (bench, whole))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert list(bench.workspace.checkpoints.iterdir()) == []


def test_a_runs_checkpoint_stays_until_its_row_is_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "CHECKPOINT_EVERY", -1.0)
    bench = make_bench(tmp_path)
    run = next(run for run in make_runs(bench) if run.cell.estimator == "none" and run.reference == "")
    path = bench.workspace.checkpoints / f"{run.key}.pt"
    present = []
    with ResultsStore.open(f"sqlite:///{tmp_path}/results.sqlite") as store:
        add = store.add
        monkeypatch.setattr(store, "add", lambda result: (present.append(path.exists()), add(result)))
        (event,) = complete(bench, [run], store, InlineEngine())
        assert (event.failure, present) == ("", [True])
        assert store.done([run.key]) == {run.key}
    assert not path.exists()


def test_a_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    bench = make_bench(tmp_path)
    run = next(run for run in make_runs(bench) if run.cell.estimator == "none" and run.reference == "")
    expected = work.score(bench, run)
    monkeypatch.setattr(train, "CHECKPOINT_EVERY", -1.0)
    cut_off = []
    advance = train._Training.advance

    def stop_at_3(self):
        if self.step == 3 and not cut_off:
            cut_off.append(self.step)
            raise KeyboardInterrupt
        advance(self)

    monkeypatch.setattr(train._Training, "advance", stop_at_3)
    with pytest.raises(KeyboardInterrupt):
        work.score(bench, run)
    again = work.score(bench, run)
    assert (again.correct == expected.correct).all()
