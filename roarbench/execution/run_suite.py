"""Run a suite: decode its images, do the missing runs on workers, store the results, and print messages."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.suite_results import CONSEQUENCES, SuiteResults
from roarbench.common.device_settings import list_gpu_ids
from roarbench.common.enums import MATCHED_IMAGE, Split
from roarbench.common.errors import CallerError, RunError
from roarbench.common.job_interface import Engine
from roarbench.common.local_workers import LocalEngine
from roarbench.common.text import format_count, wrap_lines
from roarbench.datasets.catalogue import FOLDERS
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.decode_image import describe_repairs
from roarbench.datasets.open_decoded import ImageData
from roarbench.datasets.repeated_images import describe_similar_images
from roarbench.datasets.undecoded_splits import describe_class_order, list_stored_images
from roarbench.execution.forecast import Rates, make_plan, refuse_full_disk
from roarbench.execution.job_context import JobContext
from roarbench.execution.job_graph import (
    JobGraph,
    build_job_graph,
    count_work_of_step,
    list_needed_artifacts,
    read_recorded_checksums,
    verify_images_and_rankings,
)
from roarbench.execution.network_trials import tune_peak_learning_rate
from roarbench.execution.network_weights import refuse_unloadable_weights
from roarbench.execution.progress import DecodingDisplay, StepDisplay
from roarbench.execution.rate_measurement import measure_or_assume_rates, read_submitted_codes
from roarbench.execution.run_inputs import compute_share_of_differing_matched_masks
from roarbench.execution.scheduler import FinishedStep, run_steps
from roarbench.execution.workload import MOST_PER_CORE, WorkCounts, count_missing_work, count_work
from roarbench.plan.cells_and_runs import CLEAN, Run
from roarbench.plan.planned_runs import (
    build_run,
    list_clean_runs_of_explained_networks,
    list_runs,
    needs_explained_network,
)
from roarbench.plan.protocols import ROAR
from roarbench.plan.recipes import find_recipe
from roarbench.plan.resolution import refuse_equal_matched_masks, refuse_levels_without_effect
from roarbench.plan.settings import Settings
from roarbench.plan.suite import SuiteSpec
from roarbench.stats.chance import compute_largest_class_share
from roarbench.store.archived_runs import archive_rows
from roarbench.store.artifact_checksums import Checksums
from roarbench.store.published_networks import find_imported_or_packaged_network, read_network_file
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import RunResult, count_cores
from roarbench.store.user_files import read_image_sources, read_sources_of_decoded_images, store_image_sources
from roarbench.store.workspace import Workspace

# function that starts an `Engine` with this many workers
Start = Callable[[int], AbstractContextManager[Any]]


def start_local_workers(workers: int) -> LocalEngine:
    return LocalEngine(workers, list_gpu_ids())


@dataclass(frozen=True)
class Request:
    """Request of a user for the runs of a suite."""

    suite: SuiteSpec  # the suite; its field `given` identifies weights unless the suite trains the explained networks
    settings: Settings  # store, images, and file or name of each explained network's weights
    workers: int = 1
    start: Start = start_local_workers
    check_files: bool = False  # whether large files, too, are hashed completely
    on_roar_complete: Callable[[], None] | None = None  # called when ROAR is complete and another protocol continues

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.settings.store)

    @property
    def weights(self) -> tuple[str, ...]:
        """Return the file or published name of each explained network's given weights; empty if they are trained."""
        if self.suite.networks:
            return tuple(network.weights for network in self.suite.networks)
        published = [name.partition("@")[0] for name in self.suite.given.split(",") if name]
        return self.settings.weights or tuple(published)


class FinishedSuite(NamedTuple):
    """Outcome of a command's runs."""

    suite_results: SuiteResults  # stored results of the suite on the command's images
    failed: int  # number of runs that failed
    work: JobContext  # images, explained networks and rankings


