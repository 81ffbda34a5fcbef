"""Tables of ROAR and of own-network gain made by hand."""

from dataclasses import replace

from roarbench.analysis.row_warnings import Grade, RowWarning
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.report.combined_table import CombinedTable
from roarbench.report.table import SuiteTable
from roarbench.stats.board_records import Board, IntervalScope, Row
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest, OwnNetworkVerdict
from roarbench.stats.verdicts import Comparison, Verdict
from tests.helpers.made_up import DATA, SUITE


def table(protocol, levels, *rows):
    nothing = (Estimate(),) * len(levels)
    rows = tuple(replace(row, accuracies=nothing, differences=nothing) for row in rows)
    board = Board(protocol, levels, rows, 100, Bootstrap(), IntervalScope.REFERENCES, detectable=None)
    doubted = {"sobel": RowWarning(Grade.STRONG, "Its mask alone has it.")}
    return SuiteTable(SuiteResults(SUITE, DATA, None, {}), board, Unit.SCALAR, row_warnings=doubted)


def row(name, gain, **found):
    return Row(name, 3, Estimate(), (), (), Estimate(*gain), None, **found)


def roar(name, gain=(), verdict=None):
    return row(name, gain, against={"random": Comparison(verdict, 0.01, 0.01)} if verdict else {})


def own(name, gain, verdict):
    return row(name, gain, network=OwnNetworkTest(verdict))


def make_table_of_both_gains():
    """`ig` was not retrained for, and `gb` lacks results under ROAR."""
    zero = OwnNetworkVerdict.BY_CONSTRUCTION
    return CombinedTable(
        table(
            ROAR,
            (0.9,),
            roar("random", (0.0, 0.0, 0.0)),
            roar("sobel", (5.0, 4.0, 6.0), Verdict.SAME),
            roar("random-blurred", (10.7, 9.3, 12.2), Verdict.BETTER),
            roar("grad", (-4.5, -5.7, -3.2), Verdict.WORSE),
            roar("gb"),
        ),
        table(
            OWN_NETWORK,
            (0.05, 0.5),
            *(own(name, (0.0,), zero) for name in ("random", "sobel", "random-blurred")),
            own("gb", (-2.0, -3.0, -1.0), OwnNetworkVerdict.OPPOSES),
            own("grad", (3.1, -0.1, 6.3), OwnNetworkVerdict.OPEN),
            own("ig", (1.0, 0.5, 1.5), OwnNetworkVerdict.EXPLAINS),
        ),
    )
