"""What `run --stop-early` does: trainings go where a verdict against Random is open."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from rich.console import Console

from roarbench.analysis.sequential import is_open, next_seeds
from roarbench.analysis.suite_results import SuiteResults
from roarbench.enums import ScoredNetwork
from roarbench.errors import CallerError
from roarbench.execution.run_suite import Finished, Request, load_results, run_suite
from roarbench.plan.points import select_seeds
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import find_leading_protocols
from roarbench.protocols.protocol import Protocol
from roarbench.stats.board import RANDOM, Board
from roarbench.store.interim_analyses import WatchedRow, note_watched
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore

Seeds = dict[tuple[ScoredNetwork, str], int]  # trainings by kind of network and estimator


class StoppingRule(NamedTuple):
    """Reasons to end a course, beside that all is settled."""

    # the smallest difference from Random's gain that is of interest, in accuracy points; None if all are
    difference: float | None = None
    # seconds by the clock, up to the end of the job that is under way then; None for as long as it takes
    budget: float | None = None


def run_until_decided(
    request: Request, rule: StoppingRule, workspace: Workspace, store: ResultsStore, console: Console
) -> Finished:
    """Do one training of every row, then one more of those whose verdict against Random is open, and so on.

    Rows that share a kind of network get the same trainings under all protocols that it answers for, and none gets more
    than its suite has.
    """
    until = None if rule.budget is None else time.monotonic() + rule.budget
    questions = list_open_protocols(request.suite)
    seeds: Seeds = {}
    whole = None
    while True:
        part = replace(request, suite=select_seeds(request.suite, seeds), until=until)
        finished = run_suite(part, workspace, store, console)
        data, limit = finished.suite_results.data, finished.suite_results.limit
        if whole is None:  # before anybody looks
            note_watched(store.database, _short(load_results(request.suite, store, data, limit), questions))
        whole = load_results(request.suite, store, data, limit)
        boards = [_board(whole, protocol) for protocol in questions]
        goals: Seeds = {}
        for board in boards:
            goals |= _goals(request.suite, board, rule.difference, console)
        spent = until is not None and time.monotonic() >= until
        if not goals or spent or finished.failed:
            console.print(_sum(request.suite, boards, bool(goals) and spent), soft_wrap=True)
            return finished._replace(suite_results=whole)
        seeds |= goals


def list_open_protocols(suite: SuiteSpec) -> list[Protocol]:
    """Return the protocols whose verdicts are to be settled, those that trainings decide; CallerError for none."""
    found = [
        protocol
        for protocol in find_leading_protocols(suite)
        if protocol.retrain not in (ScoredNetwork.NONE, ScoredNetwork.MASKS)
    ]
    if not found:
        has = ", ".join(dict.fromkeys(block.protocol.name for block in suite.blocks))
        seen = f"no verdict of suite '{suite.name}' under {has} hangs on trainings"
        raise CallerError(f"{seen}; leave --stop-early out")
    return found


def count_planned_trainings(suite: SuiteSpec, protocol: Protocol) -> dict[str, int]:
    """Return the trainings that a suite has for each row of a protocol, in its first unit."""
    blocks = [block for block in suite.blocks if block.protocol == protocol]
    mine = [block for block in blocks if block.unit is blocks[0].unit]
    return {name: max(b.seeds for b in mine if name in b.estimators) for block in mine for name in block.estimators}


def _board(whole: SuiteResults, protocol: Protocol) -> Board:
    unit = next(block.unit for block in whole.suite.blocks if block.protocol == protocol)
    board = whole.board(protocol, unit)
    assert board is not None, "the suite has it"
    return board


def _short(whole: SuiteResults, questions: list[Protocol]) -> Iterator[WatchedRow]:
    """Yield the rows that have not all their trainings: whether they get them will hang on what is seen."""
    for protocol in questions:
        most = count_planned_trainings(whole.suite, protocol)
        for row in _board(whole, protocol).rows:
            if max(1, row.seeds) < most[row.estimator]:
                place = (whole.suite.title, whole.data, whole.limit, whole.suite.given)
                yield WatchedRow(*place, protocol.retrain, row.estimator, most[row.estimator])


def _goals(suite: SuiteSpec, board: Board, difference: float | None, console: Console) -> Seeds:
    """Return what is to be trained next for a board, and tell how far it is."""
    rows = [row for row in board.rows if not row.check and row.estimator != RANDOM]
    left = [row.estimator for row in rows if is_open(row, difference)]
    said = f"{len(rows) - len(left)} of {len(rows)} rows are settled against Random"
    console.print(f"{board.protocol.name}: {said}{'; open: ' if left else ''}{', '.join(left)}", soft_wrap=True)
    goals = next_seeds(board, count_planned_trainings(suite, board.protocol), difference)
    return {(board.protocol.retrain, name): goal for name, goal in goals.items()}


def _sum(suite: SuiteSpec, boards: list[Board], spent: bool) -> str:
    """Return in a line what the course took of what the suite plans, and whether the budget ended it."""
    plans = [(board, count_planned_trainings(suite, board.protocol)) for board in boards]
    taken = sum(min(row.seeds, most[row.estimator]) for board, most in plans for row in board.rows)
    whole_number = sum(sum(most.values()) for _, most in plans)
    return f"{taken} of {whole_number} trainings of rows{'; the budget is spent' if spent else ''}"
