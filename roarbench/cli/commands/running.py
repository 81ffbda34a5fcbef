"""Do a suite, or say what it takes."""

import json
from pathlib import Path
from typing import Annotated

import typer

from roarbench.calls import propose
from roarbench.cli.commands.terminal import err, out, print_table
from roarbench.cli.options import (
    STORE,
    Chosen,
    Data,
    Db,
    Device,
    Engine,
    Extra,
    File,
    Format,
    Limit,
    MapDevice,
    Reference,
    Seeds,
    Short,
    StoreDir,
    SuiteName,
    Trust,
    With,
    Workers,
    chosen_estimators,
)
from roarbench.errors import CallerError
from roarbench.estimators import CONTROLS, find_estimator
from roarbench.plan.runs import Suite, select
from roarbench.plan.suites import find_suite, with_entries


def run(
    suite: SuiteName,
    estimators: Chosen = "",
    seeds: Seeds = None,
    engine: Annotated[Engine, typer.Option("--engine", help="Where the work is done.")] = Engine.LOCAL,
    workers: Workers = None,
    store: StoreDir = STORE,
    db: Db = "",
    data: Data = None,
    limit: Limit = None,
    reference: Reference = "",
    extra: With = None,
    submission: File = None,
    trust: Trust = False,
    device: MapDevice = Device.CPU,
    format: Annotated[Format, typer.Option("--format", help="Of the table at the end.")] = Format.TEXT,
) -> None:
    """Do all runs of a suite that are missing, then show the table. The same command goes on where it stopped."""
    chosen = _explaining(_part(suite, estimators, seeds), reference)
    _check_submission(submission, trust, device)
    from roarbench.analysis.load import open_results
    from roarbench.execution.quantus import quantus_version
    from roarbench.execution.runner import add_scores, run_suite, workers_here
    from roarbench.report.table import shown_table
    from roarbench.store.folders import Workspace

    count, pace = workers_here(workers), None
    if extra is Extra.QUANTUS:
        quantus_version()  # before hours of work
    with open_results(store, db, read_only=False) as results:
        if submission:
            from roarbench.execution.entry import How, hand_in

            how = How(trust, cuda=device is Device.CUDA)
            entry, pace = hand_in(submission, how, results, Workspace(store), err)
            chosen = _explaining(_part(suite, estimators, seeds, entry), reference)
        finished = run_suite(chosen, Workspace(store), results, data, limit, count, err, reference, pace)
        if extra is Extra.QUANTUS and not finished.failed:
            finished = add_scores(finished, results, err)
        where = results.where
    protocol = chosen.blocks[0].protocol.name  # ROAR, where a suite has it
    print_table(shown_table(finished.suite_results, protocol, None, None), format)
    err.print(f"results {where}; rankings and references {store}", soft_wrap=True)
    lines = [propose("table"), propose("validity"), propose("plot", "-o", f"{suite}.png"), propose("status")]
    err.print("\n  ".join(["next:", *lines]), soft_wrap=True)
    if finished.failed:
        raise typer.Exit(1)


def plan(
    suite: SuiteName,
    estimators: Chosen = "",
    seeds: Seeds = None,
    workers: Workers = None,
    store: StoreDir = STORE,
    db: Db = "",
    data: Data = None,
    limit: Limit = None,
    reference: Reference = "",
    submission: File = None,
    trust: Trust = False,
    device: MapDevice = Device.CPU,
    measured: Annotated[bool, typer.Option("--measure", help="Time it on this machine, in seconds.")] = False,
    format: Annotated[Short, typer.Option("--format")] = Short.TEXT,
) -> None:
    """Say what would run and what it takes: decoding, training, maps, scoring, disk and memory."""
    chosen, seconds = _explaining(_part(suite, estimators, seeds), reference), None
    _check_submission(submission, trust, device)
    from roarbench.analysis.load import Question, load_if_any
    from roarbench.datasets import find_dataset
    from roarbench.datasets.loading import decoded_already
    from roarbench.execution.runner import default_workers
    from roarbench.forecast.plan import make_plan
    from roarbench.store.folders import Workspace

    images = decoded_already(find_dataset(chosen.dataset), Workspace(store).data, data, limit) if data else None
    if submission:
        from roarbench.execution.entry import How, look_at

        entry, pace = look_at(submission, How(trust, cuda=device is Device.CUDA), measured, err)
        chosen, seconds = _explaining(_part(suite, estimators, seeds, entry), reference), pace and pace.of(chosen)
    suite_results = load_if_any(chosen, Question(store, db, limit), images)
    made = make_plan(suite_results, workers or default_workers(), measured, bool(data) and not images, seconds)
    if format is Short.JSON:
        out.print_json(json.dumps(made.record()))
    else:
        out.print(made.text(), soft_wrap=True)


def _check_submission(file: Path | None, trust: bool, device: Device) -> None:
    if not file and (trust or device is not Device.CPU):
        raise CallerError("--trust-submission and --submission-device say how a file is run; add --submission FILE")


def _part(name: str, estimators: str, seeds: int | None, entry: str = "") -> Suite:
    """The suite, or the part of it that was chosen, with the controls that every estimator is held against.

    A submission is always part of it, with its twins.
    """
    suite = with_entries(find_suite(name), [entry] if entry else [])
    chosen = chosen_estimators(suite, estimators)
    own = [row for row in suite.estimators if entry and find_estimator(row).parent == entry]
    return select(suite, chosen and (*CONTROLS, *chosen, *own), seeds)


def _explaining(suite: Suite, reference: str) -> Suite:
    """The suite with given weights for what it explains, if any were named."""
    from roarbench.plan.weights import explaining

    return explaining(suite, reference)
