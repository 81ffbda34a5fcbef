"""A board straight from correctness bits, for tests of its statistics."""

from collections.abc import Collection

from roarbench.plan.protocols import Protocol
from roarbench.stats.board_records import Board
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import Correctness
from roarbench.stats.gains import select_variance_components
from roarbench.stats.variance_components import VarianceComponents, estimate_variance_components


def compute_board(
    scores: Correctness,
    protocol: Protocol,
    variances: VarianceComponents | None = None,
    shown_rows: Collection[str] | None = None,
) -> Board:
    """Judge all estimators of one protocol; `variances` are estimated from `scores` by default."""
    variances = variances or estimate_variance_components([scores.differences or scores])
    return Judge.from_scores(scores, protocol, select_variance_components(protocol, variances)).make_board(shown_rows)
