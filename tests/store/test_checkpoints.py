"""Unfinished trainings: what comes back, what a kill -9 leaves, and when the file goes away."""

import pytest
import torch

from roarbench import files
from roarbench.execution.scheduler import complete
from roarbench.kernels import train
from roarbench.store.checkpoints import CheckpointFile
from roarbench.terms import Retrain
from tests.helpers.damage import flip, halve
from tests.helpers.tiny_suite import InlineEngine, make_runs, make_work

STATE = {"step": 3, "weights": {"a": torch.arange(4.0)}, "generators": [torch.Generator().get_state()]}


def test_what_was_saved_last_comes_back_to_a_training_on_the_same_rankings(tmp_path):
    file = CheckpointFile(tmp_path / "folder" / "run.pt", "0ne")
    assert file.load() is None
    file.save(STATE | {"step": 2})
    file.save(STATE)
    torch.testing.assert_close(file.load(), STATE, rtol=0, atol=0)
    assert file.note == ""
    for other in ("0ther", ""):
        assert CheckpointFile(tmp_path / "folder" / "run.pt", other).load() is None
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["run.pt"]
    for name in ("run.partial", "run.0123.partial", "other.0123.partial"):  # of killed writers
        (tmp_path / "folder" / name).write_bytes(b"half")
    for _ in range(2):  # gone already
        file.remove()
        assert file.load() is None
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["other.0123.partial"]


DAMAGE = {
    "cut off": halve,
    "a pickle's garbage": lambda path: path.write_bytes(b"\x80\x02."),  # IndexError, where torch expects a value
    "a number's bit": lambda path: flip(path, STATE["weights"]["a"].numpy().tobytes()),  # torch reads it all the same
    "no training": lambda path: torch.save(torch.arange(3.0), path),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_dropped_with_a_line(tmp_path, damage):
    path = tmp_path / "run.pt"
    CheckpointFile(path).save(STATE)
    DAMAGE[damage](path)
    file = CheckpointFile(path)
    assert file.load() is None
    assert file.note == f"the checkpoint {path} was damaged and is dropped; its training started anew"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("over", [False, True])
def test_two_writers_of_one_run_do_not_disturb_each_other(tmp_path, monkeypatch, over):
    """The other one saves, or ends its run, amid a save."""
    one, other = (CheckpointFile(tmp_path / "run.pt") for _ in range(2))
    sync, began = files.sync, []

    def amid(path):
        if not began:
            began.append(path)
            other.remove() if over else other.save(STATE | {"step": 8})
        sync(path)

    monkeypatch.setattr(files, "sync", amid)
    one.save(STATE)
    torch.testing.assert_close(one.load(), None if over else STATE, rtol=0, atol=0)
    assert [path.name for path in tmp_path.iterdir()] == ([] if over else ["run.pt"])


@pytest.mark.slow
def test_damaged_ones_are_begun_anew_and_that_of_a_run_stays_until_its_row_is_stored(second, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "CHECKPOINT_EVERY", -1.0)
    work, present, saved = make_work(tmp_path), [], set()
    run = next(run for run in make_runs(work) if run.cell.retrain is Retrain.NONE)
    trained = next(run for run in make_runs(work) if run.cell.estimator == "none" and run.reference == "")
    paths = [work.workspace.checkpoints / f"{key}.pt" for key in (work.explained[0].reference.key, trained.key)]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes(b"half of")
    add, save = second.add, CheckpointFile.save
    monkeypatch.setattr(second, "add", lambda *stored: (present.append(paths[1].exists()), add(*stored)))
    monkeypatch.setattr(CheckpointFile, "save", lambda self, state: (saved.add(self._path), save(self, state)))
    events = list(complete(work, [run, trained], second, InlineEngine()))
    assert second.done([run.key, trained.key]) == {run.key, trained.key}
    notes = {event.step.job.name: event.note for event in events if event.note}
    said = [f"the checkpoint {path} was damaged and is dropped; its training started anew" for path in paths]
    assert notes == {"reference": said[0], trained.key: said[1]}
    assert not any(event.failure for event in events)
    assert True in present and saved == set(paths)
    assert list(work.workspace.checkpoints.iterdir()) == []
