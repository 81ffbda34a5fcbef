"""Suites with several explained networks: networks of seeds, shared rankings, and replications."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from roarbench.common.enums import MapNumerics, ScoredNetwork, Split
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import predict_logits
from roarbench.compute.ranking import find_removed_bits
from roarbench.estimators.image_gradient import StridedConvolution
from roarbench.execution import ranking_jobs as shards
from roarbench.execution.job_graph import build_job_graph
from roarbench.execution.run_inputs import remove_features
from roarbench.execution.workload import count_work
from roarbench.plan.planned_runs import (
    PlannedRun,
    build_run,
    list_clean_runs_of_explained_networks,
    list_planned_runs,
    make_reference_spec,
)
from roarbench.plan.protocols import MASK_ONLY, MORF, ROAR
from roarbench.plan.suite import Block
from roarbench.store.workspace import Workspace
from tests.helpers.tiny_suite import (
    SUITE,
    TEST,
    completed,
    make_runs,
    make_scalar_spec,
    open_rankings_of_run,
    rank_all,
    score,
    size_jobs,
)

BLOCKS = (
    Block(ROAR, ("random", "grad"), (0.9,), seeds=3),
    Block(MASK_ONLY, ("random", "grad"), (0.9,), seeds=1),
    Block(MORF, ("random", "grad"), (0.9,), seeds=1),
)
TWO = replace(SUITE, name="two", blocks=BLOCKS, references=2)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    with completed(tmp_path_factory.mktemp("references"), TWO) as made:
        yield made


def test_runs_use_reference_seed_mod_r_and_replication_new_seeds():
    def explained(suite, name="grad"):
        runs = {point: build_run(suite, point, "da7a", None) for point in list_planned_runs(suite)}
        retrained = {point: run for point, run in runs.items() if point.cell.retrain is ROAR.retrain}
        return {point.seed: run.reference for point, run in retrained.items() if point.cell.estimator == name}

    again = replace(TWO, replication=1)
    first, second = (make_reference_spec(TWO, "da7a", number).key for number in range(2))
    assert explained(TWO) == {0: first, 1: second, 2: first}
    assert set(explained(again)) == {10_000, 10_001, 10_002}
    assert not set(explained(again).values()) & {first, second} and first != second
    made = (make_reference_spec(suite, "da7a", number).seed for suite in (TWO, again) for number in (0, 1))
    seeds = [seed + twin for seed in made for twin in (0, 1)]
    assert len(set(seeds)) == len(seeds)  # seeds of untrained networks included
    work, one = (count_work(suite, list_planned_runs(suite)) for suite in (TWO, replace(TWO, references=1)))
    assert work.images_ranked == 3 * one.images_ranked // 2  # random's once, grad's for each reference
    assert work.images_explained == 2 * one.images_explained
    told = replace(TWO, blocks=(Block(ROAR, ("random", "class-template"), (0.9,), seeds=3),))
    assert explained(told, "class-template") == explained(TWO)  # class-template uses the class predicted by the network
    assert set(explained(TWO, "random").values()) == {""}


@pytest.mark.slow
def test_each_reference_is_trained_once_and_ranks_its_own_runs(done):
    work, runs, jobs, store = done
    assert [name for name in jobs if name.startswith("explained")] == ["explained network 1", "explained network 2"]
    shards = [name for name in jobs if name.startswith("rank controls")]
    assert len(shards) == len(set(shards)) == sum(name.startswith("rank trained ") for name in jobs)
    results, used = store.read_results([run.key for run in runs]), {}
    for run in runs:
        weights = work.find_explained_network(run).store.read_checksum() if run.reference else ""
        assert results[run.key].weights == weights
        if run.cell.estimator == "grad" and run.cell.retrain is ROAR.retrain:
            used[run.seed] = open_rankings_of_run(work, run).checksum
            assert results[run.key].rankings == used[run.seed]
    assert used[0] == used[2] != used[1]
    scores = [
        results[build_run(TWO, point, work.images.fingerprint, None).key]
        for point in list_clean_runs_of_explained_networks(TWO)
    ]
    for number, scored in enumerate(scores):
        said = work.explained[number].store.load_predictions(Split.TEST).targets
        assert scored.correct == int((said == work.images.test.labels).sum())


@pytest.mark.slow
def test_other_reference_twin_scores_own_network_under_other_map(done):
    (work, runs, *_), seed = done, 1
    morf = {run.seed: run for run in runs if (run.cell.estimator, run.cell.retrain) == ("grad", ScoredNetwork.NONE)}
    cell = replace(morf[seed].cell, estimator="grad~other-reference")
    asked = build_run(TWO, PlannedRun(cell, seed), work.images.fingerprint, None)
    assert (asked.network, asked.reference) == (morf[seed].reference, morf[1 - seed].reference)
    found, judge, rankings = score(work, asked), work.explained[seed], open_rankings_of_run(work, asked)
    removed = find_removed_bits(rankings.splits[Split.TEST], cell.t, cell.order, rankings.layout)
    images = remove_features(work.images, Split.TEST, removed, cell)
    logits = predict_logits(judge.load_trained(), images, judge.norm, 64)
    assert found.rankings == rankings.checksum
    assert (found.correctness == (logits.argmax(1).numpy() == work.images.test.labels)).all()
    said = judge.store.load_predictions(Split.TEST).targets
    np.testing.assert_allclose(found.probabilities, logits.softmax(1).numpy()[np.arange(len(said)), said], rtol=1e-5)


@pytest.mark.slow
def test_jointly_ranked_references_equal_separately_ranked_ones(done, tmp_path, monkeypatch):
    """Some images of one network, and all test images of another, were ranked before."""
    size_jobs(monkeypatch, 8, 16)
    suite = replace(TWO, blocks=(Block(ROAR, ("grad", "var-grad"), (0.9,), seeds=2),))
    alone, together = (replace(done[0], suite=suite, workspace=Workspace(tmp_path / name)) for name in ("a", "b"))
    for work in (alone, together):
        shutil.copytree(done[0].workspace.references, work.workspace.references)
    names, specs = ("grad", "var-grad"), []
    for number in (0, 1):
        specs.append([make_scalar_spec(alone, name, number) for name in names])
        rank_all(alone, *names, number=number)
    shards.rank_shard(together, specs[0][1:], Split.TRAIN, 8, 24)
    shards.rank_shard(together, specs[1], Split.TEST, 0, TEST)
    graph_steps = build_job_graph(together, make_runs(together, suite)).steps
    ranking = [step.job for step in graph_steps if step.kind == "rank"]
    counts = {job.name: len(job.arguments[1]) for job in ranking if "test" not in job.name}
    assert counts == {f"rank trained train {at}": n for at, n in ((0, 4), (8, 3), (16, 3), (24, 4), (32, 4))}
    assert {len(job.arguments[1]) for job in ranking if "test" in job.name} == {2}
    for job in (*ranking, *(step.job for step in graph_steps if step.kind == "seal")):
        assert not job.call(*job.arguments)
    for spec in (*specs[0], *specs[1]):
        found, expected = (each.rankings.open(spec) for each in (together, alone))
        assert (found.checksum, found.prediction_stability) == (expected.checksum, expected.prediction_stability)
        assert found.weights == expected.weights == alone.find_network_of_ranking(spec).store.read_checksum()


@pytest.mark.parametrize("numerics", MapNumerics)
def test_networks_of_maps_have_fast_image_gradients_unless_maps_are_plain_float32(numerics):
    class Explained:
        def load_variant(self, variant):
            assert variant == "trained"
            return build_network("resnet-quick", 10, 3, 64, torch.Generator()).eval()

    model = shards._load_and_speed_up_network(Explained(), "trained", numerics, "")
    is_fast = any(isinstance(module, StridedConvolution) for module in model.modules())
    assert is_fast == (numerics is not MapNumerics.FLOAT32)
