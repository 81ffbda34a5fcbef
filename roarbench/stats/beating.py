"""Whether a row beats every control that asks no network: better than each of them, adjusted over rows alone."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from roarbench.stats.bootstrap import Estimate
from roarbench.stats.verdicts import FALSE_DISCOVERIES, Comparison, holm
from roarbench.text import SAME


class Beating(NamedTuple):
    """A row beside the control that it is hardest to tell above.

    Attributes:
        verdict: Whether it is better than every control. Each control is tested at the whole error, since all must be
            beaten (intersection-union test, Berger 1982); the chance that any row of the board is called so wrongly is
            5% at most (Holm 1979).
        p: The largest of its p values against the controls, 1 where a difference is not above 0.
        q: p adjusted for the rows.
        nearest: The control with that p; of equal ones that over which it has least.
        over: Its gain minus the nearest control's, in accuracy points.
        each: The same for every control.
    """

    verdict: bool
    p: float
    q: float
    nearest: str
    over: Estimate
    each: Mapping[str, Estimate] = MappingProxyType({})

    @property
    def words(self) -> str:
        """Return the verdict in a few signs: `yes`, or the control that it is not shown to beat."""
        return "yes" if self.verdict else f"{'<' if self.below else SAME} {self.nearest}"

    @property
    def below(self) -> bool:
        """Return whether its whole interval is below the nearest control."""
        return self.over.high is not None and self.over.high < 0


def beatings(comparisons: Mapping[tuple[str, str], Comparison], strangers: Collection[str] = ()) -> dict[str, Beating]:
    """Judge the rows by their comparisons with every control.

    Strangers are rows that the suite does not name: each is adjusted as if it alone joined the others.
    """
    hardest: dict[str, tuple[float, float, str]] = {}
    each: dict[str, dict[str, Estimate]] = {}
    for (name, control), found in comparisons.items():
        each.setdefault(name, {})[control] = found.difference
        value = found.difference.value or 0.0
        hardest[name] = max(
            hardest.get(name, (0.0, float("-inf"), "")), (found.p if value > 0 else 1.0, -value, control)
        )
    own = {name: p for name, (p, _, _) in hardest.items() if name not in strangers}
    adjusted = dict(zip(own, holm(list(own.values())), strict=True))
    made = {}
    for name, (p, _, nearest) in hardest.items():
        q = adjusted[name] if name in own else holm([*own.values(), p])[-1]
        made[name] = Beating(q <= FALSE_DISCOVERIES, p, q, nearest, each[name][nearest], each[name])
    return made
