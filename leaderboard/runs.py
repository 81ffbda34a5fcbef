"""What is done, running, failed and missing, as flat records."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from leaderboard.words import plain
from roarbench.analysis.boards import SuiteResults
from roarbench.plan.runs import describe
from roarbench.report.lists import run_states
from roarbench.store.results import ResultsStore

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
