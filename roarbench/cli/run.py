"""Commands that plan, run and replicate a suite."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from roarbench.cli.options import (
    EngineOptions,
    ReportFormat,
    SubmissionOptions,
    SuiteOptions,
    TableFormat,
    WorkOptions,
    declare_option,
)
from roarbench.cli.terminal import append_proposed_command, err, print_report, print_table, propose_command
from roarbench.common.errors import RunError
from roarbench.common.text import format_count
from roarbench.plan.protocols import ROAR
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_changes import add_submissions_and_estimators

if TYPE_CHECKING:
    from roarbench.api.evaluated_rows import EvaluatedRows
    from roarbench.api.suites import Suite
    from roarbench.execution.run_suite import Start
    from roarbench.store.results import ResultsStore


def run(
    *,
    options: SuiteOptions,
    engine: EngineOptions,
    work: WorkOptions,
    metrics: Annotated[Literal["quantus"] | None, declare_option("Also score the maps by Quantus, in extra columns.",
        flags="--with")] = None,
    submitted: SubmissionOptions,
    format: Annotated[TableFormat, declare_option("Format of the final table.")] = "text",
) -> int:  # fmt: skip
    """Run the missing parts of a suite, then show the table. Repeat the command to resume."""
    suite = work.load(options.suite, options)
    part = suite.select_part()
    from roarbench.execution.quantus import add_quantus_scores, read_quantus_version
    from roarbench.execution.run_suite import run_suite, start_local_workers
    from roarbench.execution.workload import choose_worker_count
    from roarbench.plan.suites import find_headline_protocols
    from roarbench.report.combined_table import has_combined_table, present
    from roarbench.report.status import format_failure_advice, list_run_failures
    from roarbench.report.table_renderers import format_text
    from roarbench.report.validity_panel import can_check_validity

    if metrics:
        read_quantus_version()  # fails before hours of work if Quantus is missing
    _warn_of_missing_compiler(engine, part)
    start: Start = start_local_workers
    if engine.engine == "local" or not engine.address:
        count = choose_worker_count(work.workers, suite.plan.dataset_record.size)
    if engine.engine == "ray":
        from roarbench.common.ray_workers import RayEngine, connect_to_ray

        # workers on other machines of a cluster have other working directories
        suite.settings = replace(suite.settings, store=suite.settings.store.absolute())
        count = connect_to_ray(engine.address, work.workers if engine.address else count)
        start = partial(RayEngine, shared=work.store, follow=not work.workers)

    def print_interim_roar_table() -> None:
        if has_combined_table(part):
            table = _load_rows_to_show(suite, part).single_table(ROAR.name)
            err.print(format_text(present(table), err.width), crop=False)

    with _open_store_and_submit(suite, submitted) as (results, part):
        request = replace(suite.make_request(part), workers=count, start=start, check_files=engine.check_files)
        finished = run_suite(replace(request, on_roar_complete=print_interim_roar_table), results, err)
        if metrics and not finished.failed:
            finished = add_quantus_scores(finished, results, err)
        advice = format_failure_advice(list_run_failures(finished.suite_results, results))
        where = results.database.where
    result = _load_rows_to_show(suite, part)
    if has_combined_table(part):
        print_table(result.table(), format)
    else:  # formats other than text print a single table
        headlines = [protocol.name for protocol in find_headline_protocols(part)]
        for name in headlines if format == "text" else [suite.settings.protocol]:
            print_table(result.single_table(name), format)
    err.print(f"results {where}; rankings and explained networks {work.store}", soft_wrap=True)
    check = "diagnose" if can_check_validity(finished.suite_results) else "replicate"
    proposed = (("table",), (check,), ("plot", "-o", f"{suite.name}.png"), ("status",))
    err.print("\n  ".join(["next:", *(propose_command(*words) for words in proposed)]), soft_wrap=True)
    for line in advice:
        err.print(append_proposed_command(line), soft_wrap=True)
    return int(bool(finished.failed))


@contextmanager
def _open_store_and_submit(suite: "Suite", submitted: SubmissionOptions) -> "Iterator[tuple[ResultsStore, SuiteSpec]]":
    """Open a suite's store, and yield it with the requested part of the suite, which has the accepted submissions."""
    from roarbench.execution.submission_intake import check_and_store_submissions, read_submissions
    from roarbench.store.workspace import Workspace

    submissions, mode = read_submissions(submitted.submission), submitted.make_mode(suite)
    _explain_additional_seeds(suite)
    with suite.open_store_for_writing(err) as results:
        workspace = Workspace(suite.settings.store)
        yield results, suite.select_part(check_and_store_submissions(submissions, mode, results, workspace, err))


