"""The command line: parses, calls, prints.

What a command needs is imported in it: `--help` and a mistyped name are answered at once, and only `run`, `plan` and
`doctor` wait for torch.
"""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from typer.exceptions import TyperException

from roarbench.errors import CallerError, RunError
from roarbench.estimators import CONTROLS, find_estimator
from roarbench.options import (
    STORE,
    Chosen,
    Data,
    Db,
    Device,
    Engine,
    Extra,
    Format,
    Limit,
    Prose,
    ProtocolName,
    Reference,
    Seeds,
    Short,
    Shown,
    StoreDir,
    SuiteName,
    UnitName,
    With,
    Workers,
)
from roarbench.plan import Suite, select
from roarbench.suites import find_suite, with_entries
from roarbench.terms import ROAR, Unit
from roarbench.workspace import Workspace

if TYPE_CHECKING:
    from roarbench.tables import ShownTable

app = typer.Typer(
    name="roarbench",
    help="Judge feature-importance estimators by experiment: remove what they call important, retrain, measure.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)

_INTERRUPTED = 130  # what typer makes of Ctrl-C


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


def _explaining(suite: Suite, reference: str) -> Suite:
    """The suite with given weights for what it explains, if any were named."""
    if not reference:
        return suite
    from roarbench.given import title

    return replace(suite, given=title(reference))


def _complain(message: str) -> None:
    err.print(f"roarbench: {message}", soft_wrap=True)


@app.command(epilog="Example: `roarbench run --suite quick --estimators grad,sgsq-grad`")
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
    submission: Annotated[
        Path | None, typer.Option("--submission", metavar="FILE", help="Also this estimator; see submissions/.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust-submission", help="Run it without the sandbox; its rows are never verified.")
    ] = False,
    device: Annotated[
        Device, typer.Option("--submission-device", help="Where its maps are made; its rows say so.")
    ] = Device.CPU,
    format: Annotated[Format, typer.Option("--format", help="Of the table at the end.")] = Format.TEXT,
) -> None:
    """Do all runs of a suite that are missing, then show the table. The same command goes on where it stopped."""
    chosen = _explaining(_part(suite, estimators, seeds), reference)
    if not submission and (trust or device is not Device.CPU):
        raise CallerError("--trust-submission and --submission-device say how a file is run; add --submission FILE")
    from roarbench.quantus_scores import quantus_version
    from roarbench.reading import open_results, shown_table
    from roarbench.session import add_scores, default_workers, run_suite

    if extra is Extra.QUANTUS:
        quantus_version()  # before hours of work
    with open_results(store, db, read_only=False) as results:
        if submission:
            from roarbench.handing_in import How, hand_in

            how = How(trust, cuda=device is Device.CUDA)
            chosen = with_entries(chosen, [hand_in(submission, how, results, Workspace(store), err)])
        count = workers or default_workers()
        finished = run_suite(chosen, Workspace(store), results, data, limit, count, err, reference)
        if extra is Extra.QUANTUS and not finished.failed:
            finished = add_scores(finished, results, err)
        where = results.where
    asked = chosen.blocks[0].protocol.name  # ROAR, where a suite has it
    _print_table(shown_table(finished.standing, asked, None, None), format)
    err.print(f"results {where}; rankings and references {store}", soft_wrap=True)
    small = f" --limit {limit}" if limit else ""
    err.print(f"more: roarbench table, plot, status --suite {suite}{small}", soft_wrap=True)
    if finished.failed:
        raise typer.Exit(1)


