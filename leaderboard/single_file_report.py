"""Write a suite's report for a paper's supplement to one file: boards, curves, doubts, methods, provenance, BibTeX."""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from leaderboard.curves_and_preview_pictures import make_estimator_curves
from leaderboard.render import TEMPLATES, load_templates
from leaderboard.text_helpers import shorten_line
from leaderboard.views import SuiteView
from roarbench.common.errors import CallerError
from roarbench.common.files import write_new_file
from roarbench.plan.suites import make_suite_option_value
from roarbench.report.estimator_papers_and_settings import collect_papers_and_settings
from roarbench.report.table_notes import describe_methods, list_provenance
from roarbench.store.software_and_hardware import read_code_version

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PRINT = ("--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer")
_SECONDS = 120  # maximum seconds that a browser may take to print


def render_report(view: SuiteView) -> str:
    """Render a page without other files: the boards of the headline protocol and of ROAR, with details."""
    rows = [row for board in view.headline_boards for row in board.rows]
    profiles = [collect_papers_and_settings(name, [view.results]) for name in dict.fromkeys(row.id for row in rows)]
    return (load_templates().get_template("report.html")).render(
        title=shorten_line(view.title),
        headline=view.paired_board.headline if view.paired_board else view.board.headline,
        to=lambda *page, **choices: "",
        boards=[(board, view.table(board.protocol)) for board in view.headline_boards],
        figure=make_estimator_curves,
        methods=describe_methods,
        doubts=list(dict.fromkeys((row.name, row.detail, doubt) for row in rows for doubt in row.doubts)),
        origin=list(list_provenance(view.results)),
        called=make_suite_option_value(view.results.suite),
        bibtex="\n\n".join(dict.fromkeys(profile.bibtex for profile in profiles if profile.bibtex)),
        style=(TEMPLATES / "board.css").read_text("utf-8"),
        version=read_code_version(),
    )


def write_report(view: SuiteView, path: Path) -> None:
    """Write a report as HTML or PDF, according to the file's ending.

    Raises:
        CallerError: The file exists or has another ending, or no browser that prints PDF is installed.
    """
    if path.suffix not in (".html", ".pdf"):
        raise CallerError(f"cannot write '{path}': a report is .html or .pdf; write {path.stem or 'report'}.html")
    html = render_report(view)
    if path.suffix == ".html":
        write_new_file(path, lambda temporary: temporary.write_text(html, "utf-8"))
    else:
        write_new_file(path, lambda temporary: _print_pdf(html, temporary))


def _print_pdf(html: str, path: Path) -> None:
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise CallerError("a PDF is printed by Chromium, which is missing; apt-get install chromium, or write .html")
    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(html, "utf-8")
        command = [browser, *_PRINT, f"--user-data-dir={folder}/profile", f"--print-to-pdf={path}", page.as_uri()]
        try:
            subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise CallerError(f"{Path(browser).name} printed no PDF ({type(error).__name__}); write .html") from None
