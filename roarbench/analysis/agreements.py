"""Do other forms of a protocol put the estimators in the same order: orders, networks, units, fills, data sets?"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from roarbench.analysis.evidence import Drawn, Evidence
from roarbench.stats.agreement import Agreement, agreement
from roarbench.stats.bootstrap import Estimate


class Compared(NamedTuple):
    """The main protocol's order of the estimators against another one.

    Attributes:
        other: What orders them too: `kar`, `morf`, `pixel`, … or the title of another suite.
        found: How alike the orders are; None for fewer than three common rows. Without an interval where nothing says
            how trainings vary.
    """

    other: str
    found: Agreement | None


def agreements(evidence: Evidence, rows: Sequence[str], others: Iterable[Evidence] = ()) -> tuple[Compared, ...]:
    """Compare the main protocol's order of the estimators with the suite's others, and with its own in other suites.

    Rows are in their own forms: a twin is no opinion of its own.
    """
    forms: dict[str, Drawn] = {protocol.name: drawn for protocol, drawn in evidence.other_protocols.items()}
    forms |= {f"unit {unit}": drawn for unit, drawn in evidence.units.items() if unit is not evidence.unit}
    forms |= {f"fill {fill}": drawn for fill, drawn in evidence.fills.items() if drawn is not evidence.main}
    forms |= {other.suite_results.title: other.drawn(evidence.protocol, other.unit) for other in others}
    return tuple(Compared(name, _alike(evidence.main, drawn, rows)) for name, drawn in forms.items())


def _alike(main: Drawn, other: Drawn, rows: Sequence[str]) -> Agreement | None:
    one, two = ({name: drawn.areas[name] for name in rows if name in drawn.areas} for drawn in (main, other))
    found = agreement(one, two, main.confidence)
    if found is None or (main.repeated and other.repeated):
        return found
    return found._replace(tau=Estimate(found.tau.value), settled=None, opposed=None)
