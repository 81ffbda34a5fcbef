"""Run a suite, or say what it takes."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from roarbench.api.loading import load
from roarbench.cli.commands.terminal import err, log_console, out, print_table
from roarbench.cli.option_records import (
    CourseOptions,
    EngineOptions,
    QuestionOptions,
    SubmissionOptions,
    SuiteOptions,
    WorkOptions,
)
from roarbench.cli.options import Device, LogFormat, Metrics, ReportFormat, TableFormat
from roarbench.cli.proposals import propose, worded
from roarbench.errors import CallerError, Hint, RunError
from roarbench.estimators import CONTROLS
from roarbench.files import writing
from roarbench.plan.choosing import chosen_estimators, chosen_protocol, table_protocol, with_added
from roarbench.plan.points import select
from roarbench.plan.suite import Suite
from roarbench.plan.suites import find_suite
from roarbench.text import folded

if TYPE_CHECKING:
    from roarbench.execution.entering import SubmissionMode
    from roarbench.execution.runner import Finished, Request, Start
    from roarbench.execution.until_decided import StoppingRule
    from roarbench.store.layout import Workspace
    from roarbench.store.results import ResultsStore

_MOST_REPLICATIONS = 1000


def run(
    *,
    asked: SuiteOptions,
    place: EngineOptions,
    work: WorkOptions,
    metrics: Metrics = None,
    submitted: SubmissionOptions,
    course: CourseOptions,
    format: Annotated[TableFormat, typer.Option("--format", help="Format of the final table.")] = TableFormat.TEXT,
    log_format: LogFormat = ReportFormat.TEXT,
) -> None:
    """Run whatever is missing of a suite, then show the table. Repeat the command to resume."""
    logged = log_format is ReportFormat.JSON
    console = log_console() if logged else err
    named, budget = _tried(asked, work), course.seconds
    suite = requested_suite(named, asked, work.references)
    from roarbench.analysis.load import open_results
    from roarbench.execution.quantus import quantus_version
    from roarbench.execution.runner import Request, add_scores
    from roarbench.execution.until_decided import StoppingRule
    from roarbench.report.status import advice_lines, failures_of
    from roarbench.store.layout import Workspace

    # machines of a cluster have other working directories
    store = work.store.absolute() if place.engine == "ray" else work.store
    workspace, pace = Workspace(store), None
    if metrics:
        quantus_version()  # before hours of work
    count, start = _workers(place, work, workspace.logs if logged else None)
    with open_results(work.store, work.db, read_only=False) as results:
        _keep(named, results, console)
        if submitted.submission:
            from roarbench.execution.entering import read_all, submit

            entries, pace = submit(read_all(submitted.submission), _mode(submitted, named), results, workspace, console)
            suite = requested_suite(named, asked, work.references, entries)
        request = Request(suite, work.data, work.limit, work.references, count, start, pace)
        rule = StoppingRule(course.difference, budget) if course.until_decided else None
        finished = _run(request, rule, workspace, results, console)
        if metrics and not finished.failed:
            finished = add_scores(finished, results, console)
        where, advice = results.where, advice_lines(failures_of(finished.suite_results, results))
    _print_tables(suite, finished, work.store, format)
    console.print(f"results {where}; rankings and references {work.store}", soft_wrap=True)
    _propose_next(finished, f"{named.name}.png", advice, console)
    if finished.failed:
        raise typer.Exit(1)


def _tried(asked: SuiteOptions, work: WorkOptions) -> Suite:
    """Return the suite that is to be computed: one's own network is tried, before hours of work."""
    return load(asked.suite, work.store, db=work.db, trust_network=work.trust_network).fitted


def _propose_next(finished: "Finished", picture: str, advice: Sequence[Hint], console: Console) -> None:
    """Print the commands that usually come after a run, and after failures what to do about them."""
    from roarbench.analysis.validity import has_checks

    doubt = "validity" if has_checks(finished.suite_results) else "replicate"
    lines = [propose("table"), propose(doubt), propose("plot", "-o", picture), propose("status")]
    console.print("\n  ".join(["next:", *lines]), soft_wrap=True)
    for line in advice:
        console.print(worded(line), soft_wrap=True)


def _mode(submitted: SubmissionOptions, suite: Suite) -> "SubmissionMode":
    """Return how the maps of a submission are made."""
    from roarbench.execution.entering import SubmissionMode

    return SubmissionMode(submitted.trust, submitted.device is Device.CUDA, suite)


