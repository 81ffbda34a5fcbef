"""Repeat a stored run from its record and its `PlanEntry`, and store how both results compare."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.correctness_of_suite import estimate_variance
from roarbench.analysis.load_results import find_run_key
from roarbench.common.errors import CallerError, DataError, Hint, RunError
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.estimators.ids import TRUSTED, EstimatorId
from roarbench.execution.compare_repeated_run import Reproduction
from roarbench.execution.find_suite_of_run import find_suite_and_part_of_run, list_network_numbers
from roarbench.execution.job_context import JobContext
from roarbench.execution.job_graph import build_job_graph
from roarbench.execution.progress import DecodingDisplay
from roarbench.execution.published_networks import install_network_file, list_network_folders
from roarbench.execution.rate_measurement import measure_or_assume_rates, read_submitted_codes
from roarbench.execution.run_suite import do_steps_on_workers
from roarbench.execution.workload import count_work
from roarbench.plan.cells_and_runs import PUBLISHED_WEIGHTS, Run, make_weights_title
from roarbench.plan.plan_entry import add_rows, plan_single_run
from roarbench.plan.planned_runs import PlannedRun, find_protocol_name
from roarbench.plan.protocols import PROTOCOLS, ROAR
from roarbench.plan.settings import Settings
from roarbench.plan.suite import SuiteSpec
from roarbench.store.annotations_and_scores import find_plan_entry
from roarbench.store.published_networks import find_network_file, read_network_file
from roarbench.store.results import (
    Origin,
    ReproductionOutcome,
    ResultsStore,
    make_default_url,
    read_origins,
    store_reproduction,
)
from roarbench.store.run_result import RunResult
from roarbench.store.user_files import read_submissions_by_id, read_suites, refuse_untrusted_network
from roarbench.store.workspace import Workspace
from roarbench.submissions.sandbox_isolation import check_sandbox_isolation


def reproduce(
    key: str,
    settings: Settings,
    store: ResultsStore,
    console: Console,
    workers: int = 1,
    trusts_submission: bool = False,
) -> Reproduction:
    """Repeat a stored run, including its explained network, rankings and training, and store the outcome.

    Args:
        key: Key of the run, or its beginning.
        settings: Folder of the store, folder of the images, weights of the run's given networks, unless published, and
            the hash of the network's Python file, if the file came with imported results.
        store: The results.
        console: Receives messages.
        workers: Number of processes.
        trusts_submission: Whether to repeat a run whose submission runs without the sandbox.

    Raises:
        CallerError: The store has no result of such a run, no suite of this version has the run, its weights are not
            given, or its network is not trusted.
        DataError: The images differ from those of the stored run.
        RunError: The repetition fails.
    """
    key, workspace = find_run_key(store, key), Workspace(settings.store)
    if not (results := store.read_results([key])):
        hint = Hint("; `{}` shows its state", "runs", (key,))
        raise CallerError(f"the run {key} has no result in this store", hint)
    stored, run = results[key], results[key].run
    if TRUSTED in EstimatorId.parse(run.cell.estimator).marks and not trusts_submission:
        seen = f"{run.cell.estimator} runs without the sandbox, with your rights"
        raise CallerError(f"{seen}; read its source, then add --trust-submission")
    paths = {make_weights_title(path): path for path in settings.weights}
    if entry := find_plan_entry(store.database, key):
        suite = plan_single_run(run, entry, read_suites(store.database))
        measured = add_rows(suite, run, store.list_cells_and_seeds(run))
    else:  # the run was stored by a version without entries
        measured, suite = find_suite_and_part_of_run(store, stored, paths)
    weights = _choose_weights_to_reproduce(suite, run, paths)
    refuse_untrusted_network(suite, settings.trusted_network, workspace.root)
    with DecodingDisplay(console) as display:
        source = settings.image_folder, run.limit, workers, display.show_progress
        images = decode_dataset(suite.dataset_record, workspace.data, *source)
    if images.fingerprint != run.data:
        seen = f"the images have fingerprint {images.fingerprint[:8]}, but the stored run used {run.data[:8]}"
        raise DataError(f"{seen}; give the stored run's images with --data")
    console.print(f"repeating: {run.cell.estimator} t={run.cell.t:g} seed {run.seed}", soft_wrap=True)
    with tempfile.TemporaryDirectory(dir=workspace.root, prefix="reproduce-") as folder:
        fresh = Workspace(Path(folder))
        estimator_id = EstimatorId.parse(run.cell.estimator)
        if estimator_id.submitted:
            if TRUSTED not in estimator_id.marks:
                check_sandbox_isolation()
            submission = read_submissions_by_id(store.database)[estimator_id.id_without_parameters]
            fresh.save_submission(submission.id, submission.source)
        work = JobContext(fresh, images, suite, weights)
        reused = tuple(_reuse_networks(work, stored, workspace, store))
        again = _rerun(work, run, workers, console)
    if spec := work.make_ranking_spec_of_run(run):
        kept = replace(work, workspace=workspace).rankings
        again = replace(again, rankings=kept.find_recorded_checksum(spec, again.rankings))
    reproduction = Reproduction(stored, again, _estimate_run_deviation(store, measured, stored, again), reused)
    if reproduction.verdict is not ReproductionOutcome.INCOMPARABLE:
        store_reproduction(store.database, run.key, reproduction.verdict, again.correct)
    return reproduction


def _choose_weights_to_reproduce(suite: SuiteSpec, run: Run, paths: Mapping[str, str]) -> tuple[str, ...]:
    """Return a run's given weights, from `--reference`, the suite or published weights; empty if the run has none."""
    if not run.given:
        if paths:
            raise CallerError("this run has no given weights; leave --reference out")
        return ()
    needed = [suite.find_given_weights(number) for number in list_network_numbers(suite, run)]
    own = {network.given: network.weights for network in suite.networks}
    published = {title: name for title in needed if (name := title.partition("@")[0]) in PUBLISHED_WEIGHTS}
    known = {given: weights for given, weights in {**own, **published, **paths}.items() if weights}
    if lacking := [title for title in needed if title not in known]:
        seen = f"this run needs the weights {' and '.join(lacking)}"
        raise CallerError(f"{seen}; add --reference FILE for each, a file with that checksum")
    return tuple(known[title] if title in needed else "" for title in suite.given.split(","))


