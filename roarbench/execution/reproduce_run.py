"""Repeat a stored run from its frozen record, and compare the new result with the stored result."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.load_results import find_run_key
from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError, DataError, Hint, RunError
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.estimators.ids import TRUSTED, EstimatorId
from roarbench.execution.compare_reproduction import Reproduction
from roarbench.execution.job_context import JobContext
from roarbench.execution.progress import DecodingDisplay
from roarbench.execution.rate_measurement import measure_or_assume_rates
from roarbench.execution.run_suite import schedule_runs_on_workers
from roarbench.execution.workload import count_work
from roarbench.plan.cells_and_runs import CLEAN, Cell, Run
from roarbench.plan.change_suite import add_estimators_with_twins, set_explained_weights
from roarbench.plan.given_weights_titles import PUBLISHED_WEIGHTS, make_weights_title
from roarbench.plan.planned_runs import (
    PlannedRun,
    find_second_network_key,
    list_clean_runs_of_explained_networks,
    list_planned_runs,
    make_reference_spec,
)
from roarbench.plan.protocols import PROTOCOLS, ROAR
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, SEEDS_PER_REPLICATION, SuiteSpec
from roarbench.store.results import (
    Origin,
    ReproductionOutcome,
    ResultsStore,
    make_default_url,
    read_origins,
    store_reproduction,
)
from roarbench.store.run_result import RunResult
from roarbench.store.submissions import read_submissions_by_id
from roarbench.store.user_files import list_all_suites, refuse_untrusted_network
from roarbench.store.workspace import Workspace
from roarbench.submissions.isolation_check import check_sandbox_isolation


@dataclass(frozen=True)
class RerunRequest:
    """Request to repeat a stored run."""

    key: str  # key of the run, or its beginning
    data: Path | None = None  # folder of the images
    references: tuple[str, ...] = ()  # weights of the run's given networks, unless published
    workers: int = 1
    trusted_network: str = ""  # hash of the network's Python file, if the file came with imported results
    trusts_submission: bool = False  # whether to repeat a run whose submission runs without the sandbox


def reproduce(request: RerunRequest, workspace: Workspace, store: ResultsStore, console: Console) -> Reproduction:
    """Repeat a stored run, including its explained network, rankings and training, and store the outcome.

    Raises:
        CallerError: The store has no result of such a run, no suite of this version has the run, its weights are not
            given, or its network is not trusted.
        DataError: The images differ from those of the stored run.
        RunError: The repetition fails.
    """
    key = find_run_key(store, request.key)
    if not (results := store.read_results([key])):
        hint = Hint("; `{}` shows its state", "run-info", (key,))
        raise CallerError(f"the run {key} has no result in this store", hint)
    stored, run = results[key], results[key].run
    if TRUSTED in EstimatorId.parse(run.cell.estimator).marks and not request.trusts_submission:
        seen = f"{run.cell.estimator} runs without the sandbox, with your rights"
        raise CallerError(f"{seen}; read its source, then add --trust-submission")
    paths = {make_weights_title(path): path for path in request.references}
    suite, part = _find_suite_and_part_of_run(store, stored, paths)
    weights = _find_given_weights(suite, run, paths)
    refuse_untrusted_network(suite, request.trusted_network, workspace.root)
    with DecodingDisplay(console) as display:
        record = suite.dataset_record
        images = decode_dataset(record, workspace.data, request.data, run.limit, request.workers, display.show_progress)
    if images.fingerprint != run.data:
        seen = f"the images have fingerprint {images.fingerprint[:8]}, but the stored run used {run.data[:8]}"
        raise DataError(f"{seen}; give the stored run's images with --data")
    console.print(f"repeating from scratch: {run.cell.estimator} t={run.cell.t:g} seed {run.seed}", soft_wrap=True)
    with tempfile.TemporaryDirectory(dir=workspace.root, prefix="reproduce-") as folder:
        fresh = Workspace(Path(folder))
        _copy_submission_after_isolation_check(store, run, fresh)
        again = _rerun(JobContext(fresh, images, part, weights), run, request.workers, console)
    reproduction = Reproduction(stored, again, _estimate_run_deviation(store, suite, stored, again))
    if reproduction.verdict is not ReproductionOutcome.INCOMPARABLE:
        store_reproduction(store.database, run.key, reproduction.verdict, again.correct)
    return reproduction


def _find_suite_and_part_of_run(
    store: ResultsStore, stored: RunResult, weight_titles: Iterable[str]
) -> tuple[SuiteSpec, SuiteSpec]:
    """Find the suite that plans most of the stored runs with this run's rankings, and its part with their protocols.

    Several suites share a run, but their rankings differ in levels and splits. Among equal suites, one that specifies
    the run's weights is preferred, as it ranks fewer images.
    """
    run = stored.run
    found = list(_list_suites_that_can_have_run(store, run, weight_titles))
    if not found and run.given and run.network and not run.cell.retrain.trains:
        seen = f"this run has maps of {run.given} and scores another network, which this store lacks"
        raise CallerError(f"{seen}; add --reference FILE for each of the two networks")
    if not found:
        seen = f"no suite of this version has the run {run.key}"
        raise CallerError(f"{seen}; use the version of roarbench that stored it")
    same = store.read_results(store.list_keys_with_rankings(stored.rankings)) if stored.rankings else {}
    cells = {_drop_fill_and_unit(cell) for cell in (run.cell, *(result.run.cell for result in same.values()))}
    planned = [_list_cells_of_row(suite, run.cell) for suite in found]
    # of suites that plan equally many of the stored runs, the one with the fewest others
    fits = [(len(cells & row), -len(row)) if _drop_fill_and_unit(run.cell) in row else (0, 0) for row in planned]
    best = found[fits.index(max(fits))]
    return best, _keep_protocols_of_cells(best, cells) if stored.rankings and max(fits) > (0, 0) else best


def _list_suites_that_can_have_run(store: ResultsStore, run: Run, weight_titles: Iterable[str]) -> Iterator[SuiteSpec]:
    """Yield the suites with the run's data set, networks and kind of scored network, with the run's row added."""
    stored = (given for *_, given in store.read_seeds_by_data_and_weights(run.cell.dataset, run.cell.model))
    titles = [given for given in dict.fromkeys((*weight_titles, *stored)) if given]
    row = [run.cell.estimator] if run.cell.estimator != CLEAN else []
    for suite in sorted(list_all_suites(store.database), key=lambda suite: suite.given != run.given):
        repeated = replace(suite, replication=run.seed // SEEDS_PER_REPLICATION)
        repeated = replace(_set_weights_of_run(repeated, run, titles), maps=run.maps) if run.reference else repeated
        explained = make_reference_spec(repeated, run.data, repeated.find_explained_number(run.cell, run.seed))
        recipe = suite.recipe if run.cell.retrain.trains else explained.recipe
        is_same_cell = (suite.dataset, suite.model, recipe) == (run.cell.dataset, run.cell.model, run.recipe)
        # a suite scores its explained networks on untouched images even if no protocol lists these runs
        scores_reference = run.cell == list_clean_runs_of_explained_networks(suite)[0].cell
        has_protocol = scores_reference or run.cell.retrain in {block.protocol.retrain for block in suite.blocks}
        network = find_second_network_key(repeated, PlannedRun(run.cell, run.seed), run.data)
        if is_same_cell and has_protocol and run.reference in ("", explained.key) and run.network == network:
            yield add_estimators_with_twins(repeated, row)


def _list_cells_of_row(suite: SuiteSpec, cell: Cell) -> set[Cell]:
    """Return the cells that a suite plans for the estimator of this cell."""
    planned = (run.cell for run in list_planned_runs(suite) if run.cell.estimator == cell.estimator)
    return set(map(_drop_fill_and_unit, planned))


def _drop_fill_and_unit(cell: Cell) -> Cell:
    """Return the cell with the fill and unit of most suites; options change both."""
    return replace(cell, fill="mean", unit=Unit.SCALAR)


def _keep_protocols_of_cells(suite: SuiteSpec, cells: Set[Cell]) -> SuiteSpec:
    """Return the suite with only the protocols of these cells, so that it ranks the splits that a selection ranked."""
    asked = {(cell.order, cell.retrain) for cell in cells}
    blocks = [block for block in suite.blocks if (block.protocol.order, block.protocol.retrain) in asked]
    return replace(suite, blocks=tuple(blocks))


def _set_weights_of_run(suite: SuiteSpec, run: Run, titles: Iterable[str]) -> SuiteSpec:
    """Return a suite that explains the run's network and, if weights are given, has the network that the run scores.

    The result has as few networks as the run's seed needs. A suite with its own `networks` keeps them.
    """
    explaining = set_explained_weights(suite, run.given)
    if suite.networks:
        return explaining
    keys = {title: make_reference_spec(replace(suite, given=title), run.data).key for title in titles}
    scored_title = next((title for title, key in keys.items() if key == run.network), "")
    if not scored_title:
        return explaining
    wider = (replace(explaining, references=count) for count in range(2, MAX_COMPARED_NETWORKS + 1))
    smallest = next(suite for suite in wider if len(_list_network_numbers(suite, run)) == 2)
    given = [run.given] * smallest.references
    given[smallest.find_scored_number(run.cell, run.seed)] = scored_title
    return replace(smallest, given=",".join(given))


def _list_network_numbers(suite: SuiteSpec, run: Run) -> list[int]:
    """Return the numbers of the networks that a run needs: the explained network and the scored network."""
    scored = () if run.cell.retrain.trains else (suite.find_scored_number(run.cell, run.seed),)
    return list(dict.fromkeys((suite.find_explained_number(run.cell, run.seed), *scored)))


def _find_given_weights(suite: SuiteSpec, run: Run, paths: Mapping[str, str]) -> tuple[str, ...]:
    """Return a run's given weights, from `--reference`, the suite or published weights; empty if the run has none."""
    if not run.given:
        if paths:
            raise CallerError("this run has no given weights; leave --reference out")
        return ()
    needed = [suite.find_given_weights(number) for number in _list_network_numbers(suite, run)]
    own = {network.given: network.weights for network in suite.networks}
    published = {title: name for title in needed if (name := title.partition("@")[0]) in PUBLISHED_WEIGHTS}
    known = {given: weights for given, weights in {**own, **published, **paths}.items() if weights}
    if lacking := [title for title in needed if title not in known]:
        wrong = (f"--reference {path} is {title}, but " for title, path in paths.items() if title not in needed)
        has = " and ".join(map(" ".join, zip(("has maps of", "scores"), needed, strict=False)))
        seen = f"{next(wrong, '')}this run {has}"
        raise CallerError(f"{seen}; for {' and '.join(lacking)} add --reference FILE, a file with that checksum")
    return tuple(known[title] if title in needed else "" for title in suite.given.split(","))


