"""List and verify a suite's explained networks, rankings and scoring networks."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from roarbench.common.enums import Split
from roarbench.common.identity import hash_value
from roarbench.datasets.open_decoded import refuse_altered_split
from roarbench.execution.job_context import JobContext, ReferenceModel
from roarbench.execution.job_graph import JobGraph, Step
from roarbench.plan.cells_and_runs import Run, hash_fine_tuned_network
from roarbench.store.artifact_checksums import Artifact, RecordedChecksum
from roarbench.store.networks import compute_weights_checksum
from roarbench.store.ranking_files import RankingSpec
from roarbench.store.run_result import RunResult, count_cores


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
    if step.kind == "network":
        (key,), name = step.keys, f"{step.job.name} of {first.suite.title}"
        return [Artifact(key, name, first.get_stored_network(key).read_checksum(), key)]
    if step.kind == "tune":
        common, spec = others
        rankings = _make_ranking_artifact(first, spec).checksum
        name = f"network ({step.job.name}) of {first.suite.title}"
        checksum = first.get_stored_network(hash_fine_tuned_network(common.key, rankings)).read_checksum()
        return [Artifact(step.keys[0], name, checksum, common.key, rankings)]
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