def run_suite(request: Request, store: ResultsStore, console: Console) -> FinishedSuite:
    """Do all missing runs of a suite, and return the outcome.

    This process decodes the images, lists the missing runs, and checks before hours of work what could stop them.
    Workers then do the steps of `job_graph.build_job_graph`, each as soon as the steps that it needs are done:

    1. `reference`: train the networks to explain, or read their weights (`training_and_scoring`)
    2. `rank`: explain a range of images by all estimators, and rank the features of each map (`ranking_jobs`)
    3. `seal`: join the ranges of a ranking into one, which no longer changes (`store.rankings`)
    4. `network`, `tune`: train the networks that score several rows of `matched`
    5. `run`: remove the features, train a network on the rest unless an explained one is scored, score the network on
       degraded test images, and store the correctness of each image (`training_and_scoring`, `store.results`)
    """
    suite = request.suite
    work = decode_images_and_check_weights(request, store, console)
    suite_results = collect_stored_results(suite, store, work.images)
    _print_reference_accuracy(suite_results, console)
    planned = list_runs(suite, suite_results.data, suite_results.limit)
    todo = [run for point, run in planned.items() if point not in suite_results.results]
    reference_runs = _list_reference_runs(suite_results)
    if needs_explained_network(suite):
        # runs on untouched images come first, because a network near chance ends the command
        first = [
            run
            for run, explained in zip(reference_runs, work.explained, strict=True)
            if explained.number not in suite_results.references
            and (todo or explained.store.has_predictions(Split.TEST))
        ]
        todo = [*first, *(run for run in todo if run not in first)]
    if not todo:
        console.print(f"{suite_results.title}: all {len(suite_results.results)} runs are done", soft_wrap=True)
        return FinishedSuite(suite_results, 0, work)
    _refuse_doubtful_user_network(suite_results, work, console)
    graph, missing_work = check_and_count_missing_work(suite_results, work, todo, store, console, request.workers)

    def measure_and_print_plan(engine: Engine) -> Rates:
        say, codes = partial(console.print, soft_wrap=True), read_submitted_codes(suite, request.workspace)
        rates = measure_or_assume_rates(engine, suite, missing_work, say, codes)
        plan = make_plan(suite_results, missing_work, request.workers, rates)
        console.print(wrap_lines(plan.format_brief(), console.width), soft_wrap=True)
        return rates

    failed, stored = 0, suite_results
    # ROAR's table needs the runs of its cells, and those of retrained networks at t = 0
    retrained = (run for run in todo if run.cell.retrain is ROAR.retrain)
    left_of_roar = {run for run in retrained if run.cell.order is ROAR.order or run.cell.estimator == CLEAN}
    left = set(todo)
    with closing(do_steps_on_workers(request, store, console, work, graph, measure_and_print_plan)) as events:
        for event in events:
            failed += len(event.step.runs) if event.failure else 0
            left -= set(event.step.runs)
            if request.on_roar_complete and left_of_roar and left_of_roar.isdisjoint(left):
                left_of_roar.clear()
                if left:
                    request.on_roar_complete()
            if event.step.first_run in reference_runs and len(stored.references) < len(reference_runs):
                found = store.read_results([run.key for run in reference_runs])
                scored = {number: found[run.key] for number, run in enumerate(reference_runs) if run.key in found}
                stored = replace(suite_results, references=scored)
                _print_reference_accuracy(stored, console)
                if _is_doubtful_user_network(stored):
                    break
    known = {result.run.key: result for result in suite_results.results.values()}
    stored = collect_stored_results(suite, store, work.images, known)
    _refuse_doubtful_user_network(stored, work, console)
    return FinishedSuite(stored, failed, work)


