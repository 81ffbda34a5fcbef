"""The command line: parses, calls, prints."""

import json
import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from platformdirs import user_data_path
from rich.console import Console
from typer.exceptions import TyperException

from roarbench import reports, tables, validity_tables
from roarbench.errors import CallerError, UnknownName
from roarbench.estimators import CONTROLS, find_estimator
from roarbench.plan import Suite, select
from roarbench.standings import Standing, standing
from roarbench.store.provenance import cores
from roarbench.store.results import DEFAULT_FILE, ResultsStore, default_url
from roarbench.suites import find_suite
from roarbench.tables import ShownTable
from roarbench.terms import PROTOCOLS, ROAR, Unit
from roarbench.validity import flags, panel
from roarbench.workspace import Workspace

app = typer.Typer(
    name="roarbench",
    help="Judge feature-importance estimators by experiment: remove what they call important, retrain, measure.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)


class Format(StrEnum):
    """How a table is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


class Prose(StrEnum):
    """How a report with sentences is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


class Engine(StrEnum):
    """Where the work is done."""

    LOCAL = "local"


class Short(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"


_STORE = user_data_path("roarbench")

SuiteName = Annotated[str, typer.Option("--suite", help="Which suite; `roarbench suites` lists them.")]
StoreDir = Annotated[
    Path, typer.Option("--store", envvar="ROARBENCH_STORE", help="Folder of images, references, rankings, results.")
]
Db = Annotated[str, typer.Option("--db", help="Results, as a database URL; an SQLite file in the store by default.")]
Limit = Annotated[int | None, typer.Option("--limit", help="A small version: this many images of each split.")]
Data = Annotated[Path | None, typer.Option("--data", help="Read the images from this folder in the hub's layout.")]
Chosen = Annotated[str, typer.Option("--estimators", help="Only these and the controls, by id, with commas between.")]
Shown = Annotated[str, typer.Option("--estimators", help="Show only these, by id, with commas between.")]
Seeds = Annotated[int | None, typer.Option("--seeds", min=1, help="Trainings per cell instead of the suite's number.")]
ProtocolName = Annotated[str, typer.Option("--protocol", help="roar, kar, morf, lerf or mask-only.")]
UnitName = Annotated[Unit | None, typer.Option("--unit", help="What one feature is; the suite's first by default.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Processes; one per core by default.")]


def _part(name: str, estimators: str, seeds: int | None) -> Suite:
    """The suite, or the part of it that was chosen, with the controls that every estimator is held against."""
    suite = find_suite(name)
    chosen = _chosen(suite, estimators)
    return select(suite, chosen and (*CONTROLS, *chosen), seeds)


def _chosen(suite: Suite, estimators: str) -> list[str] | None:
    """The estimators that were named; None for all.

    Raises:
        CallerError: There is no such estimator, or the suite does not have it.
    """
    chosen = [part.strip() for part in estimators.split(",") if part.strip()]
    for estimator in chosen:
        find_estimator(estimator)
        if estimator not in suite.estimators:
            raise CallerError(f"suite '{suite.name}' has no '{estimator}'; it has: {', '.join(suite.estimators)}")
    return chosen or None


def _results(store: Path, db: str, read_only: bool) -> ResultsStore:
    return ResultsStore.open(db or default_url(store), read_only=read_only)


def _complain(message: str) -> None:
    err.print(f"roarbench: {message}", soft_wrap=True)


@app.command(epilog="Example: `roarbench run --suite quick --estimators grad,sgsq-grad`")
def run(
    suite: SuiteName,
    estimators: Chosen = "",
    seeds: Seeds = None,
    engine: Annotated[Engine, typer.Option("--engine", help="Where the work is done.")] = Engine.LOCAL,
    workers: Workers = None,
    store: StoreDir = _STORE,
    db: Db = "",
    data: Data = None,
    limit: Limit = None,
    format: Annotated[Format, typer.Option("--format", help="Of the table at the end.")] = Format.TEXT,
) -> None:
    """Do all runs of a suite that are missing, then show the table. The same command goes on where it stopped."""
    from roarbench.session import run_suite

    chosen = _part(suite, estimators, seeds)
    processes = workers or cores()
    with _results(store, db, read_only=False) as results:
        finished = run_suite(chosen, Workspace(store), results, data, limit, processes, err)
        where = results.where
    _print_table(finished.standing, ROAR.name, None, None, format)
    err.print(f"results {where}; rankings and references {store}", soft_wrap=True)
    err.print(f"more: roarbench table, plot, status --suite {suite}", soft_wrap=True)
    if finished.failed:
        raise typer.Exit(1)


@app.command(epilog="Example: `roarbench plan --suite imagenette64`")
def plan(
    suite: SuiteName,
    estimators: Chosen = "",
    seeds: Seeds = None,
    workers: Workers = None,
    store: StoreDir = _STORE,
    db: Db = "",
    limit: Limit = None,
    format: Annotated[Short, typer.Option("--format")] = Short.TEXT,
) -> None:
    """Say what would run and what it takes here: trainings, time (measured on the spot) and disk."""
    from roarbench.session import make_plan

    chosen = _part(suite, estimators, seeds)
    processes = workers or cores()
    held = Standing(chosen, "", limit, {})
    if db or (store / DEFAULT_FILE).exists():  # without a store, everything is missing
        with _results(store, db, read_only=True) as results:
            held = standing(chosen, results, limit)
    made = make_plan(held, processes)
    if format is Short.JSON:
        out.print_json(json.dumps(made.record()))
    else:
        out.print(made.text())


@app.command(epilog="Example: `roarbench status --suite quick --format json`")
def status(
    suite: SuiteName,
    store: StoreDir = _STORE,
    db: Db = "",
    limit: Limit = None,
    format: Annotated[Short, typer.Option("--format")] = Short.TEXT,
) -> None:
    """Count what is done, running, missing and failed."""
    with _results(store, db, read_only=True) as results:
        found = reports.status_record(standing(find_suite(suite), results, limit), results)
    if format is Short.JSON:
        out.print_json(json.dumps(found))
        return
    out.print(reports.status_table(found))
    for failure in found["failures"]:
        out.print(f"failed: {failure['run']}: {failure['reason']}")


@app.command(epilog="Example: `roarbench table --suite quick --protocol kar --format markdown`")
def table(
    suite: SuiteName,
    estimators: Shown = "",
    protocol: ProtocolName = ROAR.name,
    unit: UnitName = None,
    store: StoreDir = _STORE,
    db: Db = "",
    limit: Limit = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Show the estimators against Random and Sobel, with intervals and places."""
    found = find_suite(suite)
    rows = _chosen(found, estimators)
    with _results(store, db, read_only=True) as results:
        held = standing(found, results, limit)
    _print_table(held, protocol, unit, rows, format)


@app.command(epilog="Example: `roarbench validity --suite quick`")
def validity(
    suite: SuiteName,
    store: StoreDir = _STORE,
    db: Db = "",
    limit: Limit = None,
    format: Annotated[Prose, typer.Option("--format")] = Prose.TEXT,
) -> None:
    """Show what may be wrong with each row: masks that leak, twins that do as well, orders and units that disagree."""
    with _results(store, db, read_only=True) as results:
        made = panel(standing(find_suite(suite), results, limit))
    if format is Prose.TEXT:
        out.print(validity_tables.as_text(made), crop=False, soft_wrap=True)
    else:
        print(validity_tables.as_json(made) if format is Prose.JSON else validity_tables.as_markdown(made))


@app.command(epilog="Example: `roarbench plot --suite quick -o curves.svg`")
def plot(
    suite: SuiteName,
    output: Annotated[Path, typer.Option("-o", "--output", help="PNG, SVG or PDF by its ending.")],
    estimators: Shown = "",
    protocol: ProtocolName = ROAR.name,
    unit: UnitName = None,
    published: Annotated[
        str, typer.Option("--published", help="Lay the paper's curves over: imagenet, food101 or birdsnap.")
    ] = "",
    store: StoreDir = _STORE,
    db: Db = "",
    limit: Limit = None,
) -> None:
    """Draw accuracy against the fraction removed, one panel per base estimator, the controls in each."""
    from roarbench.charts import chart
    from roarbench.figures import draw_curves

    found = find_suite(suite)
    rows = _chosen(found, estimators)
    with _results(store, db, read_only=True) as results:
        held = standing(found, results, limit)
    draw_curves(chart(_shown(held, protocol, unit, rows), published), output)
    err.print(f"drawn: {output}")


@app.command(epilog="Example: `roarbench claims --suite quick`")
def claims(
    suite: Annotated[str, typer.Option("--suite", help="Also hold them against our results of this suite.")] = "",
    unit: UnitName = None,
    store: StoreDir = _STORE,
    db: Db = "",
    limit: Limit = None,
    format: Annotated[Short, typer.Option("--format")] = Short.TEXT,
) -> None:
    """Hold the paper's claims against its own Table 2 and against ours, by mean accuracies."""
    from roarbench import claims_report

    held = None
    if suite:
        with _results(store, db, read_only=True) as results:
            held = standing(find_suite(suite), results, limit)
    found, gains = claims_report.claim_records(held, unit or Unit.SCALAR), claims_report.gain_records()
    if format is Short.JSON:
        out.print_json(json.dumps({"claims": found, "published_gains": gains}))
    else:
        out.print(f"{claims_report.claims_text(found)}\n{claims_report.gains_text(gains)}", soft_wrap=True)


@app.command(epilog="Example: `roarbench toy -o toy.png`")
def toy(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Draw the figure into this file.")] = None,
    format: Annotated[Short, typer.Option("--format")] = Short.TEXT,
) -> None:
    """Run the 16-dimensional linear experiment whose true ranking is known: figure 2 of the paper."""
    from toy.figure import draw
    from toy.linear import experiment
    from toy.report import to_json, to_text

    result = experiment()
    out.print(to_json(result) if format is Short.JSON else to_text(result), soft_wrap=True)
    if output:
        draw(result, output)
        err.print(f"drawn: {output}")


@app.command(epilog="Example: `roarbench suites`")
def suites(format: Annotated[Short, typer.Option("--format")] = Short.TEXT) -> None:
    """List the suites with what each costs."""
    if format is Short.JSON:
        out.print_json(json.dumps(reports.suite_records()))
    else:
        out.print(reports.suite_list())


@app.command(epilog="Example: `roarbench estimators`")
def estimators(format: Annotated[Short, typer.Option("--format")] = Short.TEXT) -> None:
    """List the estimators and controls."""
    if format is Short.JSON:
        out.print_json(json.dumps(reports.estimator_records()))
    else:
        out.print(reports.estimator_list())


@app.command(epilog="Example: `roarbench doctor`")
def doctor(store: StoreDir = _STORE, format: Annotated[Short, typer.Option("--format")] = Short.TEXT) -> None:
    """Look at this machine: processor, memory, disk, libraries, and what to do about each."""
    from roarbench.doctor import examine, findings_table

    found = examine(store)
    if format is Short.JSON:
        out.print_json(json.dumps([finding._asdict() for finding in found]))
    else:
        out.print(findings_table(found))


def _shown(held: Standing, protocol: str, unit: Unit | None, rows: list[str] | None) -> ShownTable:
    """One protocol's board of what the store holds.

    Raises:
        CallerError: There is no such protocol, or the suite does not have it.
    """
    if protocol not in PROTOCOLS:
        raise UnknownName("protocol", protocol, PROTOCOLS)
    asked = PROTOCOLS[protocol]
    units = list(dict.fromkeys(block.unit for block in held.suite.blocks if block.protocol == asked))
    if not units or (unit and unit not in units):
        has = ", ".join(dict.fromkeys(f"{block.protocol.name} ({block.unit})" for block in held.suite.blocks))
        raise CallerError(f"suite '{held.suite.name}' has no {protocol} with unit {unit or Unit.SCALAR}; it has: {has}")
    board = held.board(asked, unit or units[0], rows)
    assert board is not None  # the suite has the protocol
    return ShownTable(held, board, unit or units[0], flags(held, unit or units[0]))


def _print_table(held: Standing, protocol: str, unit: Unit | None, rows: list[str] | None, format: Format) -> None:
    shown = _shown(held, protocol, unit, rows)
    if format is Format.TEXT:
        out.print(tables.as_text(shown), crop=False)
    else:
        print(tables.render(shown, format))


def main() -> NoReturn:
    """Run the command line; exit codes 0 done, 1 a run failed, 2 the caller's mistake, 130 and 143 interrupted."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = app(standalone_mode=False)
    except CallerError as error:
        _complain(str(error))
        code = 2
    except TyperException as error:
        _complain(f"{' '.join(error.format_message().split())} (roarbench --help)")
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted; finished runs are kept, the same command goes on")
        code = 130
    except BrokenPipeError:  # the reader of a pipe has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """On SIGTERM: leave by the ordinary way, so that workers end and the store is closed."""
    sys.exit(128 + number)
