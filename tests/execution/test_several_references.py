"""Suites that explain several networks: which seed is ranked by which, what is shared, what a replication changes."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import importance, jobs, shards
from roarbench.execution import job_graph as graph
from roarbench.execution.job_graph import steps
from roarbench.execution.placed_inputs import without
from roarbench.execution.scheduler import complete
from roarbench.forecast.workload import count_work
from roarbench.kernels.ranking import removed_bits
from roarbench.kernels.scoring import predict
from roarbench.plan.keys import bind, reference_of, reference_points
from roarbench.plan.points import Point, expand
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Retrain, Split, Unit
from tests.helpers.made_up import SUITE as MADE_UP
from tests.helpers.made_up import held
from tests.helpers.tiny_suite import SUITE, InlineEngine, make_context, make_runs

BLOCKS = (
    Block(ROAR, ("random", "grad"), (0.9,), seeds=3),
    Block(MASK_ONLY, ("random", "grad"), (0.9,), seeds=1),
    Block(MORF, ("random", "grad"), (0.9,), seeds=1),
)
TWO = replace(SUITE, name="two", blocks=BLOCKS, references=2)


def test_seed_s_of_an_estimator_is_ranked_by_reference_s_mod_r():
    runs = {point: bind(TWO, point, "da7a", None) for point in expand(TWO)}
    explained = {
        p.seed: run.reference
        for p, run in runs.items()
        if (p.cell.estimator, p.cell.retrain.value) == ("grad", "images")
    }
    first, second = (reference_of(TWO, "da7a", number).key for number in range(2))
    assert first != second
    assert explained == {0: first, 1: second, 2: first}


def test_a_replication_shares_neither_a_seed_nor_a_reference():
    again = replace(TWO, replication=1)
    assert not {point.seed for point in expand(TWO)} & {point.seed for point in expand(again)}
    seeds = [suite.reference_seed(number) + twin for suite in (TWO, again) for number in (0, 1) for twin in (0, 1)]
    assert len(set(seeds)) == len(seeds)  # those of the networks with random weights, too
    explained = [
        {run.reference for run in map(lambda p, s=s: bind(s, p, "da7a", None), expand(s))} - {""} for s in (TWO, again)
    ]
    assert not explained[0] & explained[1]
    assert [again.reference_number(seed) for seed in (10_000, 10_001, 10_002)] == [0, 1, 0]
    assert again.title == "two v1, replication 1"


def test_maps_are_counted_for_each_reference_and_controls_rankings_once():
    work, one = (count_work(suite, expand(suite), (), None) for suite in (TWO, replace(TWO, references=1)))
    images = one.images_ranked // 2  # random's and grad's
    assert work.images_ranked == 3 * images
    assert work.images_explained == 2 * one.images_explained
    assert work.images_reference == 2 * one.images_reference


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("references")
    context = make_context(folder, TWO)
    runs, engine = make_runs(context, TWO), InlineEngine()
    with ResultsStore.open(default_url(folder)) as store:
        events = list(complete(context, runs, store, engine))
        yield context, runs, engine, events, store.results([run.key for run in runs])


@pytest.mark.slow
def test_each_reference_is_trained_once_and_every_run_is_done(done):
    context, runs, engine, events, results = done
    assert not [event.failure for event in events if event.failure]
    assert set(results) == {run.key for run in runs}
    assert [name for name in engine.done if name.startswith("reference")] == ["reference 1", "reference 2"]
    shards = [name for name in engine.done if name.startswith("rank controls")]
    assert len(shards) == len(set(shards)) == sum(name.startswith("rank trained ") for name in engine.done)
    assert steps(context, []) == []


@pytest.mark.slow
def test_a_run_removes_by_the_maps_of_its_own_reference(done):
    context, runs, _, _, results = done
    used = {}
    for run in runs:
        if run.cell.estimator == "grad" and run.cell.retrain is ROAR.retrain:
            own = context.of(run)
            sealed = own.rankings.open(own.ranking_spec(find_estimator("grad"), Unit.SCALAR)).checksum
            assert results[run.key].rankings == sealed
            assert results[run.key].weights == own.references.checksum(own.reference)
            used[run.seed] = sealed
    assert used[0] == used[2] != used[1]
    random = {results[run.key].rankings for run in runs if run.cell.estimator == "random"}
    assert len(random) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_where_nothing_is_trained_another_references_map_is_put_to_the_seeds_own_network(done, seed):
    context, runs, *_ = done
    morf = {run.seed: run for run in runs if (run.cell.estimator, run.cell.retrain) == ("grad", Retrain.NONE)}
    cell = replace(morf[seed].cell, estimator="grad~other-reference")
    asked = bind(TWO, Point(cell, seed), context.data.fingerprint, None)
    assert (asked.network, asked.reference) == (morf[seed].reference, morf[1 - seed].reference)
    found = jobs.score(context.of(asked), asked)
    judge, maker = context.explaining(seed), context.of(asked)
    planes = maker.rankings.open(maker.ranking_spec(find_estimator("grad"), Unit.SCALAR))
    removed = removed_bits(planes.planes(Split.TEST), cell.t, cell.order, planes.layout)
    logits = predict(judge.trained_reference(), without(judge, Split.TEST, removed, cell), judge.norm, 64)
    assert found.rankings == planes.checksum
    assert (found.correct == (logits.argmax(1).numpy() == judge.data.test.labels)).all()
    said = judge.references.predictions(judge.reference, Split.TEST).targets
    np.testing.assert_allclose(found.probability, logits.softmax(1).numpy()[np.arange(len(said)), said], rtol=1e-5)


@pytest.mark.slow
def test_references_are_scored_apart(done):
    context, runs, _, _, results = done
    points = reference_points(TWO)
    keys = [bind(TWO, point, context.data.fingerprint, None).key for point in points]
    bits = [results[key].bits for key in keys]
    assert bits[0] != bits[1]
    for number in range(2):
        own = context.explaining(number)
        said = own.references.predictions(own.reference, Split.TEST).targets
        assert results[keys[number]].correct == int((said == own.data.test.labels).sum())


@pytest.mark.slow
def test_references_ranked_together_have_the_rankings_of_each_alone(done, tmp_path, monkeypatch):
    """Also where some images of one reference, and all test images of another, were ranked before."""
    for module in (shards, importance, graph):
        monkeypatch.setattr(module, "EXPLAINED", 8)
    monkeypatch.setattr(graph, "SHARD", 16)
    suite = replace(TWO, blocks=(Block(ROAR, ("grad", "var-grad"), (0.9,), seeds=2),))
    alone, together = (
        replace(done[0], suite=suite, workspace=Workspace(tmp_path / name)) for name in ("alone", "together")
    )
    for context in (alone, together):
        shutil.copytree(done[0].workspace.references, context.workspace.references)
    counts = {split: len(alone.images(split).labels) for split in Split}
    specs = [
        [alone.explaining(number).ranking_spec(find_estimator(name), Unit.SCALAR) for name in ("grad", "var-grad")]
        for number in (0, 1)
    ]
    for theirs in specs:
        for split, count in counts.items():
            shards.rank_shard(alone, theirs, split, 0, count)
        for spec in theirs:
            shards.seal(alone, spec)
    shards.rank_shard(together, specs[0][1:], Split.TRAIN, 8, 24)
    shards.rank_shard(together, specs[1], Split.TEST, 0, counts[Split.TEST])
    graph_steps = steps(together, make_runs(together, suite))
    ranking = [step.job for step in graph_steps if step.kind == "rank"]
    assert {job.name: len(job.arguments[1]) for job in ranking if "test" not in job.name} == {
        "rank trained train 0": 4,
        "rank trained train 8": 3,
        "rank trained train 16": 3,
        "rank trained train 24": 4,
        "rank trained train 32": 4,
    }
    assert {len(job.arguments[1]) for job in ranking if "test" in job.name} == {2}
    for job in (*ranking, *(step.job for step in graph_steps if step.kind == "seal")):
        assert not job.call(*job.arguments)
    for spec in (*specs[0], *specs[1]):
        found, expected = (each.rankings.open(spec) for each in (together, alone))
        assert found.checksum == expected.checksum
        assert found.weights == expected.weights == alone.references.checksum(alone.ranking(spec).reference)
        assert found.kept == expected.kept


def test_rows_of_several_references_belong_together():
    suite = replace(MADE_UP, references=3)
    standing = held(suite)
    weights = {point: f"{suite.reference_number(point.seed)}" * 64 for point in standing.results}
    marked = {
        point: replace(
            result,
            weights=weights[point] if result.run.reference else "",
            rankings=weights[point] if point.cell.estimator in ("grad", "var-grad") else "same",
        )
        for point, result in standing.results.items()
    }
    standing = replace(standing, results=marked)
    assert standing.mixed(ROAR, Unit.SCALAR) == {}
    point = next(
        p
        for p in marked
        if p.cell.estimator == "grad" and p.seed == 1 and p.cell.retrain is ROAR.retrain and p.cell.t == 0.3
    )
    swapped = replace(standing, results=marked | {point: replace(marked[point], weights="0" * 64)})
    assert set(swapped.mixed(ROAR, Unit.SCALAR)) == {"grad"}
    controls = next(
        p for p in marked if p.cell.estimator == "random" and p.seed == 1 and p.cell.retrain is ROAR.retrain
    )
    other = replace(standing, results=marked | {controls: replace(marked[controls], rankings="other")})
    assert set(other.mixed(ROAR, Unit.SCALAR)) == {"random"}


def test_the_accuracy_of_every_reference_is_told():
    standing = held(replace(MADE_UP, references=3))
    assert standing.reference_words.startswith("3 references ")
    assert standing.reference_words.count("%") == 3
    first = dict(list(standing.references.items())[:2])
    assert replace(standing, references=first).reference_accuracy is None
    assert {point.cell.estimator for point in reference_points(standing.suite)} == {CLEAN}
