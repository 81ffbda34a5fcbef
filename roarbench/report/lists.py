"""The lists of suites and estimators, for a person and for a program. Nothing here imports torch, SciPy or SQL."""

from textwrap import wrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from roarbench.calls import propose
from roarbench.estimators import ESTIMATORS, PARAMETERS, TWINS
from roarbench.plan.common import common_trainings, tuning_of, tunings
from roarbench.plan.keys import needs_reference, reference_epochs
from roarbench.plan.runs import Suite, expand
from roarbench.plan.suites import FAST, SUITES, Likeness
from roarbench.terms import Retrain


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
