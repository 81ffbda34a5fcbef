"""How the numbers of a table were made, in sentences for a paper's supplement."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from roarbench.analysis.boards import SuiteResults
from roarbench.estimators.naming import human_name, lookup_estimator
from roarbench.report.table import SuiteTable
from roarbench.report.table_notes import remarks
from roarbench.text import capital, one_line, percent


def origin(results: SuiteResults) -> Iterable[tuple[str, str]]:
    """Yield what computed the runs of a suite: name and value, with numbers of runs where there are several values."""
    counts = defaultdict[str, Counter[str]](Counter)
    for result in results.results.values():
        known = {"roarbench": one_line(result.provenance.code_version, 60), **result.provenance.known}
        for name, value in known.items():
            counts[name][value] += 1
    for name, values in counts.items():
        several = len(values) > 1
        yield name, ", ".join(f"{value} ({n:,} runs)" if several else value for value, n in values.most_common())


def methods(table: SuiteTable) -> str:
    """Return the methods of a board in sentences, with its numbers."""
    results, protocol = table.suite_results, table.board.protocol
    suite, data = results.suite, results.suite.dataset_record
    controls = [human_name(row.estimator).whole for row in table.rows if lookup_estimator(row.estimator).control]
    known = [results.references[number] for number in sorted(results.references)]
    right = ", ".join(f"{percent(one.correct / one.total)} %" for one in known)
    seen = f"; {right} of {known[0].total:,} test images are classified correctly" if known else ""
    return (
        f"{len(table.rows) - len(controls)} estimators and {len(controls)} controls were compared by "
        f"{protocol.gain or protocol.title} with roarbench, suite {one_line(results.title, 300)}. {suite.references} "
        f"networks ({suite.model}) trained on {data.train_images:,} images of {data.name} were explained{seen}. "
        f"{capital(protocol.method)}. Unit of features: {table.unit}. Removed features are set "
        f"to the {table.fill}; levels t = {', '.join(f'{t:g}' for t in table.board.levels)}. "
        f"Controls, which ask no network: {', '.join(controls)}. {table.caption}. {remarks(table, signs=False)}"
    )
