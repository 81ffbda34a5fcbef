"""Comparison of two rows by the predictions behind their gains."""

from dataclasses import replace

from roarbench.analysis import own_network_gain_of_suite
from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.own_network_gain_of_suite import KeptPredictions
from roarbench.analysis.row_comparison import compare_rows
from roarbench.common.enums import Unit
from roarbench.plan.protocols import OWN_NETWORK
from roarbench.plan.suite import Block
from tests.helpers.made_up import SUITE, make_suite_results


def test_compare_rows_unpacks_predictions_of_two_rows_only(monkeypatch):
    rows, unpacked = ("random", "grad", "ig", "gb"), []

    def unpack(answers, alike):
        unpacked.append(answers)
        return KeptPredictions(answers, alike)

    blocks = (Block(OWN_NETWORK, rows, (0.3, 0.9), seeds=1),)
    draws = SuiteDraws.of(make_suite_results(replace(SUITE, references=3, blocks=blocks)))
    gains = {row.estimator: row.gain.value for row in draws.make_board(OWN_NETWORK, Unit.SCALAR, rows).rows}
    monkeypatch.setattr(own_network_gain_of_suite, "KeptPredictions", unpack)
    pair = compare_rows(draws, OWN_NETWORK, Unit.SCALAR, "gb", "ig")
    assert abs(pair.gain.value - (gains["gb"] - gains["ig"])) < 1e-12 and len(pair.levels) == 2
    assert len(unpacked) == 2
