"""Build the graph of a suite's missing steps, and list and verify the networks and rankings that steps share.

The steps train explained networks; rank ranges of images, by all estimators in one pass; join the ranges of each
ranking; train common networks, which score several runs; and do runs. The controls need no explained network, so their
runs use the cores while explained networks are trained.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from math import prod
from typing import NamedTuple

import torch

from roarbench.common.device_settings import choose_device
from roarbench.common.enums import OTHER_REFERENCE, ScoredNetwork, Split
from roarbench.common.identity import hash_value
from roarbench.common.job_interface import Job
from roarbench.datasets.open_decoded import refuse_altered_split
from roarbench.estimators.catalogue import count_passes
from roarbench.estimators.compute_maps import IMAGES_PER_PASS
from roarbench.estimators.ids import EstimatorId, make_twin_id
from roarbench.execution.job_context import JobContext, ReferenceModel
from roarbench.execution.ranking_jobs import join_ranked_ranges, list_lock_names, rank_shard
from roarbench.execution.training_and_scoring import (
    execute_runs,
    train_common_network,
    train_or_read_reference,
)
from roarbench.execution.workload import SHARD, WorkCounts, count_computation, make_job_grouping_key
from roarbench.plan.cells_and_runs import CLEAN, Cell, Run, hash_fine_tuned_network
from roarbench.plan.planned_runs import PlannedCommonNetwork, RankedSplit, SharedInputs, list_shared_inputs
from roarbench.store.artifact_checksums import Artifact, RecordedChecksum
from roarbench.store.leases import LeaseRequest
from roarbench.store.networks import compute_weights_checksum
from roarbench.store.ranking_files import RankingSpec, is_within_one_range
from roarbench.store.run_result import RunResult, count_cores

# features explained per job; the job takes seconds for a small network on one core, and minutes for a ResNet-18
_EXPLAINED_FEATURES = 260e6
_SCORED_FEATURES = 400e6  # features of degraded images scored per job, which takes about as long


class Step(NamedTuple):
    """A job, the steps that it needs, and its leases."""

    # `reference`, `rank`, `seal`, `network`, `tune` or `run`; if several steps are ready, earlier stages start first
    kind: str
    job: Job
    needs: tuple[str, ...]  # names of the steps that must end before this step starts
    keys: tuple[str, ...] = ()  # keys of the step's lease
    # returns whether the store's folder already has the step's output. The default, `bool()`, returns False for `run`
    # steps, whose outputs are results in the database
    is_made: Callable[[], bool] = bool
    runs: tuple[Run, ...] = ()  # runs of a `run` step
    group: str = ""  # submission of a ranking step; after its first failure, its steps for other images are not tried

    def make_lease_request(self, data: str) -> LeaseRequest:
        """Return the step's lease request; `data` is the fingerprint of the images."""
        return LeaseRequest(self.keys, "" if self.runs else self.job.name, data)

    @property
    def first_run(self) -> Run | None:
        return self.runs[0] if self.runs else None

    @property
    def scores_reference(self) -> bool:
        """Return whether the step scores an explained network on untouched images."""
        run = self.first_run
        return run is not None and run.cell.estimator == CLEAN and run.cell.retrain is ScoredNetwork.NONE

    def drop_runs(self, done: Collection[str]) -> "Step":
        """Return a copy of a `run` step without the runs that have these keys."""
        runs = tuple(run for run in self.runs if run.key not in done)
        job = self.job._replace(arguments=(self.job.arguments[0], runs))
        return self._replace(job=job, keys=tuple(run.key for run in runs), runs=runs)


def count_work_of_step(work: JobContext, step: Step) -> WorkCounts:
    """Count what a step computes, by the rules by which `count_work` counts what the whole suite computes."""
    counts, missing = {split: len(work.images[split].labels) for split in Split}, SharedInputs()
    if step.kind == "reference":
        missing = SharedInputs(references={step.job.arguments[0].number})
    elif step.kind == "rank":
        _, specs, split, start, stop = step.job.arguments
        numbers = {key: number for number, key in enumerate({spec.reference: None for spec in specs if spec.reference})}
        rows = {RankedSplit(each.estimator_record, each.unit, numbers.get(each.reference, 0), split) for each in specs}
        counts, missing = dict.fromkeys(Split, 0) | {split: stop - start}, SharedInputs(rankings=rows)
    elif step.kind in ("network", "tune"):
        _, common, *spec = step.job.arguments
        network = PlannedCommonNetwork(common.order, common.unit, common.seed, common.fill)
        missing = SharedInputs(common={network})
        if spec:
            row = RankedSplit(spec[0].estimator_record, spec[0].unit, 0, Split.TEST)
            missing = SharedInputs(tuned={(network, row)})
    counted = count_computation(work.suite, step.runs, missing, counts)
    # a published network is not trained; only its predictions are missing
    if step.kind == "reference" and step.job.arguments[0].store.has_weights():
        return counted._replace(trainings=0, references=0, images_reference=0)
    return counted


