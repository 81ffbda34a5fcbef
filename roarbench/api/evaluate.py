"""Run a suite from Python: its own estimators, functions, files, and maps that were made before."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roarbench.analysis.load import open_results
from roarbench.api.functions import as_submission
from roarbench.api.result import Result
from roarbench.api.suites import Suite, console, load
from roarbench.errors import CallerError, RunError
from roarbench.estimators import CONTROLS
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.points import select
from roarbench.plan.runs import find_protocol
from roarbench.plan.suite import Suite as Plan
from roarbench.plan.suites import with_entries
from roarbench.store.layout import Workspace

if TYPE_CHECKING:
    from rich.console import Console

    from roarbench.store.results import ResultsStore
    from roarbench.submissions.file import Submission

Given = str | Path | Callable[..., Any]


def evaluate(
    suite: Suite | str,
    estimators: Mapping[str, Given] | Iterable[str] = (),
    store: str | Path | None = None,
    *,
    protocol: str = "",
    seeds: int | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Result:
    """Run what is missing of a suite's rows, and return them; the same call continues where another one ended.

    Args:
        suite: Of `load`, or its name.
        estimators: By the name of its row, each a function of (model, inputs, targets), a class of captum or a function
            of the model that makes such an object, what Quantus calls (a function that takes keywords), the id of an
            estimator of roarbench, or the path of a submission. Or a list of such ids. All of the suite's if empty; the
            three controls are always among them. A function gets a network in eval mode, float32 tensors
            (n, c, h, w), normalised, and int64 classes (n,), which the network predicts; it returns a tensor or array
            (n, c, h, w), (n, 1, h, w) or (n, h, w), signed, larger is more important. It runs with your rights, and its
            row says so; a path is run in the sandbox.
        store: Folder of images, networks, rankings and results, which the suite keeps to from then on; if None that of
            the suite.
        protocol: Only this one, such as `matched`.
        seeds: Trainings of each cell; those of the suite if None.
        workers: Processes; one for each core, or for each GPU, if None.
        quiet: Say nothing of how it goes.

    Raises:
        CallerError: What is asked for cannot be run; nothing is.
        RunError: Runs failed; all others are kept.
    """
    suite = load(suite) if isinstance(suite, str) else suite
    suite.store = suite.store if store is None else Path(store)
    given = estimators if isinstance(estimators, Mapping) else {name: name for name in estimators}
    made = {name: _made(name, one) for name, one in given.items()}
    for name, one in made.items():
        if callable(given[name]) and not isinstance(one, str):
            from roarbench.api.trial import try_file

            try_file(one, suite.fitted)
    said = console(quiet)
    with open_results(suite.store, suite.db, read_only=False) as results:
        names = {
            name: one if isinstance(one, str) else _kept(one, given[name], suite, results, said)
            for name, one in made.items()
        }
        part = _part(suite.fitted, names, protocol, seeds)
        _run(suite, part, results, workers, said)
    return Result(suite.fitted, suite.question, names, part.estimators)


def _made(name: str, given: Given) -> "str | Submission":
    """Return the id of an estimator of the table, or a submission.

    Raises:
        CallerError: It is neither.
    """
    from roarbench.submissions.file import read_submission

    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".py")):
        return read_submission(Path(given))
    return find_estimator(given).id if isinstance(given, str) else as_submission(name, given)


def _kept(made: "Submission", given: Given, suite: Suite, results: "ResultsStore", said: "Console") -> str:
    """Keep a submission in the store, once it was checked if it is to be run in the sandbox; the id of its row."""
    from roarbench.execution.entering import SubmissionMode, submit

    return submit(
        [made], SubmissionMode(callable(given), False, suite.plan), results, Workspace(suite.store), said
    ).ids[0]


def _part(plan: Plan, names: Mapping[str, str], protocol: str, seeds: int | None) -> Plan:
    """Return the part of a suite that has these rows, what they are held against, and their twins."""
    entered = with_entries(plan, [name for name in names.values() if name not in plan.estimators])
    if lacking := [name for name in names.values() if name not in entered.estimators]:
        raise CallerError(f"suite '{plan.name}' has no '{lacking[0]}'; it has: {', '.join(plan.estimators)}")
    silent = [row.id for row in plan.estimator_records if row.asks_nothing]
    twins = [row.id for row in entered.estimator_records if row.parent in names.values()]
    rows = (*CONTROLS, *silent, *names.values(), *twins) if names else None
    return select(entered, rows, seeds, find_protocol(protocol) if protocol else None)


def _run(suite: Suite, part: Plan, results: "ResultsStore", workers: int | None, said: "Console") -> None:
    from roarbench.execution.runner import run_suite
    from roarbench.report.status import failures_of

    finished = run_suite(suite.request(part, workers), Workspace(suite.store), results, said)
    if finished.failed:
        reasons = [f"{each['estimator']}: {each['reason']}" for each in failures_of(finished.suite_results, results)]
        raise RunError("; ".join(dict.fromkeys(reasons)) or f"{finished.failed} runs failed")
