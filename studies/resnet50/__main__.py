"""Write the tables of studies/resnet50/README.md from rows of both suites.

    python -m studies.resnet50 ROWS.parquet         # of scripts/gpu_resnet50.py, or a folder of published results

The rows of `benchmark-imagenette64` come from the published results. plan.md has the questions by number.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.suite_judges import judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.text import MISSING, format_markdown_table
from roarbench.plan.protocols import KAR, LERF, MORF, OWN_NETWORK, ROAR, Protocol
from roarbench.plan.suites import find_builtin_suite
from roarbench.stats.board_agreement import compute_agreement
from roarbench.stats.contrasts import Contrast
from roarbench.store.export_and_import import import_results
from roarbench.store.published_folder import list_checked_result_files
from roarbench.store.results import ResultsStore, make_default_url
from studies.page import format_agreement, make_parser, write_tables
from studies.paper.agreement import judge_carry_over, judge_contradiction
from studies.paper.cells import format_judged_gain, format_own_network_gain, make_gain_table
from studies.paper.published import RESULTS, find_measured_rows, measure_own_network_gains

SMALL, LARGE = "benchmark-imagenette64", "imagenette128-resnet50"
SHARED_LEVELS = {ROAR: (0.9,), KAR: (0.9,), OWN_NETWORK: (0.05, 0.5), MORF: (0.1, 0.5), LERF: (0.1, 0.5)}
HALF = (0.5,)  # second level of ROAR


def keep_shared(results: SuiteResults, levels: Mapping[Protocol, tuple[float, ...]] = SHARED_LEVELS) -> SuiteResults:
    """Return a suite's results with the rows and the levels that both suites have."""
    rows = find_builtin_suite(LARGE).estimators
    blocks = tuple(
        replace(block, estimators=tuple(name for name in block.estimators if name in rows))
        for block in results.suite.blocks
        if block.protocol in levels
    )
    included = {(protocol, Unit.SCALAR): chosen for protocol, chosen in levels.items()}
    suite = replace(results.suite, blocks=tuple(block for block in blocks if block.estimators))
    return replace(results, suite=suite, included_levels=included)


def measure_gains(results: SuiteResults, protocol: Protocol) -> Mapping[str, Contrast]:
    """Measure the gains of all rows other than Random, controls too; own-network gains of rows with several maps."""
    if protocol is OWN_NETWORK:
        return measure_own_network_gains(results)
    gains = judge_suite(results).judge(protocol, Unit.SCALAR).gains
    return {name: gain for name, gain in gains.items() if name != "random"}  # all other rows are compared with it


def make_order_table(small: SuiteResults, large: SuiteResults) -> str:
    """Make the table of questions 1, 4 and 5: agreement of orders between both suites, and of KAR and ROAR."""
    halves = {ROAR: HALF}
    pairs = [
        ("1. ROAR at .9", small, ROAR, large, ROAR),
        ("1. ROAR at .5", keep_shared(small, halves), ROAR, keep_shared(large, halves), ROAR),
        ("own-network gain", small, OWN_NETWORK, large, OWN_NETWORK),
        ("4. KAR and ROAR at .9, this suite", large, KAR, large, ROAR),
        ("5. MoRF", small, MORF, large, MORF),
        ("5. LeRF", small, LERF, large, LERF),
    ]
    lines = []
    for name, first, one, second, other in pairs:
        found = compute_agreement(measure_gains(first, one), measure_gains(second, other))
        judged = judge_contradiction if first is second else judge_carry_over
        cells = (str(found.rows), *format_agreement(found), judged(found.tau)) if found else (MISSING,) * 4
        lines.append([name, *cells])
    return format_markdown_table(("orders", "rows", "Kendall's tau [95 %]", "settled pairs", "verdict"), lines)


def make_tables(small: SuiteResults, large: SuiteResults) -> dict[str, str]:
    """Make all tables of the page from the results of both suites."""
    judges = {name: judge_suite(results) for name, results in (("64 px", small), ("ResNet-50", large))}
    tables = {"orders": make_order_table(small, large)}
    for name, protocol in (("roar", ROAR), ("kar", KAR), ("own-network", OWN_NETWORK)):
        by_set = {suite: find_measured_rows(judge, protocol) for suite, judge in judges.items()}
        form = format_own_network_gain if protocol is OWN_NETWORK else format_judged_gain
        tables[name] = make_gain_table(by_set, form)
    return tables


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("rows", type=Path)
    rows = parser.parse_args().rows
    with TemporaryDirectory() as folder, ResultsStore.open(make_default_url(Path(folder))) as store:
        published = [file for file in list_checked_result_files(str(RESULTS)) if SMALL in str(file)]
        for file in (*published, *list_checked_result_files(str(rows))):
            import_results(store, file)
        small, large = (keep_shared(collect_results(find_builtin_suite(name), store)) for name in (SMALL, LARGE))
        write_tables(Path(__file__).with_name("README.md"), make_tables(small, large))


if __name__ == "__main__":
    main()