class JobGraph(NamedTuple):
    """Rankings and steps that a command needs; derived once, before it checks files, estimates the time and starts."""

    rankings: list[RankingSpec]  # all that the runs need, for each explained network; those by controls are listed once
    steps: list[Step]  # the steps whose outputs are missing


def build_job_graph(work: JobContext, runs: list[Run], needed: SharedInputs | None = None) -> JobGraph:
    """Return the rankings that these runs need (in `needed` if listed), and the steps that make what is missing."""
    needed = needed or list_shared_inputs(work.suite, runs)
    estimators = {(row.estimator.id, row.unit, row.reference): row.estimator for row in needed.rankings}
    ordered = sorted(estimators.items())
    specs = [work.make_ranking_spec(estimator, unit, number) for (_, unit, number), estimator in ordered]
    seals = {spec: name_seal_step(work, spec) for spec in specs if not work.rankings.has_finished(spec)}
    references = {
        network.reference.key: () if network.has_weights_and_predictions() else (network.step_name,)
        for network in work.explained
    }
    rank_steps = list(_make_rank_steps(work, seals, references))
    ranges: dict[RankingSpec, list[str]] = {spec: [] for spec in seals}
    for step in rank_steps:
        for spec in step.job.arguments[1]:
            ranges[spec].append(step.job.name)
    seal_steps = list[Step]()
    for spec, names in ranges.items():
        job, is_sealed = Job(seals[spec], join_ranked_ranges, (work, spec)), partial(work.rankings.has_finished, spec)
        seal_steps.append(Step("seal", job, tuple(names), (_hash_strings("seal", spec.key),), is_sealed))
    scored = [run for run in runs if run.cell.retrain is ScoredNetwork.COMMON]
    network_steps = {step.job.name: step for run in scored for step in _make_network_steps(work, run, seals)}.values()
    # complete the curves of all estimators with one seed before the next seed
    runs = sorted(runs, key=lambda run: (run.cell.retrain is ScoredNetwork.SIBLINGS, run.seed))
    run_steps = list(_make_run_steps(work, runs, seals, references))
    needs = {name for step in (*rank_steps, *run_steps) for name in step.needs}
    reference_steps = []
    for network in work.explained:
        if network.step_name in needs:
            job = Job(network.step_name, train_or_read_reference, (network,))
            is_made = network.has_weights_and_predictions
            reference_steps.append(Step("reference", job, (), (network.reference.key,), is_made))
    return JobGraph(specs, [*reference_steps, *rank_steps, *seal_steps, *network_steps, *run_steps])


# from the key of an explained network to the name of the step that makes it; no name if the network is stored
ReferenceSteps = Mapping[str, tuple[str, ...]]
SealSteps = Mapping[RankingSpec, str]  # from each missing ranking to the name of the step that seals it


def _make_network_steps(work: JobContext, run: Run, seals: SealSteps) -> Iterator[Step]:
    """Yield the step that trains a run's common network, and the step that tunes a copy if the run removes features."""
    common = work.make_common_network_spec(run)
    title = f"{common.order} {common.unit}{'' if common.fill == 'mean' else f' {common.fill}'} {common.seed}"
    job = Job(f"network {title}", train_common_network, (work, common))
    needs = tuple(seals[spec] for spec in work.list_control_ranking_specs(run.cell.unit) if spec in seals)
    yield Step("network", job, needs, (common.key,), work.get_stored_network(common.key).has_weights)
    if spec := work.make_ranking_spec_of_run(run):
        # the twin `other-reference` uses the same rankings as its estimator, but scores another network
        twin = make_twin_id("", OTHER_REFERENCE) if EstimatorId.parse(run.cell.estimator).explains_next_network else ""
        tuning = Job(f"tune {spec.name}{twin} {title}", train_common_network, (work, common, spec))
        ranked = (seals[spec],) if spec in seals else ()
        key = _hash_strings("tune", common.key, spec.key)

        def is_tuned() -> bool:
            tuned = hash_fine_tuned_network(common.key, work.rankings.open(spec).checksum)
            return work.get_stored_network(tuned).has_weights()

        yield Step("tune", tuning, (job.name, *ranked), (key,), is_tuned)


