"""One suite in one file, for a paper's supplement: boards, curves, doubts, methods, provenance, BibTeX."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from leaderboard.figure import Figure, figure
from leaderboard.names import human_name
from leaderboard.profile import profile
from leaderboard.records import BoardRecord
from leaderboard.render import TEMPLATES, templates
from leaderboard.text import plain
from leaderboard.views import SuiteView
from roarbench.errors import CallerError
from roarbench.files import write_new
from roarbench.plan.suites import leading
from roarbench.protocols import SHOWN
from roarbench.store.provenance import code_version
from roarbench.text import percent

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 120  # that a browser may take to print


class ReportPart(NamedTuple):
    """One board of a report.

    Attributes:
        title: Name of the protocol.
        board: What is shown.
        methods: What was done, in sentences.
        figures: Each estimator's curve with the controls': its name, and the figure.
    """

    title: str
    board: BoardRecord
    methods: str
    figures: list[tuple[str, Figure]]


def report_html(view: SuiteView) -> str:
    """Return a page that needs no other file: the boards of the leading protocol and of ROAR, and all behind them."""
    protocols = dict.fromkeys((view.leading, *leading(view.results.suite)))
    parts = [_part(view, view.board_of(protocol)) for protocol in protocols]
    rows = [row for part in parts for row in part.board.rows]
    profiles = [profile(name, [view.results]) for name in dict.fromkeys(row.id for row in rows)]
    return (
        templates()
        .get_template("report.html")
        .render(
            title=plain(view.title),
            headline=parts[0].board.headline,
            parts_shown=parts,
            doubts=list(dict.fromkeys((row.name, row.detail, doubt) for row in rows for doubt in row.doubts)),
            origin=list(origin(view)),
            commands=[
                f"roarbench run --suite {view.results.suite.called}",
                f"roarbench report --suite {view.results.suite.called} -o report.html",
            ],
            bibtex="\n\n".join(dict.fromkeys(filter(None, (profile.bibtex for profile in profiles)))),
            style=(TEMPLATES / "board.css").read_text("utf-8"),
            version=code_version(),
        )
    )


def write_report(view: SuiteView, path: Path) -> None:
    """Write a report as HTML or PDF, as the file's name says.

    Raises:
        CallerError: It is there already, is of another kind, or no browser is installed that prints PDF.
    """
    if path.suffix not in (".html", ".pdf"):
        raise CallerError(f"cannot write '{path}': a report is .html or .pdf; write {path.stem or 'report'}.html")
    html = report_html(view)
    if path.suffix == ".html":
        write_new(path, lambda temporary: temporary.write_text(html, "utf-8"))
    else:
        write_new(path, lambda temporary: _print(html, temporary))


def origin(view: SuiteView) -> Iterable[tuple[str, str]]:
    """Yield what computed the runs of a suite: name and value, with numbers of runs where there are several values."""
    counts: dict[str, Counter[str]] = {}
    for result in view.results.results.values():
        known = {"roarbench": plain(result.provenance.code_version, 60), **result.provenance.known}
        for name, value in known.items():
            counts.setdefault(name, Counter())[value] += 1
    for name, values in counts.items():
        several = len(values) > 1
        yield name, ", ".join(f"{value} ({n:,} runs)" if several else value for value, n in values.most_common())


def methods(view: SuiteView, board: BoardRecord) -> str:
    """Return the methods of a board in sentences, with its numbers."""
    results, protocol = view.results, SHOWN[board.protocol]
    suite, data = results.suite, results.suite.dataset_record
    estimators = sum(not row.control for row in board.rows)
    controls = [human_name(row.id).whole for row in board.rows if row.control]
    known = [results.references[number] for number in sorted(results.references)]
    right = ", ".join(f"{percent(one.correct / one.total)} %" for one in known)
    levels = ", ".join(f"{t:g}" for t in board.levels)
    seen = f"; {right} of {known[0].total:,} test images are classified correctly." if known else "."
    sentences = (
        f"{estimators} estimators and {len(controls)} controls were compared by {protocol.gain or protocol.title}",
        f"with roarbench, suite {plain(view.title)}.",
        f"{suite.references} networks ({suite.model}) trained on {data.train_images:,} images of {data.name}",
        f"were explained{seen}",
        f"{protocol.method[0].upper()}{protocol.method[1:]}.",
        f"Unit of features: {board.unit}. Removed features are set to the {suite.fill(protocol)}; levels t = {levels}.",
        f"Controls, which ask no network: {', '.join(controls)}.",
        board.footnote,
    )
    return " ".join(sentences)


def _part(view: SuiteView, board: BoardRecord) -> ReportPart:
    table = view.table(SHOWN[board.protocol], board.unit)
    drawn = [(human_name(row.id).whole, figure(table, row.id)) for row in board.rows if not row.control]
    return ReportPart(
        SHOWN[board.protocol].title, board, methods(view, board), [(name, found) for name, found in drawn if found]
    )


def _print(html: str, path: Path) -> None:
    """Print a page to PDF with the browser of this machine."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise CallerError("a PDF is printed by Chromium, which is missing; apt-get install chromium, or write .html")
    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(html, "utf-8")
        options = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile",
        )
        command = [browser, *options, f"--print-to-pdf={path}", page.as_uri()]
        try:
            subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise CallerError(f"{Path(browser).name} printed no PDF ({type(error).__name__}); write .html") from None
