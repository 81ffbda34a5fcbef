"""Check each estimator for known criticisms of ROAR, from stored correctness.

For a suite without ROAR, the panel checks the headline protocol. docs/validity.md explains the numbers and marks.
Missing results are None, never 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.suite_results import SuiteResults
from roarbench.estimators.catalogue import TWINS
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import KAR, LERF, MORF, ROAR
from roarbench.stats.board_agreement import Agreement, compute_agreement
from roarbench.stats.board_records import RANDOM
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate
from roarbench.stats.sampled_gains import SampledGains

KINDS = (*TWINS, "redrawn")  # `redrawn` belongs to Random alone


class TwinResult(NamedTuple):
    """Result of one sanity check: the twin's gain, and the paired difference (estimator minus twin), in points."""

    gain: Estimate
    difference: Estimate


@dataclass(frozen=True)
class ValidityPanel:
    """The rows of a suite with their sanity checks."""

    suite_draws: SuiteDraws  # the panel checks gains and order under its main protocol and unit
    names: tuple[str, ...]  # estimators and controls without twins, in the suite's order
    # agreement of the protocol's order with other orders of these rows, by their source: `kar`, `morf`, `unit pixel`, …
    # or the title of another suite. None for fewer than three common rows; no interval if the training noise is unknown
    agreements: dict[str, Agreement | None]


def can_check_validity(suite_results: SuiteResults) -> bool:
    """Return whether there are results for the panel's checks: results of ROAR, or of both MoRF and LeRF."""
    return suite_results.has_started(ROAR) or (suite_results.has_started(MORF) and suite_results.has_started(LERF))


def compute_validity_panel(
    suite_results: SuiteResults, bootstrap: Bootstrap | None = None, other_results: Iterable[SuiteResults] = ()
) -> ValidityPanel:
    """Build the validity panel of a suite, and compare its order of estimators with the orders of other suites."""
    draws, names = SuiteDraws.of(suite_results, bootstrap), suite_results.suite.estimators_with_own_row
    beside = [SuiteDraws.of(other, draws.bootstrap) for other in other_results]
    return ValidityPanel(draws, names, compare_row_orders(draws, names, beside))


def compare_with_twins(draws: SuiteDraws, name: str) -> dict[str, TwinResult]:
    """Return the results of a row's twins in the suite, by kind of twin (one of `KINDS`)."""
    main, twins = draws.main_gains, {}
    own = main.areas.get(name)
    for kind in KINDS:
        twin = f"random-{kind}" if name == RANDOM else make_twin_id(name, kind)
        if twin in main.scores.estimators:
            gain = main.areas.get(twin)
            twins[kind] = TwinResult(main.estimate(gain), main.estimate(own.subtract(gain) if gain and own else None))
    return twins


def compare_row_orders(
    draws: SuiteDraws, rows: Sequence[str], other_draws: Iterable[SuiteDraws]
) -> dict[str, Agreement | None]:
    """Compare the main protocol's order of rows with the orders under other protocols, units, fills and suites."""
    blocks = [block for block in draws.suite_results.suite.blocks if block.unit is draws.unit]
    in_suite = {block.protocol for block in blocks} - {draws.main_protocol}
    protocols = [protocol for protocol in (KAR, MORF, LERF) if protocol in in_suite]
    forms: dict[str, SampledGains] = {each.name: draws.draw_gains(each, draws.unit) for each in protocols}
    forms |= {f"unit {unit}": drawn for unit, drawn in draws.draws_by_unit.items() if unit is not draws.unit}
    forms |= {f"fill {fill}": drawn for fill, drawn in draws.draws_by_fill.items() if drawn is not draws.main_gains}
    forms |= {other.suite_results.title: other.draw_gains(draws.main_protocol, other.unit) for other in other_draws}
    return {name: _compare_orders_of_rows(draws.main_gains, drawn, rows) for name, drawn in forms.items()}


def _compare_orders_of_rows(main: SampledGains, other: SampledGains, rows: Sequence[str]) -> Agreement | None:
    one, two = ({name: drawn.areas[name] for name in rows if name in drawn.areas} for drawn in (main, other))
    agreement = compute_agreement(one, two, main.bootstrap.confidence)
    if agreement is None or (main.has_intervals and other.has_intervals):
        return agreement
    return agreement._replace(tau=Estimate(agreement.tau.value), settled=None, opposed=None)
