"""Levels that a board compares if a protocol was run only in part."""

from dataclasses import replace

import pytest

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.shared_levels import keep_most_shared_levels
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.plan.protocols import DIFFROAR, KAR, MASK_ONLY, OWN_NETWORK, ROAR
from roarbench.plan.suite import Block
from roarbench.report.table import make_table
from tests.helpers.made_up_results import SUITE, make_suite_results
from tests.helpers.store_rows import keep_rows

ROWS, LEVELS = ("random", "sobel", "grad", "var-grad", "ig"), (0.3, 0.5, 0.9)
BLOCKS = tuple(Block(protocol, ROWS, LEVELS, seeds=3) for protocol in (ROAR, KAR))
WHOLE = replace(SUITE, blocks=(*BLOCKS, Block(MASK_ONLY, ROWS, (0.9,), seeds=1)))


def keep(lacks):
    """Keep the common levels of results without the points where `lacks(estimator, level)` is true."""
    there = keep_rows(make_suite_results(WHOLE), lambda at: not (at.cell.t and lacks(at.cell.estimator, at.cell.t)))
    return keep_most_shared_levels(there)


@pytest.mark.parametrize(
    "lacks, levels, rows",
    [
        (lambda name, t: False, LEVELS, 5),
        (lambda name, t: t != 0.9, (0.9,), 5),
        (lambda name, t: t != 0.9 and name != "sobel", (0.9,), 5),  # a control alone has all levels
        (lambda name, t: t == 0.3 or (t, name) == (0.5, "ig"), (0.9,), 5),  # two rows have two levels, three have one
        (lambda name, t: (t, name) in ((0.3, "grad"), (0.5, "var-grad"), (0.5, "ig")), (0.9,), 5),  # no row's own set
        (lambda name, t: t == 0.3 or (t, name) == (0.9, "ig"), (0.5,), 5),
        (lambda name, t: t == 0.3, (0.5, 0.9), 5),  # with equal numbers of rows, the larger set of levels
        (lambda name, t: t == 0.3 and name == "random", (0.5, 0.9), 5),  # no gain exists at this level
        (lambda name, t: name not in ("random", "grad") and t != 0.9, LEVELS, 2),  # one estimator has all levels
        (lambda name, t: True, LEVELS, 0),
    ],
)
def test_board_compares_levels_shared_by_most_estimators(lacks, levels, rows):
    board = SuiteDraws.of(keep(lacks)).make_board(ROAR, Unit.SCALAR, ROWS)
    assert board.levels == levels
    assert sum(row.gain.value is not None for row in board.rows) == rows


def test_board_of_one_level_equals_board_of_one_level_suite():
    """The statistics are those of a complete board: gains, intervals, verdicts and the adjustment."""
    part = keep(lambda name, t: t != 0.9 or name == "var-grad")
    alone = replace(WHOLE, blocks=tuple(replace(block, levels=(0.9,)) for block in WHOLE.blocks))
    there = keep_rows(make_suite_results(alone), lambda point: point in part.results)
    expected = SuiteDraws.of(there).make_board(ROAR, Unit.SCALAR, ROWS)
    assert SuiteDraws.of(part).make_board(ROAR, Unit.SCALAR, ROWS) == expected
    assert {row.estimator for row in expected.rows if row.gain.value is None} == {"var-grad"}


def test_table_caption_names_excluded_levels():
    part = keep(lambda name, t: t == 0.5)
    for protocol, text in ((ROAR, "at 30 % and 90 %"), (DIFFROAR, "at 30 % and 90 %"), (MASK_ONLY, "")):
        table = make_table(SuiteDraws.of(part), protocol, ROWS)
        assert table.included_levels_text == text
        assert ("levels 0.3, 0.9, without 0.5 of the suite;" in table.caption) is bool(text)


def test_own_network_gain_excludes_level_with_missing_run():
    suite = replace(SUITE, references=3, blocks=(Block(OWN_NETWORK, ("random", "grad", "ig"), LEVELS, seeds=1),))
    whole = make_suite_results(suite)
    cells = [at for at in whole.results if at.cell.retrain is ScoredNetwork.SIBLINGS]
    one_run = next(at for at in cells if (at.cell.estimator, at.cell.t) == ("ig", 0.5))
    lacking = {at for at in cells if at.cell.t == 0.9 or at == one_run}
    part = keep_most_shared_levels(keep_rows(whole, lambda point: point not in lacking))
    assert keep_most_shared_levels(whole).included_levels == {}
    assert part.list_included_levels(OWN_NETWORK, Unit.SCALAR) == (0.3,), "ig lacks one of nine runs at .5"
    board = SuiteDraws.of(part).make_board(OWN_NETWORK, Unit.SCALAR, ("grad", "ig"))
    assert board.levels == (0.3,) and all(row.gain.value is not None for row in board.rows)
