"""What the board says of the probability of the predicted class, where nothing is retrained."""

from dataclasses import dataclass
from typing import Any

from leaderboard.source import main_rows, slug, units
from leaderboard.words import plain
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.probability_drop import falls
from roarbench.stats.bootstrap import Estimate
from roarbench.terms import LERF, MORF, Order, Protocol, Unit

UNRETRAINED = (MORF, LERF)


@dataclass(frozen=True)
class FallTable:
    """One protocol's table.

    Attributes:
        stem: For the names of its files.
        title: Of what it is.
        about: What its columns mean.
        records: Its rows, the estimators that do best first; missing is None.
    """

    stem: str
    title: str
    about: str
    records: list[dict[str, Any]]

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The rows as text, with as many digits for each number."""
        return [{k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()} for row in self.records]


def fall_tables(held: SuiteResults) -> list[FallTable]:
    """The tables of all protocols and units of a suite that have any."""
    asked = [(protocol, unit) for protocol in UNRETRAINED for unit in units(held, protocol)]
    found = [fall_table(held, protocol, unit) for protocol, unit in asked]
    return [table for table in found if table.records]


def fall_table(held: SuiteResults, protocol: Protocol, unit: Unit) -> FallTable:
    """The table of one protocol without retraining."""
    blocks = [block for block in held.suite.blocks if (block.protocol, block.unit) == (protocol, unit)]
    levels = sorted({t for block in blocks for t in block.levels})
    found, rows = falls(held, protocol, unit, levels), main_rows(held)
    records = []
    for name in sorted((name for name in found if name in rows), key=lambda name: _best(found[name].aopc, protocol)):
        fall, (value, low, high) = found[name], found[name].aopc
        record = {"estimator": plain(name), "AOPC": value, "AOPC low": low, "AOPC high": high}
        record |= {"p at t = 0": fall.untouched.value}
        record |= {f"p at t = {t:g}": each.value for t, each in zip(levels, fall.probabilities, strict=True)}
        record |= {f"change at t = {t:g}": each.value for t, each in zip(levels, fall.changes, strict=True)}
        records.append(record)
    title = f"Probability of the predicted class: {protocol.name.upper()}, unit {unit}"
    return FallTable(f"probability-{slug(held)}-{protocol.name}-{unit}", title, _about(protocol), records)


def _best(aopc: Estimate, protocol: Protocol) -> float:
    if aopc.value is None:
        return float("inf")
    return -aopc.value if protocol.order is Order.MORF else aopc.value


def _about(protocol: Protocol) -> str:
    better = "more" if protocol.order is Order.MORF else "less"
    return (
        "p is the mean softmax probability that the reference, as it is, gives the class that it predicts on the "
        "untouched image. AOPC is the mean of p at t = 0 minus p over the levels, with a 95% interval over test "
        f"images, change the mean of |p at t = 0 - p| / p at t = 0. Under {protocol.name.upper()} the better "
        f"estimator makes it fall {better}."
    )
