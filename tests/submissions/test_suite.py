"""Submissions in a tiny suite: stored rows, failure reasons, validation before runs, and variants."""

from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

from roarbench.common.enums import Split
from roarbench.common.errors import RunError
from roarbench.compute.map_ranking import rank_to_bit_planes
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import blur
from roarbench.execution import ranking_jobs, submission_intake, training_and_scoring
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.user_files import store_submission
from roarbench.store.workspace import Workspace
from roarbench.submissions import submission_validation
from roarbench.submissions.limits_and_faults import Refusal
from roarbench.submissions.submission_file import parse_submission
from tests.helpers.older_suites import OLDER
from tests.helpers.sandboxed import GRADIENT
from tests.helpers.tiny_suite import SUITE, InlineEngine, make_runs, make_work, open_rankings_of_run, run_missing

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_sandbox")]

GOOD = f'NAME = "good"\nDESCRIPTION = "gradient"\n{GRADIENT}'.encode()
OTHER = """
import os
NAME = "{}"
DESCRIPTION = "fails or ends its process where it meets a full batch, or has one number for each pixel, as captum"
def estimate(model, images, targets, generator):
    {}
    return images
"""
LATE = OTHER.format("late", 'assert len(images) != 24, "a test batch"').encode()
KILLS = OTHER.format("kills", "len(images) == 24 and os.kill(os.getpid(), 9)").encode()
SEES_ONE_NETWORK = OTHER.format("one", 'assert model is globals().setdefault("first", model), "another"').encode()
PER_PIXEL = OTHER.format("per-pixel", "images = images.mean(1, keepdim=True)").encode()
CONSOLE = Console(file=StringIO())
SMALL = replace(SUITE, blocks=(Block(ROAR, ("random", "grad"), (0.9,), seeds=1),))


def run_all(work, runs, store):
    """Do all runs and return failure reasons by estimator id."""
    list(run_missing(work, runs, store, InlineEngine()))
    failures = store.failures.read_history([run.key for run in runs])
    return {found[0].run.cell.estimator: [failure.reason for failure in found] for found in failures.values()}


def test_suite_run_stores_good_submission_and_failure_reasons(tmp_path, store):
    """Failures of a submission count as its own, not as a machine's, so no other machine tries again.

    A sandbox has one explained network: a submission that saw two could subtract one network's map from the other's.
    """
    entries = [parse_submission(code) for code in (GOOD, LATE, KILLS, SEES_ONE_NETWORK)]
    two = replace(SMALL, blocks=(replace(SMALL.blocks[0], seeds=2),), references=2)
    suite = add_estimators_with_twins(two, [entry.id for entry in entries])
    work = make_work(tmp_path, suite)
    for entry in entries:
        work.workspace.save_submission(entry.id, entry.source)
    runs = make_runs(work, suite)
    failures = run_all(work, runs, store)
    good, late, kills, one = (entry.id for entry in entries)
    assert set(failures) == {late, kills}
    assert "failed: raised: AssertionError: a test batch (line 6)" in failures[late][0]
    (reason,) = failures[kills]
    assert "died: its process ended by signal 9 (sent by itself, or this machine ran out of memory)" in reason
    assert "tried" not in reason
    done = {run.cell.estimator for run in runs if store.find_done_keys([run.key])}
    assert done == {"none", "random", "grad", good, one}

    def planes(name, seed):  # one run per explained network
        (run,) = [run for run in runs if run.cell.estimator == name and run.seed == seed]
        return open_rankings_of_run(work, run).splits[Split.TEST]

    for seed in (0, 1):
        differ = np.bitwise_count(planes(good, seed) ^ planes("grad", seed)).mean() / 8
        assert differ < 0.01, seed  # the same gradient, but for its rounding


def test_submission_and_twins_join_blocks_of_estimators_like_it():
    suite, mine = OLDER["quick@1"], "mine@0123abcd"
    joined = add_estimators_with_twins(suite, [mine])
    assert set(list_planned_runs(suite)) < set(list_planned_runs(joined)), "keys stay"
    assert [mine in block.estimators for block in joined.blocks] == [True] * 5 + [False]
    assert [f"{mine}~blurred" in block.estimators for block in joined.blocks] == [False] * 5 + [True]
    twins = {f"{mine}~{twin}" for twin in ("blurred", "untrained", "other-target")}
    assert twins <= set(add_estimators_with_twins(find_builtin_suite("imagenette64"), [mine]).estimators)


