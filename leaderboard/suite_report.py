"""Write a suite's report for a paper's supplement to one file: boards, curves, doubts, methods, provenance, BibTeX."""

import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from leaderboard.figures import make_estimator_curves
from leaderboard.page.about import write_bibtex
from leaderboard.render import TEMPLATES, load_templates
from leaderboard.suite_view import SuiteView
from roarbench.analysis.result_versions import shorten_weights_checksum
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import CallerError
from roarbench.common.files import write_file_refusing_existing
from roarbench.common.text import capitalize, fit_on_one_line, format_count, format_percent_number
from roarbench.estimators.catalogue import find_display_name, find_estimator_or_placeholder, find_search
from roarbench.estimators.estimator import find_paper
from roarbench.report.descriptions_and_repeat_commands import collect_papers_and_settings, list_report_commands
from roarbench.report.table import SuiteTable
from roarbench.report.table_notes import write_all_notes
from roarbench.store.run_result import read_code_version

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PRINT_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer")
_COMMAND_WIDTH = 90  # characters that fit on a line of paper; a longer command is continued before each option
_TIMEOUT = 120  # maximum seconds that a browser may take to print


def render_report(view: SuiteView) -> str:
    """Render the report as HTML that needs no other file, with the boards of the headline protocols."""
    rows = [row for board in view.headline_boards for row in board.rows]
    run = dict.fromkeys(row.id for row in rows if row.started)
    about = {name: collect_papers_and_settings(name, [view.results]) for name in run}
    papers = (entry for each in about.values() for entry in each.bibtex)
    settings = [(find_display_name(name).full_name, each) for name, each in about.items() if each.settings or each.code]
    values_by_fact = defaultdict[str, Counter[str]](Counter)
    for result in view.results.results.values():
        code = fit_on_one_line(result.provenance.code_version, 60)
        for fact, value in {"roarbench": code, **result.provenance.known_values}.items():
            values_by_fact[fact][value] += 1
    provenance = [
        (fact, ", ".join(f"{value} ({n:,} runs)" if len(counts) > 1 else value for value, n in counts.most_common()))
        for fact, counts in values_by_fact.items()
    ]
    template = load_templates().get_template("report.html")
    return template.render(
        title=view.title,
        headline=view.combined_board.headline if view.combined_board else view.board.headline,
        to=lambda *page, **choices: "",
        boards=[(board, view.table(board.protocol)) for board in view.headline_boards],
        figure=make_estimator_curves,
        networks=describe_accuracies_of_explained_networks(view.results),
        methods=describe_methods,
        doubts=list(dict.fromkeys((row.name, row.detail, doubt) for row in rows for doubt in row.doubts)),
        provenance=provenance,
        commands=[
            command if len(command) <= _COMMAND_WIDTH else command.replace(" --", " \\\n    --")
            for command in list_report_commands(view.results)
        ],
        settings=settings,
        bibtex="\n\n".join(dict.fromkeys((write_bibtex(view), find_paper("hooker2019benchmark").bibtex, *papers))),
        style=(TEMPLATES / "board.css").read_text("utf-8"),
        version=read_code_version(),
    )


def describe_methods(table: SuiteTable) -> str:
    """Describe in sentences how a table was computed, with its numbers, for a paper's section on methods."""
    results, protocol = table.suite_results, table.board.protocol
    compared = [name for name in table.names if name in table.estimators_with_results]
    rows = {name: find_estimator_or_placeholder(name) for name in compared}
    controls = [find_display_name(name).full_name for name, row in rows.items() if row.is_control_to_beat]
    truths = [find_display_name(name).full_name for name, row in rows.items() if row.uses_ground_truth]
    searches = [find_display_name(name).full_name for name in compared if find_search(name)]
    number = len(controls) + len(searches)
    estimators = format_count(len(compared) - number - len(truths), "estimator")
    controls_text = f"Controls: {', '.join(controls)}; they {table.control_network_use_text}. " if controls else ""
    controls_text += f"Blind searches, the controls of own-network gain: {', '.join(searches)}. " if searches else ""
    controls_text += f"Known rankings, compared with them, too: {', '.join(truths)}. " if truths else ""
    networks, suite, count = "", results.suite, table.board.references
    if count:
        data = suite.dataset_record
        origin = f"trained on {min(results.limit or data.train_images, data.train_images):,} images of {data.name}"
        if suite.given:
            origin = f"with given weights ({', '.join(map(shorten_weights_checksum, suite.given.split(',')[:count]))})"
        verb = "was" if count == 1 else "were"
        networks = f"{format_count(count, 'network')} ({suite.architecture_names}) {origin} {verb} explained. "
    return (
        f"{estimators} and {format_count(number, 'control')} were compared by "
        f"{protocol.gain_name or protocol.title} with roarbench, suite {fit_on_one_line(results.title, 300)}. "
        f"{networks}{capitalize(protocol.method)}. {controls_text}{table.describe_measurement()}. "
        f"{write_all_notes(table, signs=False)}"
    )


def describe_accuracies_of_explained_networks(results: SuiteResults) -> str:
    """Return a sentence on the accuracies of the networks that were scored; empty if there are none."""
    scored = [results.references[number] for number in sorted(results.references)]
    if not scored:
        return ""
    shares = ", ".join(f"{format_percent_number(network.correct / network.total)} %" for network in scored)
    names = "Explained network" if len(scored) == 1 else f"{len(scored)} explained networks"
    doubt = f" ({results.reference_doubt} of {results.chance_text})" if results.reference_doubt else ""
    return f"{names}: {shares} of {scored[0].total:,} test images are classified correctly{doubt}."


def write_report(view: SuiteView, path: Path) -> None:
    """Write a report as HTML or PDF, according to the file's ending.

    Raises:
        CallerError: The file exists or has another ending, or no browser that prints PDF is installed.
    """
    if path.suffix not in (".html", ".pdf"):
        raise CallerError(f"cannot write '{path}': a report is .html or .pdf; write {path.stem or 'report'}.html")
    html = render_report(view)
    if path.suffix == ".html":
        write_file_refusing_existing(path, lambda temporary: temporary.write_text(html, "utf-8"))
    else:
        write_file_refusing_existing(path, lambda temporary: _print_pdf(html, temporary))


def _print_pdf(html: str, path: Path) -> None:
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise CallerError("a PDF is printed by Chromium, which is missing; apt-get install chromium, or write .html")
    with TemporaryDirectory() as folder:
        page, printed = Path(folder) / "report.html", Path(folder) / "report.pdf"
        page.write_text(html, "utf-8")
        options = (*_PRINT_OPTIONS, f"--user-data-dir={folder}/profile", f"--print-to-pdf={printed}")
        try:
            subprocess.run([browser, *options, page.as_uri()], capture_output=True, timeout=_TIMEOUT, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise CallerError(f"{Path(browser).name} printed no PDF ({type(error).__name__}); write .html") from None
        shutil.copyfile(printed, path)  # a browser is silent about a full disk