def _copy_submission_after_isolation_check(store: ResultsStore, run: Run, workspace: Workspace) -> None:
    estimator_id = EstimatorId.parse(run.cell.estimator)
    if estimator_id.submitted:
        if TRUSTED not in estimator_id.marks:
            check_sandbox_isolation()
        entry = read_submissions_by_id(store.database)[estimator_id.id_without_parameters]
        workspace.save_submission(entry.id, entry.source)


def _rerun(work: JobContext, run: Run, workers: int, console: Console) -> RunResult:
    lacking = count_work(work.suite, [PlannedRun(run.cell, run.seed)], run.limit)
    measure = partial(measure_or_assume_rates, suite=work.suite, work=lacking, say=console.print)
    with ResultsStore.open(make_default_url(work.workspace.root)) as store:
        with schedule_runs_on_workers(work, [run], store, measure, workers, console) as (display, events):
            for event in events:
                if not event.failure:
                    display.show_event(event)
                elif event.step.first_run:  # after a failure of a needed step, the run's own failure gives the reason
                    raise RunError(event.failure)
        return store.read_results([run.key])[run.key]


def _estimate_run_deviation(store: ResultsStore, suite: SuiteSpec, stored: RunResult, again: RunResult) -> float:
    """Return the standard deviation of the accuracy of two honest computations of a run; 0 if the run trains nothing.

    Two training runs that are not equal bit by bit differ as much as training runs with two seeds, or, if the explained
    network has other weights, as much as training runs for two explained networks. The variance is estimated from
    results of the run's protocol, or of ROAR if that protocol has no repetitions. Self-reported results are not used,
    because their authors could claim any variance.
    """
    cell = stored.run.cell
    if not cell.retrain.trains:
        return 0.0
    protocol = next(each for each in PROTOCOLS.values() if (each.order, each.retrain) == (cell.order, cell.retrain))
    suite_results = collect_results(suite, store, stored.run.limit, stored.run.data)
    origins = read_origins(store.database, [result.run.key for result in suite_results.results.values()])
    results = suite_results.results.items()
    trusted = {planned: row for planned, row in results if origins[row.run.key] is not Origin.SELF_REPORTED}
    trusted_results = replace(suite_results, results=trusted)
    variance = trusted_results.estimate_variance(protocol, cell.fill) or trusted_results.estimate_variance(ROAR)
    has_same_network = bool(stored.weights) and stored.weights == again.weights
    has_other_maps = stored.rankings != again.rankings and not has_same_network
    return (variance.compute_run_standard_deviation(has_other_maps, cell.t) if variance else None) or 0.0
