"""Lists and reports for a person and for a program: suites, estimators, plan, status. Nothing here imports torch."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from textwrap import wrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from roarbench.analysis.boards import Dropped, SuiteResults
from roarbench.calls import propose
from roarbench.estimators import ESTIMATORS, PARAMETERS, TWINS
from roarbench.plan.common import common_trainings, tuning_of, tunings
from roarbench.plan.keys import bind, needs_reference, reference_epochs, reference_of
from roarbench.plan.runs import Point, Suite, describe, expand, protocol_name
from roarbench.plan.suites import FAST, SUITES, Likeness
from roarbench.store.results import Failure, ResultsStore
from roarbench.terms import PROTOCOLS, Retrain


def suite_records() -> list[dict[str, Any]]:
    """Return every suite with what it contains and what it costs, counted."""
    return [_suite_record(suite) for suite in SUITES.values()]


def _suite_record(suite: Suite) -> dict[str, Any]:
    points = expand(suite)
    trainings = sum(point.cell.retrain not in (Retrain.NONE, Retrain.COMMON) for point in points)
    trainings += len(common_trainings(points))
    explained = {suite.reference_number(point.seed) for point in points if needs_reference(point.cell)}
    reference = 0 if suite.given else len(explained)
    recipe = suite.recipe_record
    epochs = trainings * recipe.epochs + len(tunings(points)) * tuning_of(recipe).epochs
    epochs += reference * reference_epochs(suite)
    return {
        "suite": suite.name,
        "version": suite.version,
        "about": suite.about,
        "dataset": suite.dataset,
        "model": suite.model,
        "recipe": suite.recipe,
        "estimators": len(suite.estimators),
        "twins": len(suite.estimators) - len(suite.placed),
        "runs": len(points),
        "trainings": trainings + reference,
        "images_trained": round(epochs * suite.dataset_record.train_images),
        "likeness": _likeness_record(FAST[suite.name]) if suite.name in FAST else None,
    }


def suite_list(width: int) -> str:
    """Return the suites for a terminal of this many columns, three lines each, or more where they do not fit."""
    lines = []
    for row in suite_records():
        twins = f" ({row['twins']} of them twins)" if row["twins"] else ""
        counts = f"{row['estimators']} rankings{twins}, {row['trainings']:,} trainings of {row['model']}"
        lines += [f"{row['suite']} v{row['version']}"]
        lines += _indented(row["about"], width)
        cost = f"{counts}, {row['images_trained'] / 1e6:,.1f} M images"
        lines += _indented(cost, width)
        lines += _indented(_likeness(FAST[row["suite"]]), width) if row["likeness"] else []
    plan = propose("plan", "--suite", "NAME")
    return "\n".join([*lines, f"{plan} says what it takes; --measure times it on this machine"])


def _indented(words: str, width: int) -> list[str]:
    return wrap(words, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _likeness_record(found: Likeness) -> dict[str, Any]:
    tau = found.tau and dict(zip(("value", "low", "high"), found.tau, strict=True))
    return {"of": found.of, "tau": tau, "source": found.source}


def _likeness(found: Likeness) -> str:
    """Return in words how well a fast suite's places agree with those of the suite that it shortens."""
    if found.tau is None:
        return f"agreement of its places with those of {found.of}: not measured"
    tau, low, high = found.tau
    return f"its places and those of {found.of}: Kendall's tau {tau:.2f} ({low:.2f} to {high:.2f}); {found.source}"


def estimator_records() -> list[dict[str, Any]]:
    """Return every estimator of the table."""
    kinds = {True: "control", False: "estimator"}
    return [
        {
            "estimator": e.id,
            "kind": kinds[e.control],
            "base": e.base,
            "form": e.form,
            "parameters": {name: parameter.default for name, parameter in e.parameters.items()},
            "about": e.about,
        }
        for e in ESTIMATORS.values()
    ]


def estimator_list() -> Table:
    """Return the estimators for a terminal."""
    twins = "; ".join(f"ID~{twin}: {about}" for twin, about in TWINS.items())
    parameters = "; ".join(
        f"ID({name}={parameter.default:g}): {parameter.about}; {parameter.default:g} unless the name says another"
        for name, parameter in PARAMETERS.items()
    )
    notes = (
        f"Twins of an estimator ID, for its checks. {twins}.\n"
        f"Parameters, such as var-grad(noise=0.05), of the forms over noisy copies. {parameters}."
    )
    shown = Table(box=SIMPLE_HEAD, caption=notes, caption_justify="left")
    for heading in ("estimator", "kind", "what"):
        shown.add_column(heading)
    for row in estimator_records():
        shown.add_row(row["estimator"], row["kind"], row["about"])
    return shown


