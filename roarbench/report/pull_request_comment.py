"""Comment on a pull request that adds published rows."""

from pathlib import Path
from tempfile import TemporaryDirectory

from roarbench.analysis.load_results import load_from_open_store
from roarbench.common.text import format_markdown_table
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.settings import Settings
from roarbench.report.combined_table import has_combined_table, make_combined_table, present
from roarbench.report.table import make_suite_table
from roarbench.report.table_renderers import render
from roarbench.store.export_and_import import import_results
from roarbench.store.published_folder import find_named_or_exported_suite, read_checked_change
from roarbench.store.results import ResultsStore, make_default_url


def format_pull_request_comment(folder: Path, before: Path | None = None) -> str:
    """Write a Markdown comment on a pull request that changes a folder of results: its new rows and their tables.

    The whole folder is checked. `before` is the folder without the change; the rows of `before` must be unchanged.
    """
    results_by_file, new = read_checked_change(folder, before)
    if not new:
        return "There is no new row, and all published rows are unchanged.\n"
    rows = []
    for file, results in new.items():
        names = sorted({result.run.cell.estimator for result in results} - {CLEAN})
        listed = ", ".join(f"`{name}`" for name in names if "~" not in name)
        rows.append((f"`{file.path}`", f"{len(results):,}", listed, file.about))
    paragraphs = ["### New results", format_markdown_table(("file", "runs", "rows", "about"), rows)]
    for suite in dict.fromkeys(file.versioned_suite for file in new):
        paths = [folder / file.path for file in results_by_file if file.versioned_suite == suite]
        with TemporaryDirectory() as temporary, ResultsStore.open(make_default_url(Path(temporary))) as store:
            for path in paths:
                import_results(store, path)
            spec = find_named_or_exported_suite(suite, paths)
            loaded = load_from_open_store(store, spec, Settings(Path(temporary)))
            both = has_combined_table(spec)
            table = make_combined_table(loaded) if both else make_suite_table(loaded, "", None, None)
            paragraphs += [f"### {suite} with the new results", render(present(table), "markdown", notes=True)]
    paragraphs += ["Imported rows are self-reported until `roarbench reproduce KEY` confirms them.", ""]
    return "\n\n".join(paragraphs)