def _hash_strings(*parts: object) -> str:
    return hash_value([str(part) for part in parts])


def _make_rank_steps(work: JobContext, missing: Iterable[RankingSpec], references: ReferenceSteps) -> Iterator[Step]:
    """Yield the ranking steps: first of controls, then of the other estimators, which share passes of networks."""
    groups: dict[str, list[RankingSpec]] = {}
    for spec in sorted(missing, key=lambda spec: bool(spec.reference)):
        groups.setdefault(spec.estimator_record.job_group, []).append(spec)
    for group, specs in groups.items():
        for todo, split, start, stop in _list_unranked_shards(work, specs):
            job = Job(f"rank {group} {split} {start}", rank_shard, (work, todo, split, start, stop))
            needs = tuple(sorted({name for spec in todo if spec.reference for name in references[spec.reference]}))
            # one lease per batch of images, because machines group batches into jobs differently
            batches, names = range(start, stop, IMAGES_PER_PASS), list_lock_names(todo)
            keys = tuple(_hash_strings("rank", todo[0].data, name, split, first) for name in names for first in batches)
            is_made = partial(work.rankings.have_part_or_all, todo, split, start, stop)
            own_group = group if todo[0].estimator_record.has_own_passes else ""
            yield Step("rank", job, needs, keys, is_made, group=own_group)