def status_record(suite_results: SuiteResults, store: ResultsStore) -> dict[str, Any]:
    """Count what is done, running, missing and failed, by protocol and in all, with rows that have no place."""
    states = run_states(suite_results, store)
    protocols = {name: Counter() for name in PROTOCOLS}  # type: dict[str, Counter[str]]
    for point, (state, _) in states.items():
        protocols[protocol_name(point.cell)][state] += 1
    counts = {name: {state: count[state] for state in _STATES} for name, count in protocols.items() if count}
    failed = [{"run": describe(point), "reason": reason} for point, (_, reason) in states.items() if reason]
    total = Counter(state for state, _ in states.values())
    return {
        "suite": suite_results.suite.name,
        "version": suite_results.suite.version,
        "title": suite_results.title,
        "limit": suite_results.limit,
        "data": suite_results.data or None,
        "reference": suite_results.suite.given or None,
        **{state: total[state] for state in _STATES},
        "preparing": is_preparing(suite_results, store),
        "protocols": counts,
        "failures": failed,
        "mixed": [row._asdict() for row in suite_results.dropped],
    }


def is_preparing(suite_results: SuiteResults, store: ResultsStore) -> bool:
    """Return whether a worker trains the reference or makes rankings right now."""
    return reference_of(suite_results.suite, suite_results.data).key in {lease.key for lease in store.running()}


def dropped_lines(dropped: Iterable[Dropped]) -> list[str]:
    """Return a sentence, with the reason, for each row that has no place though its results may all be there."""
    boards = defaultdict[tuple[str, str], list[str]](list)
    for row in dropped:
        boards[row.estimator, row.reason].append(f"{row.protocol} {row.unit}")
    return [f"No place for {name} ({', '.join(where)}): {reason}." for (name, reason), where in boards.items()]


def status_lines(status: dict[str, Any], dropped: Iterable[Dropped]) -> list[str]:
    """Return the lines below the status table: preparation, rows without a place, failures."""
    preparing = ["running: the reference is trained, or rankings are made"] if status["preparing"] else []
    return [*preparing, *dropped_lines(dropped), *failure_lines(status["failures"])]


def failure_lines(failures: Iterable[dict[str, str]]) -> list[str]:
    """Return what failed, a line for each reason."""
    runs: defaultdict[str, list[str]] = defaultdict(list)
    for failure in failures:
        runs[failure["reason"]].append(failure["run"])
    more = {reason: f" and {len(each) - 1} more" if len(each) > 1 else "" for reason, each in runs.items()}
    return [f"failed: {each[0]}{more[reason]}: {reason}" for reason, each in runs.items()]


_STATES = ("done", "running", "missing", "failed")


def run_states(suite_results: SuiteResults, store: ResultsStore) -> dict[Point, tuple[str, str]]:
    """Return the state of every point, with the reason where it failed and was not done since."""
    keys = {
        point: bind(suite_results.suite, point, suite_results.data, suite_results.limit).key
        for point in expand(suite_results.suite)
    }
    running = {lease.key for lease in store.running()}
    failures = store.failures([key for point, key in keys.items() if point not in suite_results.results])
    return {
        point: _state(point in suite_results.results, key in running, failures.get(key)) for point, key in keys.items()
    }


def _state(done: bool, running: bool, failures: Iterable[Failure] | None) -> tuple[str, str]:
    if done:
        return "done", ""
    if running:
        return "running", ""
    return ("failed", [*failures][-1].reason) if failures else ("missing", "")


def status_table(status: dict[str, Any]) -> Table:
    """Return the status for a terminal."""
    shown = Table(box=SIMPLE_HEAD, title=status["title"])
    for heading in ("protocol", *_STATES):
        shown.add_column(heading, justify="left" if heading == "protocol" else "right")
    for name, counts in status["protocols"].items():
        shown.add_row(name, *(str(counts[state]) for state in _STATES))
    shown.add_section()
    shown.add_row("all", *(str(status[state]) for state in _STATES))
    return shown