@app.command(epilog="Example: `roarbench plan --suite imagenette64`")
def plan(
    suite: SuiteName,
    estimators: Chosen = "",
    seeds: Seeds = None,
    workers: Workers = None,
    store: StoreDir = STORE,
    db: Db = "",
    limit: Limit = None,
    reference: Reference = "",
    measured: Annotated[bool, typer.Option("--measure", help="Time it on this machine, in seconds.")] = False,
    format: Annotated[Short, typer.Option("--format")] = Short.TEXT,
) -> None:
    """Say what would run and what it takes: decoding, training, maps, scoring, disk and memory."""
    chosen = _explaining(_part(suite, estimators, seeds), reference)
    from roarbench.plan_report import make_plan
    from roarbench.reading import hold_if_any
    from roarbench.session import default_workers

    made = make_plan(hold_if_any(chosen, store, db, limit), workers or default_workers(), measured)
    if format is Short.JSON:
        out.print_json(json.dumps(made.record()))
    else:
        out.print(made.text(), soft_wrap=True)


@app.command(epilog="Example: `roarbench status --suite quick --format json`")
def status(
    suite: SuiteName,
    store: StoreDir = STORE,
    db: Db = "",
    limit: Limit = None,
    format: Annotated[Short, typer.Option("--format")] = Short.TEXT,
) -> None:
    """Count what is done, running, missing and failed."""
    asked = find_suite(suite)
    from roarbench import reports
    from roarbench.reading import hold_unfinished, open_results, with_submitted

    with open_results(store, db) as results:
        held = hold_unfinished(with_submitted(asked, results), results, store, limit)
        found = reports.status_record(held, results)
    if format is Short.JSON:
        out.print_json(json.dumps(found))
        return
    out.print(reports.status_table(found))
    if found["preparing"]:
        out.print("running: the reference is trained, or rankings are made")
    for row in found["mixed"]:
        out.print(f"no place: {row['protocol']} {row['estimator']} ({row['unit']}): {row['reason']}", soft_wrap=True)
    for failure in found["failures"]:
        out.print(f"failed: {failure['run']}: {failure['reason']}", soft_wrap=True)


