"""Command that shows the missing runs of a suite and estimates their cost."""

from contextlib import nullcontext
from functools import partial
from typing import Annotated

from roarbench.cli.options import Report, SubmissionOptions, SuiteOptions, WorkOptions, declare_option
from roarbench.cli.terminal import err, out, print_report
from roarbench.common.text import wrap_lines


def plan(
    *,
    options: SuiteOptions,
    work: WorkOptions,
    submitted: SubmissionOptions,
    measured: Annotated[
        bool, declare_option("Time each part on this machine (takes seconds).", flags="--measure")
    ] = False,
    format: Report = "text",
) -> None:
    """Show the missing runs of a suite and their cost: time, disk and memory."""
    suite = work.load(options.suite)
    part, data, decoded, seconds = options.select_part(suite), work.data, None, None
    for warning in suite.warnings:
        err.print(f"warning: {warning}", soft_wrap=True)
    from roarbench.analysis.load_results import load_results_reused_by_run
    from roarbench.datasets.decode_dataset import find_decoded_fingerprint
    from roarbench.execution.count_and_start_workers import count_default_workers
    from roarbench.execution.forecast import make_plan
    from roarbench.execution.rate_measurement import start_rate_measurement
    from roarbench.execution.workload import count_missing_work
    from roarbench.store.workspace import Workspace

    workers = work.workers or count_default_workers(part.dataset_record.size)
    if data:
        decoded = find_decoded_fingerprint(part.dataset_record, Workspace(work.store).data, data, work.limit)
    if submitted.submission:
        from roarbench.execution.submission_intake import read_entries_without_storing

        entries, pace = read_entries_without_storing(submitted.submission, submitted.make_mode(suite), measured, err)
        part = options.select_part(suite, entries)
        seconds = pace and pace.estimate_seconds_per_map(part)
    suite_results = load_results_reused_by_run(part, suite.query, decoded)
    lacking = count_missing_work(suite_results, Workspace(work.store), bool(data) and not decoded)
    with start_rate_measurement(partial(err.print, soft_wrap=True)) if measured else nullcontext() as measure:
        forecast = make_plan(suite_results, lacking, workers, measure, seconds)
    print_report(format, forecast.make_json_record(), lambda _: wrap_lines(forecast.format_text(), out.width))