def test_stored_submission_is_validated_before_run(tmp_path, store, monkeypatch):
    """A stored submission may be imported or trusted, and so not validated yet."""
    paths, asked = [tmp_path / "good.py", tmp_path / "late.py"], []
    for path, source in zip(paths, (GOOD, LATE), strict=True):
        path.write_bytes(source)
    store_submission(store.database, parse_submission(GOOD))

    def validate(entry, suite, begin, limit):
        asked.append(entry)
        return SimpleNamespace(format_report=str, submission=entry, warnings=[])

    monkeypatch.setattr(submission_intake, "validate_submission", validate)
    with pytest.raises(Refusal, match=r"cannot read .*none\.py"):  # before any is run
        submission_intake.read_submissions([*paths, tmp_path / "none.py"])
    read, mode = submission_intake.read_submissions([*paths, paths[0]]), submission_intake.SubmissionMode(False, False)
    made = submission_intake.check_and_store_submissions(read, mode, store, Workspace(tmp_path), CONSOLE)
    assert asked == [parse_submission(GOOD), parse_submission(LATE)]
    assert made == [entry.id for entry in asked]


def test_pace_of_submission_is_measured_on_the_network(monkeypatch):
    """A sandbox that reports 3 s for its calls and used 5 s of a core took 2 s to start."""
    seen = []

    def explain(task, limits, trust):
        (part,) = task.parts
        seen.append((task.network, task.device, trust, part.images.shape))
        return SimpleNamespace(refusal=None, seconds=3.0, ended=SimpleNamespace(cpu=5.0))

    monkeypatch.setattr(submission_validation, "run_submission", explain)
    for name, count in (("planted", 64), ("imagenet", 2)):  # 4.4e6 and 8.2e9 operations per image
        network = find_builtin_suite(name).find_network()
        pace = submission_validation.measure_submission_pace(b"", network, "cuda", True)
        assert pace == pytest.approx((3.0 / count, 2.0))
        assert seen.pop() == (network, "cuda", True, (count, network.channels, network.size, network.size))


def test_blurred_variant_uses_same_submission_call(tmp_path, store, monkeypatch):
    blocks = (*SMALL.blocks, Block(ROAR, ("random-blurred", "grad~blurred"), (0.9,), seeds=1))
    entry, calls = parse_submission(PER_PIXEL), []
    suite = add_estimators_with_twins(replace(SMALL, blocks=blocks), [entry.id])
    work, explain = make_work(tmp_path, suite), ranking_jobs.run_submission
    work.workspace.save_submission(entry.id, entry.source)
    monkeypatch.setattr(
        ranking_jobs, "run_submission", lambda *task, **how: calls.append(task) or explain(*task, **how)
    )
    assert run_all(work, make_runs(work, suite), store) == {}
    assert len(calls) == 2  # one of each split
    batch = ranking_jobs.load_batch(work.explained[0], Split.TEST, 0, 24, work.explained[0].norm)
    for twin in ("", "~blurred"):
        (run,) = [run for run in make_runs(work, suite) if run.cell.estimator == entry.id + twin]
        stored = work.rankings.open(work.make_ranking_spec(find_estimator(run.cell.estimator), run.cell.unit))
        pixels = batch.images.mean(1, keepdim=True)
        expected = (blur(pixels) if twin else pixels)[:, 0]
        planes, _ = rank_to_bit_planes(expected, batch.ids.numpy(), stored.layout)
        differ = np.bitwise_count(stored.splits[Split.TEST] ^ planes).mean() / 8
        assert differ < 0.01  # but for rounding, as above


def test_estimator_id_selects_device_trust_network_and_target(tmp_path, monkeypatch):
    work, entry = make_work(tmp_path), parse_submission(GOOD)
    work.workspace.save_submission(entry.id, GOOD)
    training_and_scoring.train_or_read_reference(work.explained[0])
    asked, parts = {}, {}

    def explained(task, limits, trust):
        parts[mark], asked[mark] = task.parts[0], (task.device, trust)
        raise RunError("that is enough")

    monkeypatch.setattr(ranking_jobs, "run_submission", explained)
    for mark in ("", "~cuda", "~trusted", "~trusted~cuda", "~untrained", "~other-target"):
        with pytest.raises(RunError, match="that is enough"):
            ranking_jobs.make_maps_for_networks([(work.explained[0], entry.id + mark)], Split.TEST, 0, 4)
    assert [*asked.values()][:4] == [("cpu", False), ("cuda", False), ("cpu", True), ("cuda", True)]
    weights = {twin: part.model.state_dict()["linear.weight"] for twin, part in parts.items()}
    torch.testing.assert_close(weights["~other-target"], weights[""], rtol=0, atol=0)
    untrained = work.explained[0].build_untrained_network(work.explained[0].reference.seed + 1)
    torch.testing.assert_close(weights["~untrained"], untrained.state_dict()["linear.weight"])
    assert not torch.equal(weights["~untrained"], weights[""])
    assert (parts["~other-target"].targets != parts[""].targets).all()
    assert (parts["~untrained"].targets == parts[""].targets).all()