def _explain_additional_seeds(suite: "Suite") -> None:
    """Print one line if `--seeds` exceeds the suite's number, because the suite's tables show only that number."""
    protocol, seeds = suite.settings.protocol, suite.settings.seeds or 0
    trained = (block for block in suite.plan.blocks if block.protocol.trains and protocol in ("", block.protocol.name))
    own = max((block.seeds for block in trained), default=0)
    if own and own < seeds:
        path = suite.name_or_file if suite.name_or_file.endswith(".toml") else f"a copy of the file of {suite.name}"
        tables = f"tables of {suite.plan.title} show at most {format_count(own, 'seed')}"
        use = f"the results of more seeds are stored, and count if {path} says `seeds = {seeds}`"
        err.print(f"--seeds {seeds}: {tables}; {use}", soft_wrap=True)


def _load_rows_to_show(suite: "Suite", part: SuiteSpec) -> "EvaluatedRows":
    checked = replace(suite, plan=suite.runnable_plan)  # a first run has left out estimators that do not apply
    return replace(checked.read_result_or_empty(), rows=part.estimators if suite.settings.estimators else None)


def _warn_of_missing_compiler(engine: EngineOptions, part: SuiteSpec) -> None:
    """Print a line if a recipe compiles its networks, which happens on GPUs alone, and this machine has none."""
    from roarbench.common.device_settings import list_gpu_ids
    from roarbench.plan.recipes import find_recipe

    compiles = any(find_recipe(title).compile for title in (part.recipe, part.reference_recipe))
    if compiles and engine.engine == "local" and not list_gpu_ids():
        err.print("networks are not compiled, because this machine has no GPU")


def plan(
    *,
    options: SuiteOptions,
    work: WorkOptions,
    submitted: SubmissionOptions,
    measure: Annotated[bool, declare_option("Time each part on this machine (takes seconds).")] = False,
    format: ReportFormat = "text",
) -> None:
    """Show the missing runs of a suite and their cost: time, disk and memory."""
    suite = work.load(options.suite, options)
    suite.select_part()  # raises before torch is imported
    _explain_additional_seeds(suite)
    for warning in suite.warnings:
        err.print(f"warning: {warning}", soft_wrap=True)
    from roarbench.analysis.load_results import load_results_reused_by_run
    from roarbench.datasets.decode_dataset import find_decoded_fingerprint
    from roarbench.execution.forecast import make_plan
    from roarbench.execution.rate_measurement import measure_rates_of_this_machine
    from roarbench.execution.submission_intake import map_ids_to_code, read_submissions
    from roarbench.execution.workload import choose_worker_count, count_missing_work
    from roarbench.store.workspace import Workspace

    record, workspace, decoded = suite.plan.dataset_record, Workspace(work.store), None
    workers = work.workers or choose_worker_count(None, record.size)
    if work.data:
        decoded = find_decoded_fingerprint(record, workspace.data, work.data, work.limit)
    codes = map_ids_to_code(read_submissions(submitted.submission), submitted.make_mode(suite))
    suite_results = load_results_reused_by_run(suite.select_part(list(codes)), suite.settings, decoded)
    lacking, _ = count_missing_work(suite_results, workspace, bool(work.data) and not decoded)
    say = partial(err.print, soft_wrap=True)
    rates = measure_rates_of_this_machine(suite_results.suite, lacking, say, codes) if measure else None
    forecast = make_plan(suite_results, lacking, workers, rates)
    print_report(format, forecast.make_json_record(), lambda _: forecast.format_text())


def replicate(
    *,
    options: SuiteOptions,
    work: WorkOptions,
    submitted: SubmissionOptions,
    replication: Annotated[int, declare_option("Number of the replication.", "N", most=1000)] = 1,
    format: ReportFormat = "text",
) -> int:
    """Run a suite again with other seeds and explained networks, and compare the verdicts of the tables of `run`.

    The command first completes the suite itself if it is unfinished. The exit code is 1 if a verdict is contradicted:
    better in the suite and worse in its replication, or the reverse.
    """
    suite = work.load(options.suite, options)
    from roarbench.analysis.load_results import load_suite_results
    from roarbench.execution.run_suite import run_suite
    from roarbench.report.replication_comparison import (
        compare_replication,
        format_replication,
        list_uncompared_protocols,
        make_replication_record,
    )

    whole = add_submissions_and_estimators(suite.runnable_plan, suite.settings.estimators)
    with _open_store_and_submit(suite, submitted) as (results, part):
        requests = [suite.make_request(plan, work.workers) for plan in (part, replace(part, replication=replication))]
        finished_suites = [run_suite(request, results, err) for request in requests]
    if any(finished.failed for finished in finished_suites):
        raise RunError(f"runs failed; `{propose_command('status')}` lists them")
    original = load_suite_results(whole, suite.settings)
    replicated = load_suite_results(replace(whole, replication=replication), suite.settings)
    replications = compare_replication(original, replicated, part)
    record = make_replication_record(replications, original, replicated)
    print_report(format, record, lambda _: format_replication(replications, original, replicated))
    if uncompared := list_uncompared_protocols(replications, part):
        command = propose_command("replicate", "--protocol", uncompared[0])
        err.print(f"not compared: {', '.join(uncompared)}; to compare one of these, run `{command}`", soft_wrap=True)
    return int(any(replication.opposed for replication in replications.values() if replication))