@app.command(epilog="Example: `roarbench table --suite quick --protocol kar --format markdown`")
def table(
    suite: SuiteName,
    estimators: Shown = "",
    protocol: ProtocolName = ROAR.name,
    unit: UnitName = None,
    store: StoreDir = STORE,
    db: Db = "",
    limit: Limit = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Show the estimators against Random and Sobel, with intervals and places."""
    asked = find_suite(suite)
    from roarbench.reading import hold, shown_table

    held = hold(asked, store, db, limit)
    _print_table(shown_table(held, protocol, unit, _chosen(held.suite, estimators)), format)


@app.command(epilog="Example: `roarbench validity --suite quick`")
def validity(
    suite: SuiteName,
    unit: UnitName = None,
    store: StoreDir = STORE,
    db: Db = "",
    limit: Limit = None,
    against: Annotated[
        list[str] | None, typer.Option(help="another suite whose order of the estimators is compared", metavar="NAME")
    ] = None,
    format: Annotated[Prose, typer.Option("--format")] = Prose.TEXT,
) -> None:
    """Show what may be wrong with each row: masks that leak, twins that do as well, orders and units that disagree."""
    asked, others = find_suite(suite), [find_suite(name) for name in against or ()]
    from roarbench import validity_tables
    from roarbench.reading import hold
    from roarbench.validity import panel

    compared = [hold(other, store, db, limit) for other in others]
    made = panel(hold(asked, store, db, limit), others=compared, unit=unit)
    if format is Prose.TEXT:
        out.print(validity_tables.as_text(made), crop=False, soft_wrap=True)
    else:
        print(validity_tables.as_json(made) if format is Prose.JSON else validity_tables.as_markdown(made))


@app.command(epilog="Example: `roarbench plot --suite quick -o curves.svg`")
def plot(
    suite: SuiteName,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="PNG, SVG or PDF by its ending.")],
    estimators: Shown = "",
    protocol: ProtocolName = ROAR.name,
    unit: UnitName = None,
    published: Annotated[
        str,
        typer.Option("--published", metavar="NAME", help="Lay the paper's curves over: imagenet, food101 or birdsnap."),
    ] = "",
    store: StoreDir = STORE,
    db: Db = "",
    limit: Limit = None,
) -> None:
    """Draw accuracy against the fraction removed, one panel per base estimator, the controls in each.

    Twins are drawn where --estimators names them.
    """
    asked = find_suite(suite)
    from roarbench.charts import chart
    from roarbench.figures import draw_curves
    from roarbench.reading import hold, shown_table

    held = hold(asked, store, db, limit)
    rows = _chosen(held.suite, estimators) or [name for name in held.suite.estimators if not find_estimator(name).twin]
    draw_curves(chart(shown_table(held, protocol, unit, rows), published), output)
    err.print(f"drawn: {output}", soft_wrap=True)


@app.command(epilog="Example: `roarbench claims --suite quick`")
def claims(
    suite: Annotated[
        str, typer.Option("--suite", metavar="NAME", help="Also hold them against our results of this suite.")
    ] = "",
    unit: UnitName = None,
    store: StoreDir = STORE,
    db: Db = "",
    limit: Limit = None,
    format: Annotated[Short, typer.Option("--format")] = Short.TEXT,
) -> None:
    """Hold the paper's claims against its own Table 2 and against ours, by mean accuracies."""
    asked = find_suite(suite) if suite else None
    from roarbench import claims_report
    from roarbench.reading import hold

    held = hold(asked, store, db, limit) if asked else None
    found, gains = claims_report.claim_records(held, unit or Unit.SCALAR), claims_report.gain_records()
    if format is Short.JSON:
        out.print_json(json.dumps({"claims": found, "published_gains": gains}))
    else:
        out.print(f"{claims_report.claims_text(found)}\n{claims_report.gains_text(gains)}", soft_wrap=True)


@app.command(epilog="Example: `roarbench toy -o toy.png`")
def toy(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Draw the figure into this file.")
    ] = None,
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
        err.print(f"drawn: {output}", soft_wrap=True)


@app.command(epilog="Example: `roarbench suites`")
def suites(format: Annotated[Short, typer.Option("--format")] = Short.TEXT) -> None:
    """List the suites with what each costs."""
    from roarbench import reports

    if format is Short.JSON:
        out.print_json(json.dumps(reports.suite_records()))
    else:
        out.print(reports.suite_list(out.width), soft_wrap=True)


@app.command(epilog="Example: `roarbench estimators`")
def estimators(format: Annotated[Short, typer.Option("--format")] = Short.TEXT) -> None:
    """List the estimators and controls."""
    from roarbench import reports

    if format is Short.JSON:
        out.print_json(json.dumps(reports.estimator_records()))
    else:
        out.print(reports.estimator_list())


@app.command(epilog="Example: `roarbench validate my_estimator.py`")
def validate(
    file: Annotated[Path, typer.Argument(help="The submission, one Python file.")],
    explain: Annotated[bool, typer.Option("--explain", help="Show the traceback of a refusal.")] = False,
) -> None:
    """Check a submission in a sandbox, in seconds; show its map and what a suite would take."""
    from roarbench.submission import Refusal, read_submission
    from roarbench.validation import validate as check

    try:
        out.print(check(read_submission(file)).text(), soft_wrap=True)
    except Refusal as refusal:
        if explain and refusal.fault.trace:
            err.print(refusal.fault.trace, soft_wrap=True)
        raise


@app.command(epilog="Example: `roarbench new my-estimator`")
def new(name: Annotated[str, typer.Argument(help="1-40 characters of a-z, 0-9 and -.")]) -> None:
    """Write a submission to start from into this folder."""
    from roarbench.submission import write_template

    path = write_template(name)
    err.print(f"written: {path}; next: roarbench validate {path}", soft_wrap=True)


@app.command(epilog="Example: `roarbench reproduce 1a2b3c4d`")
def reproduce(
    key: Annotated[str, typer.Argument(help="Of one stored run, or its first characters.")],
    store: StoreDir = STORE,
    db: Db = "",
    data: Data = None,
    workers: Workers = None,
) -> None:
    """Do one stored run again from nothing, reference and rankings included, and compare."""
    from roarbench.reading import open_results
    from roarbench.reproduce import reproduce as again
    from roarbench.session import default_workers
    from roarbench.store.entries import Verdict

    with open_results(store, db, read_only=False) as results:
        made = again(results, Workspace(store), key, data, workers or default_workers(), err)
    out.print(made.text(), soft_wrap=True)
    if made.verdict is Verdict.DIFFERENT:
        raise typer.Exit(1)


@app.command("export", epilog="Example: `roarbench export results.parquet`")
def export_(
    file: Annotated[Path, typer.Argument(help="A new Parquet file.")], store: StoreDir = STORE, db: Db = ""
) -> None:
    """Write all results, with the sources of what was submitted, to carry them to another store."""
    from roarbench.reading import open_results
    from roarbench.store.exchange import export_results

    with open_results(store, db) as results:
        count = export_results(results, file)
    err.print(f"written: {file}: {count} results", soft_wrap=True)


@app.command("import", epilog="Example: `roarbench import results.parquet`")
def import_(
    file: Annotated[Path, typer.Argument(help="What `roarbench export` wrote.")], store: StoreDir = STORE, db: Db = ""
) -> None:
    """Add another store's results as self-reported, until `roarbench reproduce KEY` agrees."""
    from roarbench.reading import open_results
    from roarbench.store.exchange import import_results

    with open_results(store, db, read_only=False) as results:
        count = import_results(results, file)
    err.print(f"read: {file}: {len(count)} results are new", soft_wrap=True)


@app.command(epilog="Example: `roarbench doctor`")
def doctor(store: StoreDir = STORE, format: Annotated[Short, typer.Option("--format")] = Short.TEXT) -> None:
    """Look at this machine: processor, memory, disk, libraries, and what to do about each."""
    from roarbench.doctor import examine, findings_table

    found = examine(store)
    if format is Short.JSON:
        out.print_json(json.dumps([finding._asdict() for finding in found]))
    else:
        out.print(findings_table(found))


@app.command(epilog="Example: `roarbench leaderboard --store store` or `roarbench leaderboard --export site`")
def leaderboard(
    store: StoreDir = STORE,
    db: Db = "",
    export: Annotated[Path | None, typer.Option("--export", help="Write static pages into this folder.")] = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Of the app, on this machine alone.")] = 8501,
) -> None:
    """Open the board as an app on 127.0.0.1, or write it as static pages that need no server."""
    from leaderboard.commands import export_site, serve
    from roarbench.store.results import default_url

    url = db or default_url(store)
    if export is None:
        serve(url, store, port)
        return
    pages = export_site(url, store, export)
    err.print(f"{pages} pages: {export / 'index.html'}", soft_wrap=True)


def _print_table(shown: "ShownTable", format: Format) -> None:
    from roarbench import tables

    if format is Format.TEXT:
        out.print(tables.as_text(shown, out.width), crop=False)
    else:
        print(tables.render(shown, format))


def main() -> NoReturn:
    """Run the command line; exit codes 0 done, 1 a run failed, 2 the caller's mistake, 130 and 143 interrupted."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = app(prog_name="roarbench", standalone_mode=False) or 0
        sys.stdout.flush()
    except CallerError as error:
        _complain(str(error))
        code = 2
    except RunError as error:
        _complain(str(error))
        code = 1
    except TyperException as error:
        if seen := " ".join(error.format_message().split()):  # empty where the help was printed instead
            _complain(f"{seen} (roarbench --help)")
        code = 2
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    if code == _INTERRUPTED:
        _complain("interrupted; finished runs are kept, the same command goes on")
    sys.exit(code)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """On SIGTERM: leave by the ordinary way, so that workers end and the store is closed."""
    sys.exit(128 + number)