def decode_images_and_check_weights(request: Request, store: ResultsStore, console: Console) -> JobContext:
    """Decode a suite's images unless they are decoded, and check given weights before hours of work."""
    if request.suite.dataset_record.test_only and not request.weights:
        seen = f"{request.suite.title} has only test images, so the network to explain cannot be trained"
        raise CallerError(f'{seen}; add --reference FILE, or write train = "…" in the file of the suite')
    refuse_unloadable_weights(request.suite, request.weights)
    store.refuse_sqlite_on_two_machines()
    store.enable_waiting_for_server(partial(console.print, soft_wrap=True))
    start, record, settings = time.monotonic(), request.suite.dataset_record, request.settings
    # the CPUs of this machine decode photographs, even if remote workers do the other jobs
    workers = count_cores() if list_gpu_ids() else min(request.workers, MOST_PER_CORE * count_cores())
    with DecodingDisplay(console) as display:
        source = settings.image_folder, settings.limit, workers
        images = decode_dataset(record, request.workspace.data, *source, display.show_progress)
    lines = []
    if display.has_decoded and images.repairs:
        lines.append(describe_repairs(images.repairs))
    if display.has_decoded and record.own == FOLDERS:
        lines += list_stored_images(record, settings.image_folder).notes
    if display.has_decoded and (similar := describe_similar_images(images)):
        lines.append(f"warning: {similar}")
    lacking = record.classes - len(np.unique(images.train.labels))
    if lacking and not record.test_only:
        lines.append(f"{lacking:,} of {record.classes:,} classes have no training image")
    if display.has_decoded:
        count, seconds = sum(len(images[split].labels) for split in record.decoded_splits), time.monotonic() - start
        lines.append(f"{count:,} images in {images.folder} ({seconds:.1f} s)")
    total = len(images.test.labels)
    if wrong := store.list_keys_with_other_total(images.fingerprint, total):  # imported before these images were here
        archive_rows(store.database, wrong, f"another number of test images than {total:,}")
        counted = f"{format_count(len(wrong), 'imported result')} with another number of test images than {total:,}"
        lines.append(f"{counted}, archived; `roarbench runs {wrong[0]}` shows the first")
    for line in lines:
        console.print(f"{record.name}: {line}", soft_wrap=True)
    sources = read_sources_of_decoded_images(request.workspace.data, request.suite.dataset)
    store_image_sources(store.database, sources, images.fingerprint)
    return JobContext(request.workspace, images, request.suite, request.weights)


def collect_stored_results(
    suite: SuiteSpec, store: ResultsStore, images: ImageData, known: Mapping[str, RunResult] = MappingProxyType({})
) -> SuiteResults:
    """Load a suite's results on decoded images; results in `known`, by key, are not read again."""
    sources = read_image_sources(store.database)
    results = collect_results(suite, store, images.limit, images.fingerprint, sources, known)
    return replace(results, largest_class_share=compute_largest_class_share(images.test.labels))


def _list_reference_runs(results: SuiteResults) -> list[Run]:
    points = list_clean_runs_of_explained_networks(results.suite)
    return [build_run(results.suite, point, results.data, results.limit) for point in points]


def check_and_count_missing_work(
    suite_results: SuiteResults, work: JobContext, todo: list[Run], store: ResultsStore, console: Console, workers: int
) -> tuple[JobGraph, WorkCounts]:
    """Return what the runs `todo` need and the counted work, after checks of levels, disk and stored files.

    Published networks are installed.
    """
    refuse_levels_without_effect(work.suite)
    for block in work.suite.blocks:
        if block.protocol.twin_kind == MATCHED_IMAGE:  # 0 for every map of images with few features
            share = compute_share_of_differing_matched_masks(work.images, block.unit, block.fill, block.levels)
            refuse_equal_matched_masks(work.suite, block.unit, share)
    install_published_networks(work, store, console)
    missing_work, needed = count_missing_work(suite_results, work.workspace)
    refuse_full_disk(missing_work, suite_results.data, work.workspace, workers)
    results = [*suite_results.results.values(), *suite_results.references.values()]
    graph = build_job_graph(work, todo, needed)
    artifacts, recorded = list(list_needed_artifacts(work, todo, graph)), list(read_recorded_checksums(work, results))
    Checksums(store.database, work.workspace).record_or_compare_checksums(artifacts, recorded)
    return graph, missing_work


def install_published_networks(work: JobContext, store: ResultsStore, console: Console) -> None:
    """Copy the published weights of a suite's explained networks to the store, unless it has networks of its own.

    A published row explains certain weights. Another processor trains other weights from the same seed, so a row that
    explains those has no rank among the published rows.
    """
    installed = 0
    for explained in work.explained if needs_explained_network(work.suite) else ():
        path = find_imported_or_packaged_network(work.workspace, explained.reference)
        if path is None or explained.store.has_weights():
            continue
        # results for weights that were trained here need these weights again
        if store.read_explained_weights(explained.reference.key) <= {read_network_file(path).checksum}:
            installed += explained.install_published_weights(path)
    if installed:
        networks = format_count(installed, "published network")
        console.print(f"{work.suite.title}: explains {networks}, not trained here", soft_wrap=True)