def _run(
    request: "Request", rule: "StoppingRule | None", workspace: "Workspace", results: "ResultsStore", console: Console
) -> "Finished":
    """Do all runs that are missing, or with a rule only those that it takes to fulfil it."""
    from roarbench.execution.runner import run_suite
    from roarbench.execution.until_decided import run_until_decided

    if rule:
        return run_until_decided(request, rule, workspace, results, console)
    return run_suite(request, workspace, results, console)


def _print_tables(suite: Suite, finished: "Finished", store: Path, format: TableFormat) -> None:
    """Print the tables of a suite that a finished run shows: a file is of one, that of `table`."""
    from roarbench.analysis.noisy_copies import with_kept
    from roarbench.plan.suites import leading
    from roarbench.report.table import suite_table

    suite_results = with_kept(finished.suite_results, store)
    many = format is TableFormat.TEXT
    shown = [each.name for each in leading(suite)] if many else [table_protocol(suite, "", format.plain)]
    for protocol in shown:
        print_table(suite_table(suite_results, protocol, None, None), format)


def _workers(place: EngineOptions, work: WorkOptions, logs: Path | None) -> "tuple[int, Start]":
    """Return how many workers there are, and what starts them, with logs in a folder, made here, if that is named."""
    from roarbench.execution.local_workers import start_local, workers_here

    if logs:  # before hours of work: a worker without its log does not start
        with writing(logs):
            logs.mkdir(parents=True, exist_ok=True)
    if place.engine == "local":
        return workers_here(work.workers), partial(start_local, logs=logs)
    from roarbench.workers.ray import RayEngine, connect

    count = connect(place.address, work.workers if place.address else workers_here(work.workers))
    return count, partial(RayEngine, shared=work.store, follow=not work.workers, logs=logs)


def replicate(
    *,
    asked: SuiteOptions,
    work: WorkOptions,
    number: Annotated[
        int,
        typer.Option("--replication", min=1, max=_MOST_REPLICATIONS, metavar="N", help="Number of the replication."),
    ] = 1,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="DIR", help="Compare with the results in this store; run nothing."),
    ] = None,
    format: Annotated[ReportFormat, typer.Option("--format")] = ReportFormat.TEXT,
) -> None:
    """Run a suite again with other seeds and references, and compare the verdicts.

    What is missing of the suite itself is done first. The exit code is 1 if a verdict is opposed: better in one of the
    two, worse in the other.
    """
    named = _tried(asked, work)
    suite = requested_suite(named, asked, work.references)
    from roarbench.analysis.load import Question, load_suite
    from roarbench.report.replication_table import compare, replication_record, replication_text

    if against:
        question = Question(work.store, work.db, work.limit, str(work.data or ""), work.references)
        first, again = (load_suite(suite, each) for each in (question, question._replace(store=against, db="")))
    else:
        first, again = (finished.suite_results for finished in _run_twice(named, suite, work, number))
    found = compare(first, again, suite.blocks[0].unit)
    if format is ReportFormat.JSON:
        out.print_json(json.dumps(replication_record(found, first, again)))
    else:
        out.print(replication_text(found, first, again))
    if found.opposed:
        raise typer.Exit(1)


def _run_twice(named: Suite, suite: Suite, work: WorkOptions, number: int) -> "list[Finished]":
    """Do what is missing of a suite and of its replication of this number.

    Raises:
        RunError: Runs failed.
    """
    from roarbench.analysis.load import open_results
    from roarbench.execution.local_workers import workers_here
    from roarbench.execution.runner import Request, run_suite
    from roarbench.store.layout import Workspace

    workspace, count = Workspace(work.store), workers_here(work.workers)
    with open_results(work.store, work.db, read_only=False) as results:
        _keep(named, results, err)
        request = Request(suite, work.data, work.limit, work.references, count)
        repeated = replace(request, suite=replace(suite, replication=number))
        done = [run_suite(each, workspace, results, err) for each in (request, repeated)]
    if any(finished.failed for finished in done):
        raise RunError(f"runs failed; `{propose('status')}` says which")
    return done