def _reuse_networks(work: JobContext, stored: RunResult, workspace: Workspace, store: ResultsStore) -> Iterator[str]:
    """Copy the networks of a run that the store or a publication has; yield the checksums of their weights.

    The explained network must have the weights that the stored run records, and a second network that the run scores
    must have the weights that results of the store record for it. Other networks are trained again.
    """
    run = stored.run
    for number in list_network_numbers(work.suite, run) if run.reference and not run.given else ():
        explained = work.explained[number]
        is_explained = explained.reference.key == run.reference
        recorded = {stored.weights} if is_explained else store.read_explained_weights(explained.reference.key)
        own = replace(explained, work=replace(work, workspace=workspace))
        path = find_network_file(list_network_folders(workspace), explained.reference)
        if own.store.read_checksum() in recorded - {""}:
            explained.store.save_published(own.load_trained())
        elif path and read_network_file(path).checksum in recorded:
            install_network_file(explained, path)
        else:
            continue
        yield explained.store.read_checksum()


def _rerun(work: JobContext, run: Run, workers: int, console: Console) -> RunResult:
    codes = read_submitted_codes(work.suite, work.workspace)
    lacking = count_work(work.suite, [PlannedRun(run.cell, run.seed)], run.limit)
    measure = partial(measure_or_assume_rates, suite=work.suite, work=lacking, say=console.print, codes=codes)
    with ResultsStore.open(make_default_url(work.workspace.root)) as store:
        graph = build_job_graph(work, [run])
        with closing(do_steps_on_workers(work, graph, store, measure, workers, console)) as events:
            for event in events:
                if event.failure and event.step.runs:  # after a failure of a needed step, the run itself fails
                    raise RunError(event.failure)
        return store.read_results([run.key])[run.key]


def _estimate_run_deviation(store: ResultsStore, suite: SuiteSpec, stored: RunResult, again: RunResult) -> float | None:
    """Return the standard deviation of the accuracy of two honest computations of a run; 0 if the run trains nothing.

    Two training runs that are not equal bit by bit differ as much as training runs with two seeds, or, if the explained
    network has other weights, as much as training runs for two explained networks. The variance is estimated from
    results of the run's protocol, or of ROAR if that protocol has no repetitions; without repetitions the result is
    None. Self-reported results are not used, because their authors could claim any variance.
    """
    cell = stored.run.cell
    if not cell.retrain.trains:
        return 0.0
    protocol = PROTOCOLS[find_protocol_name(cell)]
    suite_results = collect_results(suite, store, stored.run.limit, stored.run.data)
    origins = read_origins(store.database, [result.run.key for result in suite_results.results.values()])
    results = suite_results.results.items()
    trusted = {planned: row for planned, row in results if origins[row.run.key] is not Origin.SELF_REPORTED}
    trusted_results = replace(suite_results, results=trusted)
    variance = estimate_variance(trusted_results, protocol, cell.fill) or estimate_variance(trusted_results, ROAR)
    has_same_network = bool(stored.weights) and stored.weights == again.weights
    has_other_maps = stored.rankings != again.rankings and not has_same_network
    return variance.compute_run_standard_deviation(has_other_maps, cell.t) if variance else None