def do_steps_on_workers(
    request: Request,
    store: ResultsStore,
    console: Console,
    work: JobContext,
    graph: JobGraph,
    measure: Callable[[Engine], Rates],
) -> Generator[FinishedStep, None, None]:
    """Start workers, measure their rates, do the steps, and show and yield an event for each finished step."""
    verify_images_and_rankings(work, graph.rankings, request.check_files)
    with request.start(request.workers) as engine:
        rates = measure(engine)
        rates = replace(rates, submission=rates.submission or rates.explain)  # each map takes at least a pass
        kinds = {step.job.name: rates.estimate_seconds(count_work_of_step(work, step)) for step in graph.steps}
        seconds = {name: sum(filter(None, by_kind.values())) for name, by_kind in kinds.items()}
        display = StepDisplay(console, graph.steps, lambda step: seconds[step.job.name], request.workers, rates.load)
        with display, closing(run_steps(work, graph.steps, store, engine, display.show_waiting)) as events:
            for event in events:
                display.show_event(event)
                yield event


def _print_reference_accuracy(suite_results: SuiteResults, console: Console) -> None:
    accuracy = suite_results.reference_accuracy_text
    if accuracy:
        console.print(f"{suite_results.title}: {accuracy} on untouched test images", soft_wrap=True)
    doubt = suite_results.reference_doubt
    if doubt and not _is_doubtful_user_network(suite_results):
        suite, advice = suite_results.suite, ""
        if suite.given:
            order = describe_class_order(suite.dataset_record)
            advice = f"; check that its weights are the right ones and its outputs in the order of {order}"
        seen = f"the accuracy of an explained network is {doubt}: {CONSEQUENCES[doubt]}"
        console.print(f"warning: {seen}{advice}", soft_wrap=True)


def _is_doubtful_user_network(suite_results: SuiteResults) -> bool:
    """Return whether a user's suite trains an explained network not clearly above chance; False for given weights."""
    suite = suite_results.suite
    return suite.own is not None and not suite.given and bool(suite_results.reference_doubt)


def _refuse_doubtful_user_network(suite_results: SuiteResults, work: JobContext, console: Console) -> None:
    """Raise CallerError if an explained network that a user's suite trains is not clearly above chance.

    Three short training runs find the change to the suite's file that the error recommends.
    """
    if not _is_doubtful_user_network(suite_results):
        return
    console.print("trying three peak learning rates on training images", soft_wrap=True)
    trials, limit = tune_peak_learning_rate(work.suite, work.images), suite_results.limit
    if trials.trained and trials.peak != find_recipe(work.suite.reference_recipe).peak:
        advice = f"write {trials.line} under [recipe]"
    else:
        more = f"a --max-images above {limit}, " if limit else ""
        advice = f"use {more}other epochs, another peak, another network or more test images: {trials.line}"
    seen = f"{suite_results.title}: {suite_results.reference_accuracy_text}"
    seen += f": {CONSEQUENCES[suite_results.reference_doubt]}"
    raise CallerError(f"{seen}; the run stopped before training networks on these maps; {advice}")


def make_and_score_references(request: Request, store: ResultsStore, console: Console, work: JobContext) -> None:
    """Train or read a suite's explained networks, and score them on untouched images; raise RunError on failure."""
    if all(network.has_weights_and_predictions() for network in work.explained):
        return
    install_published_networks(work, store, console)
    runs = _list_reference_runs(collect_stored_results(request.suite, store, work.images))
    do_runs(request, store, console, work, runs)
    _refuse_doubtful_user_network(collect_stored_results(request.suite, store, work.images), work, console)


def do_runs(request: Request, store: ResultsStore, console: Console, work: JobContext, runs: list[Run]) -> None:
    """Do these runs and the steps that they need; raise RunError with the reason of the first failure."""
    lacking = count_work(work.suite, runs, work.images.limit)
    say, codes = partial(console.print, soft_wrap=True), read_submitted_codes(work.suite, work.workspace)
    measure = partial(measure_or_assume_rates, suite=work.suite, work=lacking, say=say, codes=codes)
    graph = build_job_graph(work, runs)
    with closing(do_steps_on_workers(request, store, console, work, graph, measure)) as events:
        for event in events:
            if event.failure:
                raise RunError(event.failure)
