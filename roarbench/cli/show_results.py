"""Commands that show the results in a store as tables, figures, reports and the board."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from roarbench.cli.options import (
    STORE,
    BoardOptions,
    Db,
    ReportFormat,
    ResultsOptions,
    StoreDir,
    SuiteName,
    TableFormat,
    declare_argument,
    declare_option,
)
from roarbench.cli.terminal import (
    append_proposed_command,
    describe_other_results,
    err,
    out,
    print_other_results,
    print_report,
    print_table,
    propose_command,
)
from roarbench.common.errors import CallerError, Hint
from roarbench.common.text import format_count, format_interval, wrap_lines
from roarbench.plan.protocols import OWN_NETWORK, ROAR, SHOWN

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults
    from roarbench.api.gain_tables import Difference


def table(
    *,
    suite: SuiteName,
    board: BoardOptions,
    source: ResultsOptions,
    notes: Annotated[bool, declare_option("Print all notes below the table.")] = False,
    format: TableFormat = "text",
) -> None:
    """Rank the estimators and compare them with the controls."""
    result = source.load(suite, board).read_result_or_empty()
    from roarbench.report.status import format_failures

    shown = result.table(board.protocol)
    if format not in ("json", "csv") and not result.failures:
        _require_rows(result.stored, "table")
    print_table(shown, format, notes)
    names = set(shown.names)
    for line in format_failures(failure for failure in result.failures if failure["estimator"] in names):
        (out if format == "text" else err).print(append_proposed_command(line), soft_wrap=True)
    print_other_results(result.stored, "table")


def compare(
    first: Annotated[str, declare_argument("A row of the suite, by its name in `table`.", "A")],
    second: Annotated[str, declare_argument("The row to compare A with.", "B")],
    *,
    suite: SuiteName,
    protocol: Annotated[str, declare_option("Compare under this protocol.", "NAME", "the table's protocols")] = "",
    source: ResultsOptions,
    format: ReportFormat = "text",
) -> None:
    """Compare two rows of a suite by the paired test that its tables use."""
    result = source.load(suite).read_result_or_empty()
    _require_rows(result.stored, "compare", first, second)
    from roarbench.api.gain_tables import TwoDifferences

    compared = result.compare(first, second, protocol)
    parts: dict[str, Any]
    if isinstance(compared, TwoDifferences):
        parts = {name: one and _make_difference_record(one) for name, one in compared._asdict().items()}
        shown = [difference for difference in compared if difference]
    else:
        parts, shown = _make_difference_record(compared), [compared]
    if not shown:
        raise CallerError(f"no protocol of {result.stored.title} measures both {first} and {second}")
    text = "\n".join(_format_difference(result.stored.title, difference) for difference in shown)
    print_report(format, {"suite": result.stored.title, **parts}, lambda _: text)


def _make_difference_record(difference: "Difference") -> dict[str, Any]:
    values = difference._asdict()
    names = values.pop("names")
    gains, beside_zero = (dict(zip(names, values.pop(name), strict=True)) for name in ("gains", "beside_zero"))
    board = {"protocol": values.pop("protocol"), "unit": values.pop("unit")}
    own = {"beside_zero": beside_zero} if any(beside_zero.values()) else {}
    return {**board, "gains": {name: gain._asdict() for name, gain in gains.items()}, **own, "difference": values}


def _format_difference(title: str, difference: "Difference") -> str:
    from roarbench.analysis.incomplete_results import write_unfinished_line

    rows = zip(difference.names, difference.gains, difference.beside_zero, strict=True)
    lines = [f"{name}: gain {format_interval(gain)}{f', {verdict}' if verdict else ''}" for name, gain, verdict in rows]
    lines.append(str(difference))
    if difference.planned:
        lines.append(
            "This is one planned comparison: p is not adjusted. The table's place intervals hold for all pairs at once."
        )
    lines += filter(None, [write_unfinished_line(difference.unfinished, "the verdict", sign=False)])
    return "\n  ".join([f"{title}: {SHOWN[difference.protocol].title}", *lines])


def diagnose(*, suite: SuiteName, source: ResultsOptions) -> None:
    """Check each row for known criticisms of ROAR: masks that reveal the class, equal twins, contradictory ranks."""
    suite_results = source.load(suite).read_result_or_empty().stored
    _require_rows(suite_results, "diagnose")
    from roarbench.analysis.suite_judges import judge_suite
    from roarbench.report.validity_panel import format_text

    out.print(format_text(judge_suite(suite_results), out.width), crop=False)
    print_other_results(suite_results, "diagnose")


def plot(
    *,
    suite: SuiteName,
    output: Annotated[Path, declare_option("Write a PNG, SVG or PDF, by file ending.", "FILE", flags="-o --output")],
    board: BoardOptions,
    published: Annotated[str, declare_option("Add the paper's curves: imagenet, food101 or birdsnap.", "NAME")] = "",
    source: ResultsOptions,
) -> None:
    """Draw accuracy against the fraction removed; each base estimator has a panel, which also shows the controls.

    To draw twins and other checks, list them in --estimators.
    """
    from roarbench.report.curve_panels import check_picture_path

    loaded = source.load(suite, board)
    check_picture_path(output)
    result = loaded.read_result_or_empty()
    _require_rows(result.stored, "plot")
    result.plot(output, board.protocol, published=published)
    err.print(f"drawn: {output}", soft_wrap=True)
    print_other_results(result.stored, "plot")


_Tested = Annotated[str, declare_option("Also test the claims on the results of this suite.", "NAME|FILE")]


def claims(*, suite: _Tested = "", source: ResultsOptions) -> None:
    """Test the paper's claims on the paper's table 2 and, with --suite, on your results."""
    loaded = source.load(suite) if suite else None
    from roarbench.report.paper_claims import format_claims

    if loaded and not any(block.protocol in (ROAR, OWN_NETWORK) for block in loaded.plan.blocks):
        command = propose_command("claims", reused=())
        seen = f"the claims are tested on ROAR or own-network gain, and suite '{loaded.name}' has neither"
        raise CallerError(f"{seen}; `{command}` tests them on the paper's results")
    suite_results = loaded.read_result_or_empty().stored if loaded else None
    if suite_results:
        _require_rows(suite_results, "claims")
    out.print(wrap_lines(format_claims(suite_results), out.width), soft_wrap=True)
    if suite_results:
        print_other_results(suite_results, "claims")


def report(
    *,
    suite: SuiteName,
    out_file: Annotated[Path, declare_option("New file, .html or .pdf.", "FILE", flags="-o --output")],
    source: ResultsOptions,
) -> None:
    """Write a supplement for a paper (HTML or PDF): tables, curves, warnings, methods, provenance and BibTeX."""
    from leaderboard.suite_report import write_report
    from leaderboard.suite_view import SuiteView

    suite_results = source.load(suite).read_result_or_empty().stored
    _require_rows(suite_results, "report")
    write_report(SuiteView(suite_results, source.store), out_file)
    err.print(f"written: {out_file}", soft_wrap=True)


def leaderboard(
    store: StoreDir = STORE,
    db: Db = "",
    export: Annotated[Path | None, declare_option("Write static pages into this folder.", "DIR")] = None,
    port: Annotated[int, declare_option("Port of the app on 127.0.0.1.", "N", most=65535)] = 8501,
) -> None:
    """Open the board as a local app, or export it as static pages."""
    from leaderboard.serve_and_export import export_site, serve_app
    from roarbench.store.workspace import make_default_url

    url = db or make_default_url(store)
    if export is None:
        serve_app(url, store, port)
        return
    pages = export_site(url, store, export)
    err.print(f"{format_count(pages, 'page')}: {export / 'index.html'}", soft_wrap=True)


def _require_rows(suite_results: "SuiteResults", command: str, *words: str) -> None:
    """Raise CallerError for a store without rows of a suite; name its other results or the command to run."""
    if suite_results.has_rows:
        return
    if other_results := describe_other_results(suite_results, command, *words):
        raise CallerError(other_results)
    raise CallerError(f"this store has no results of {suite_results.title}", Hint("; `{}` computes them", "run"))