def plan(
    *,
    asked: QuestionOptions,
    work: WorkOptions,
    submitted: SubmissionOptions,
    measured: Annotated[
        bool, typer.Option("--measure", help="Time each part on this machine (takes seconds).")
    ] = False,
    format: Annotated[ReportFormat, typer.Option("--format")] = ReportFormat.TEXT,
) -> None:
    """Show what would run and what it costs: time, disk and memory."""
    if asked.question:
        _answer(asked, work, format)
        return
    named = _tried(asked, work)
    suite, seconds = requested_suite(named, asked, work.references), None
    from roarbench.analysis.load import Question, load_if_any
    from roarbench.datasets.loading import decoded_already
    from roarbench.execution.local_workers import default_workers, rates_here
    from roarbench.forecast.plan import make_plan
    from roarbench.store.layout import Workspace

    data, decoded = work.data, None
    if data:
        decoded = decoded_already(suite.dataset_record, Workspace(work.store).data, data, work.limit)
    if submitted.submission:
        from roarbench.execution.entering import inspect_files

        entries, pace = inspect_files(submitted.submission, _mode(submitted, named), measured, err)
        suite = requested_suite(named, asked, work.references, entries)
        seconds = pace and pace.of(suite)
    suite_results = load_if_any(suite, Question(work.store, work.db, work.limit), decoded)
    with rates_here(partial(err.print, soft_wrap=True)) if measured else nullcontext() as measure:
        made = make_plan(suite_results, work.workers or default_workers(), measure, bool(data) and not decoded, seconds)
    if format is ReportFormat.JSON:
        out.print_json(json.dumps(made.record()))
    else:
        out.print(folded(made.text(), out.width), soft_wrap=True)


def _answer(asked: QuestionOptions, work: WorkOptions, format: ReportFormat) -> None:
    """Print the cheapest way to an answer on this machine."""
    from roarbench.analysis.load import Question, load_if_any
    from roarbench.execution.local_workers import default_workers, rates_here
    from roarbench.forecast.plan import make_plan
    from roarbench.forecast.question import answer_record, answer_text, costed, ways_to

    ways, workers = ways_to(asked.question, asked.difference, asked.suite), work.workers or default_workers()
    stored = Question(work.store, work.db, work.limit)
    plans = [make_plan(load_if_any(way.part, stored, None), workers) for way in ways]
    with rates_here(partial(err.print, soft_wrap=True)) as measure:
        rates = {name: measure(find_suite(name), None) for name in dict.fromkeys(way.suite for way in ways)}
    found = [costed(way, plan, rates[way.suite]) for way, plan in zip(ways, plans, strict=True)]
    found.sort(key=lambda each: each.seconds)
    if format is ReportFormat.JSON:
        out.print_json(json.dumps(answer_record(asked.question, asked.difference, found, workers)))
    else:
        best = found[0].way
        stop = ("--difference", f"{asked.difference:g}") if best.until_decided and asked.difference else ()
        command = propose("run", *best.words, *stop)
        out.print(answer_text(asked.question, asked.difference, found, workers, command), soft_wrap=True)


def _keep(suite: Suite, results: "ResultsStore", console: Console) -> None:
    """Keep a suite from a file with its results, and tell what it leaves out."""
    from roarbench.store.kept_suites import keep_suite

    if suite.own:
        keep_suite(results.database, suite)
    for name, why in suite.left_out.items():
        console.print(f"left out: {name}: {why}", soft_wrap=True)


def requested_suite(
    suite: Suite, asked: SuiteOptions, references: Sequence[str] = (), entries: Sequence[str] = ()
) -> Suite:
    """Return the suite, or the part of it that was chosen, with the controls that every estimator is compared with.

    Args:
        suite: That was named.
        asked: The suite, its estimators and its seeds.
        references: File or name of the weights of each network that it explains; empty for those that its recipe
            trains.
        entries: Ids of submissions, which are always part of it, with their twins.
    """
    from roarbench.plan.weights import explaining

    suite = with_added(suite, asked.estimators, entries)
    chosen = chosen_estimators(suite, asked.estimators)
    own = [row.id for row in suite.estimator_records if row.parent in entries]
    if asked.seeds and asked.seeds < len(references):
        seen = f"--seeds {asked.seeds} and {len(references)} references"
        raise CallerError(f"{seen}: each explains a seed of its own; write --seeds {len(references)} or more")
    protocol = chosen_protocol(suite, asked.protocol) if asked.protocol else None
    return select(explaining(suite, references), chosen and (*CONTROLS, *chosen, *own), asked.seeds, protocol)
