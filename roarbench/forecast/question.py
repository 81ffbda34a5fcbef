"""Which way to a verdict is the cheapest here: what each gave on stored answers, and what it takes on this machine.

What each way gives is measured by `studies/protocols/cost.py` and shipped; nothing is foretold of
suites that were not measured.
"""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from roarbench.errors import CallerError
from roarbench.forecast.plan import Plan
from roarbench.forecast.rates import Rates
from roarbench.plan.points import select
from roarbench.plan.suite import Suite
from roarbench.plan.suites import find_suite
from roarbench.protocols import PROTOCOLS
from roarbench.text import counted, duration

QUESTIONS = ("beats random",)


class Way(NamedTuple):
    """One way to verdicts of a suite's explained rows beside Random, and what it was worth on stored answers."""

    suite: str  # `NAME@VERSION`
    protocol: str
    seeds: int  # the most trainings of a row
    until_decided: bool  # whether it stops where verdicts are settled
    trainings: float  # of a row, the mean
    same: float  # share of the verdicts of all stored networks that it gives, in [0, 1]
    same_error: float  # standard error of `same`
    same_as_roar: float  # the same of ROAR's verdicts by all its networks
    # smallest true gain that it calls different from Random with a chance of 80%, in accuracy points, the median over
    # rows; None where it gives no intervals
    detectable: float | None
    core_minutes: float  # of the explained rows, with references and maps, by the quickest training of the store

    @property
    def trained(self) -> str:
        """Return how long it trains, in words."""
        return "until decided" if self.until_decided else f"{self.seeds} seed{'s' * (self.seeds > 1)}"

    @property
    def part(self) -> Suite:
        """Return what of its suite it runs, with all trainings that it may take."""
        return select(find_suite(self.suite), seeds=self.seeds, protocol=PROTOCOLS[self.protocol])

    @property
    def words(self) -> tuple[str, ...]:
        """Return what a command line says to go this way."""
        name = self.suite.partition("@")[0]
        suite = name if find_suite(name) == find_suite(self.suite) else self.suite
        words = ("--suite", suite, "--protocol", self.protocol, "--seeds", str(self.seeds))
        return (*words, "--until-decided") if self.until_decided else words


Costed = tuple[Way, float]  # with the seconds by the clock that it takes here, of what is missing in the store


def measured_ways() -> list[Way]:
    """Return all ways that were measured."""
    held = json.loads((files("roarbench") / "data" / "ways.json").read_text("utf-8"))
    return [Way(**way) for way in held["ways"]]


def ways_to(question: str, difference: float | None, suite: str = "") -> list[Way]:
    """Return the ways that answer a question, by any suite or by one.

    A gain of `difference` accuracy points has to be found with a chance of 80%; any if None. CallerError where it is
    no question, or no way that was measured answers it.
    """
    if question not in QUESTIONS:
        asked = ", ".join(f"'{each}'" for each in QUESTIONS)
        raise CallerError(f"no question '{question}'; it can be: {asked}")
    able = [way for way in measured_ways() if way.detectable is not None]
    if suite:
        able = [way for way in able if find_suite(way.suite) == find_suite(suite)]
    if not able:
        known = ", ".join(dict.fromkeys(way.suite for way in measured_ways()))
        raise CallerError(f"the power of suite '{suite}' was not measured, only that of: {known}")
    fine = [way for way in able if difference is None or (way.detectable or 0.0) <= difference]
    if not fine:
        best = min(able, key=lambda way: way.detectable or 0.0)
        raise CallerError(
            f"no measured way detects {difference:g} points; the finest, {best.protocol} with {best.trained} "
            f"of {best.suite}, finds {best.detectable:g}; write --difference {best.detectable:g} or more"
        )
    return fine


def way_seconds(way: Way, plan: Plan, rates: Rates) -> float:
    """Return the time of a way by these rates; one that stops early takes its share of the trainings."""
    return plan.wall(rates) * way.trainings / way.seeds


def answer_record(question: str, difference: float | None, found: Sequence[Costed], workers: int) -> dict[str, Any]:
    """Return the answer as plain values, the cheapest way first."""
    ways = [way._asdict() | {"seconds": seconds} for way, seconds in found]
    return {"question": question, "difference": difference, "workers": workers, "ways": ways}


def answer_text(question: str, difference: float | None, found: Sequence[Costed], workers: int, command: str) -> Group:
    """Return the answer for a terminal: the cheapest way first, and the command that goes it."""
    title = question if difference is None else f"{question}, by {difference:g} points or more"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("suite", "protocol", "trainings", "finds", "same words", "ROAR's", "here"):
        right = heading in ("finds", "same words", "ROAR's", "here")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for way, seconds in found:
        shares = f"{way.same:.0%}", f"{way.same_as_roar:.0%}"
        table.add_row(way.suite, way.protocol, way.trained, f"{way.detectable:.1f}", *shares, duration(seconds))
    return Group(table, *_legend(found[0][0], workers), f"  {command}")


def _legend(best: Way, workers: int) -> list[str]:
    return [
        "finds: true gain that a row shows with 80% power, in accuracy points;",
        "same words: verdicts as on a board of all stored networks of the protocol;",
        "ROAR's: as on such a board of ROAR (docs/protocols.md);",
        f"here: what this store lacks, {counted(workers, 'worker')}, by a measurement just now.",
        "A map without a network may beat Random, too; quick-matched asks for more.",
        f"cheapest, explaining {counted(best.part.references, 'reference')}:",
    ]
