"""From a results store to what the pages show: its suites, their rows, and the state of every run."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from leaderboard.text import plain
from roarbench.analysis.boards import SuiteResults, collect_all
from roarbench.analysis.load import fits, only_part, with_submitted
from roarbench.analysis.versions import image_notes
from roarbench.errors import UnknownName
from roarbench.estimators import TRUSTED, Estimator, find_estimator
from roarbench.plan.runs import Suite, describe
from roarbench.plan.suites import VERSIONS
from roarbench.report.lists import run_states
from roarbench.store.results import ResultsStore
from roarbench.terms import PROTOCOLS, ROAR, Protocol, Unit


@dataclass(frozen=True)
class Shelf:
    """All that one store holds, at one moment.

    Attributes:
        standings: By slug, in the order of the suites, whole data sets before small versions.
        folder: The store's folder, with rankings and images if it has them.
    """

    standings: dict[str, SuiteResults]
    folder: Path


class Only(NamedTuple):
    """Which boards are shown: those of these images and of this reference, as `reading.fits` takes them; or all."""

    data: str = ""
    reference: str = ""


ALL = Only()


def read_shelf(store: ResultsStore, folder: Path, only: Only = ALL) -> Shelf:
    """Read every suite that has at least one result."""
    found = [held for suite in VERSIONS.values() for held in read_suite(store, suite, folder, only)]
    return Shelf({slug(held): held for held in found}, folder)


def read_suite(store: ResultsStore, suite: Suite, folder: Path, only: Only = ALL) -> list[SuiteResults]:
    """A suite on the whole data set, then on its small versions, the largest first; only those that were begun.

    Where the store has it on several sets of images or of several references, each stands for itself, the suite's own
    first.
    """
    notes = image_notes(store, folder, suite.dataset)
    found = [held for held in collect_all(with_submitted(suite, store), store, notes) if fits(held, *only, notes)]
    return [held for held in found if held.complete or not only_part(held, store)]


def slug(held: SuiteResults) -> str:
    """Name of a suite and version in addresses and file names.

    Such as `quick-v1`, `quick-v1-small-40`, or `quick-v1-data-1a2b3c4d` where other images or another reference than
    the suite's own are shown.
    """
    small = f"-small-{held.limit}" if held.limit else ""
    asked = "".join(f"-{word.strip('-')}" for word in held.asked)
    harmless = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-.") else "-" for letter in asked)
    return f"{held.suite.name}-v{held.suite.version}{small}{harmless}"


def main_rows(held: SuiteResults) -> tuple[str, ...]:
    """Estimators and controls of a suite; checks belong to the validity panel of what they are made from."""
    return tuple(name for name in held.suite.estimators if find_estimator(name).placed)


def protocols(held: SuiteResults) -> tuple[Protocol, ...]:
    """The protocols that a suite has, in the order of the vocabulary."""
    has = {block.protocol for block in held.suite.blocks}
    return tuple(protocol for protocol in PROTOCOLS.values() if protocol in has)


def units(held: SuiteResults, protocol: Protocol = ROAR) -> tuple[Unit, ...]:
    """The units that a suite has under a protocol, the one of its tables first."""
    return tuple(dict.fromkeys(block.unit for block in held.suite.blocks if block.protocol == protocol))


def about(held: SuiteResults, name: str) -> str:
    """What an estimator is, in a sentence: of a submission its author's."""
    submission, row = held.submissions.get(name), known(name)
    return plain(submission.description if submission and not row.twin else row.about)


def status(held: SuiteResults, name: str) -> str:
    """Who vouches for an estimator's rows: `verified`, `trusted` or `self-reported`."""
    if TRUSTED in known(name).marks:
        return "trusted"
    return "self-reported" if name in held.doubts else "verified"


def known(name: str) -> Estimator:
    """The estimator of this id, or a bare record where the table has none.

    A store may come from a newer version, whose estimators this one does not know.
    """
    try:
        return find_estimator(name)
    except UnknownName:
        return Estimator(name, "", "", "not in this version's table of estimators")


STATES = ("done", "running", "failed", "missing")


@dataclass(frozen=True)
class RunState:
    """One run of a suite.

    Attributes:
        run: In words.
        protocol: Its first word.
        state: One of `STATES`.
        reason: Why it failed; empty otherwise.
    """

    run: str
    protocol: str
    state: str
    reason: str


def read_runs(held: SuiteResults, store: ResultsStore) -> tuple[RunState, ...]:
    """The state of every run of a suite, now."""
    states = run_states(held, store)
    named = [(plain(describe(point)), state, plain(reason, 500)) for point, (state, reason) in states.items()]
    return tuple(RunState(run, run.split()[0], state, reason) for run, state, reason in named)


def count_runs(runs: Iterable[RunState]) -> list[dict[str, str | int]]:
    """How many are in each state, by protocol and in all, as flat records."""
    rows = list(runs)
    parts = {name: [run for run in rows if run.protocol == name] for name in dict.fromkeys(r.protocol for r in rows)}
    return [
        {"protocol": name, **{state: Counter(run.state for run in part)[state] for state in STATES}}
        for name, part in [*parts.items(), ("all", rows)]
    ]