def _list_unranked_shards(
    work: JobContext, specs: list[RankingSpec]
) -> Iterator[tuple[tuple[RankingSpec, ...], Split, int, int]]:
    """Yield ranges of images, each with the rankings that lack it; other machines may have ranked other ranges."""
    size = SHARD  # images per job; fewer on a CPU, in whole batches, if the rankings need many passes
    if choose_device().type != "cuda":
        by_reference: defaultdict[str, list[RankingSpec]] = defaultdict(list)  # rankings of one network share passes
        for spec in specs:
            by_reference[spec.reference].append(spec)
        features = prod(specs[0].shape)
        groups = ((spec.estimator_record for spec in group) for group in by_reference.values())
        passes = max(1, sum(count_passes(group, features).forward for group in groups))
        size = min(SHARD, IMAGES_PER_PASS * max(1, int(_EXPLAINED_FEATURES // (passes * features * IMAGES_PER_PASS))))
    for split in Split:
        n = len(work.images[split].labels)
        ranked = {spec: work.rankings.list_merged_part_ranges(spec, split) for spec in specs if split in spec.splits}
        ends = {start: min(start + IMAGES_PER_PASS, n) for start in range(0, n, IMAGES_PER_PASS)}
        todo = {
            start: tuple(spec for spec, ranges in ranked.items() if not is_within_one_range(ranges, start, stop))
            for start, stop in ends.items()
        }
        for (_, missing), batches in groupby(ends, key=lambda start: (start // size, todo[start])):
            starts = list(batches)
            if missing:
                yield missing, split, starts[0], ends[starts[-1]]


def name_seal_step(work: JobContext, spec: RankingSpec) -> str:
    return f"seal {spec.name} {spec.unit}{work.find_network_of_ranking(spec).number_suffix if spec.reference else ''}"


def _make_run_steps(work: JobContext, runs: list[Run], seals: SealSteps, references: ReferenceSteps) -> Iterator[Step]:
    """Yield the steps of these runs; a step that trains no network may score one estimator at several levels."""
    features = len(work.images.test.labels) * prod(work.suite.dataset_record.shape)
    curves: defaultdict[tuple[Cell, int], list[Run]] = defaultdict(list)
    for run in runs:
        curves[make_job_grouping_key(work.suite, run.cell, run.seed)].append(run)
    for (cell, _), curve in curves.items():
        networks = work.suite.references if cell.retrain is ScoredNetwork.SIBLINGS else 1
        count = max(1, int(_SCORED_FEATURES // (features * networks)))
        levels = sorted({run.cell.t for run in curve})
        for start in range(0, len(levels), count):
            part = tuple(run for run in curve if run.cell.t in levels[start : start + count])
            needs: tuple[str, ...] = ()
            if not cell.retrain.trains:
                finders = work.find_explained_network, work.find_scored_network
                keys_of_networks = {find(run).reference.key for run in part for find in finders}
                needs = tuple(sorted({name for key in keys_of_networks for name in references[key]}))
            spec = work.make_ranking_spec_of_run(part[0])
            needs += (seals[spec],) if spec and spec in seals else ()
            if cell.retrain is ScoredNetwork.COMMON:
                *_, last = _make_network_steps(work, part[0], seals)
                needs += (last.job.name,)
            keys = tuple(run.key for run in part)
            name = keys[0] if len(keys) == 1 else _hash_strings("runs", *keys)
            yield Step("run", Job(name, execute_runs, (work, part)), needs, keys, runs=part)


def list_needed_artifacts(work: JobContext, runs: list[Run], graph: JobGraph) -> Iterator[Artifact]:
    """Yield the artifacts that runs need; the checksum of an artifact that is not made yet is empty."""
    for number in sorted({work.find_explained_network(run).number for run in runs if run.reference}):
        yield from _list_reference_artifacts(work.explained[number])
    for spec in graph.rankings:
        yield _make_ranking_artifact(work, spec)
    for step in graph.steps:
        if step.kind in ("network", "tune"):
            yield from list_output_artifacts(step)


def verify_images_and_rankings(
    work: JobContext, rankings: Iterable[RankingSpec], hash_whole_files: bool = False
) -> None:
    """Compare images and finished rankings with the checksums of their manifests; StoreError for altered files.

    A command calls this function once, before its workers read the files. Only a sample of a large file that was
    completely hashed before is compared, unless `hash_whole_files` is true.
    """
    store = work.rankings
    checks = [partial(refuse_altered_split, work.images.folder, split, hash_whole_files) for split in Split]
    checks += [partial(store.verify_files, spec, hash_whole_files) for spec in rankings if store.has_finished(spec)]
    with ThreadPoolExecutor(count_cores()) as pool:  # hashing releases the interpreter lock
        for future in [pool.submit(check) for check in checks]:
            future.result()


def read_recorded_checksums(work: JobContext, results: Iterable[RunResult]) -> Iterator[RecordedChecksum]:
    """Yield the checksums of rankings and weights that results record, each with that of the file in the folder."""
    rankings: dict[RankingSpec, tuple[Artifact, set[str]]] = {}
    for result in results:
        run, own = result.run, work.find_explained_network(result.run)
        if result.rankings and (spec := work.make_ranking_spec_of_run(run)):
            if spec not in rankings:
                rankings[spec] = _make_ranking_artifact(work, spec), work.rankings.list_checksums_with_any_levels(spec)
            ranking, known = rankings[spec]
            if ranking.checksum:
                here = result.rankings if result.rankings in known else ranking.checksum
                yield RecordedChecksum(run.key, ranking.name, result.rankings, here)
        if result.weights and own.store.has_weights():
            yield RecordedChecksum(run.key, own.title, result.weights, own.store.read_checksum())


def list_output_artifacts(step: Step) -> list[Artifact]:
    """Return the artifacts that a finished step has made for several runs; empty for steps that make none."""
    first, *others = step.job.arguments
    if step.kind == "reference":
        return list(_list_reference_artifacts(first))
    if step.kind in ("network", "tune"):
        common, *tuned_for = others
        rankings = _make_ranking_artifact(first, *tuned_for).checksum if tuned_for else ""
        key = hash_fine_tuned_network(common.key, rankings) if tuned_for else common.key
        name = f"{f'network ({step.job.name})' if tuned_for else step.job.name} of {first.suite.title}"
        return [Artifact(step.keys[0], name, first.get_stored_network(key).read_checksum(), common.key, rankings)]
    return [_make_ranking_artifact(first, others[0])] if step.kind == "seal" else []


def _list_reference_artifacts(explained: ReferenceModel) -> Iterator[Artifact]:
    """Yield an artifact for each ranked split: an explained network's weights and its predictions on the split."""
    reference = explained.reference.key
    for split in explained.ranked_splits:
        checksum = ""  # if weights or predictions are missing
        if explained.store.has_weights() and explained.store.has_predictions(split):
            arrays = explained.store.load_predictions(split)._asdict()
            predicted = compute_weights_checksum({name: torch.from_numpy(array) for name, array in arrays.items()})
            checksum = hash_value([explained.store.read_checksum(), predicted])
        yield Artifact(hash_value([reference, str(split)]), f"{explained.title} ({split} images)", checksum, reference)


def _make_ranking_artifact(work: JobContext, spec: RankingSpec) -> Artifact:
    checksum = work.rankings.open(spec).checksum if work.rankings.has_finished(spec) else ""
    return Artifact(spec.key, f"ranking of {spec.name} ({spec.unit})", checksum)
