"""Lists of suites and estimators. Imports neither torch, SciPy nor SQL."""

from collections.abc import Iterable
from dataclasses import replace
from textwrap import wrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from roarbench.compute.recipe import Recipe
from roarbench.estimators.catalogue import ESTIMATORS, TWINS
from roarbench.estimators.ids import PARAMETERS, format_value
from roarbench.identity import make_json_record
from roarbench.plan.planned_runs import expand_points, find_epochs_per_reference, list_shared_inputs, make_tuning_recipe
from roarbench.plan.recipes import SETTINGS, find_recipe
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import FAST, SUITES, FastSuiteAgreement
from roarbench.text import format_count


def list_suite_records() -> list[dict[str, Any]]:
    """Return every suite with its content and counted cost."""
    return [_make_summary_record(suite) for suite in SUITES.values()]


def _make_summary_record(suite: SuiteSpec) -> dict[str, Any]:
    points = expand_points(suite)
    trainings = sum(point.cell.retrain.trains_per_run for point in points)
    inputs = list_shared_inputs(suite, points)
    trainings += len(inputs.common)
    reference = 0 if suite.given else len(inputs.references)
    recipe = suite.recipe_record
    epochs = trainings * recipe.epochs + len(inputs.tuned) * make_tuning_recipe(recipe).epochs
    epochs += reference * find_epochs_per_reference(suite)
    return {
        "suite": suite.name,
        "version": suite.version,
        "about": suite.about,
        "dataset": suite.dataset,
        "model": suite.model,
        "recipe": suite.recipe,
        "estimators": len(suite.estimators),
        "twins": len(suite.estimators) - len(suite.estimators_with_rank),
        "runs": len(points),
        "trainings": trainings + reference,
        "images_trained": round(epochs * suite.dataset_record.train_images),
        "likeness": _make_agreement_record(FAST[suite.name]) if suite.name in FAST else None,
    }


def format_suite_list(records: Iterable[dict[str, Any]], width: int) -> str:
    """Format the suites in about three lines each, for a terminal of `width` characters."""
    lines = []
    for row in records:
        twins = f" ({row['twins']} of them twins)" if row["twins"] else ""
        counts = f"{row['estimators']} rankings{twins}, {row['trainings']:,} trainings of {row['model']}"
        cost = f"{counts}, {row['images_trained'] / 1e6:,.1f} M images"
        about = (*_wrap_and_indent(row["about"], width), *_wrap_and_indent(cost, width))
        lines += [f"{row['suite']} v{row['version']}", *about]
        lines += _wrap_and_indent(_describe_agreement(FAST[row["suite"]]), width) if row["likeness"] else []
    return "\n".join(lines)


def make_suite_record(suite: SuiteSpec) -> dict[str, Any]:
    """Return a suite's full content as plain values."""
    return _make_summary_record(suite) | {
        "data": make_json_record(suite.dataset_record.without_location),
        "recipe": _make_recipe_record(suite.recipe_record),
        "reference_recipe": _make_recipe_record(find_recipe(suite.reference_recipe)),
        "references": suite.references,
        "maps": suite.maps,
        "blocks": [make_json_record(replace(block, protocol=block.protocol.name)) for block in suite.blocks],  # type: ignore[arg-type]
        "left_out": suite.left_out,
    }


def format_suite(suite: SuiteSpec) -> str:
    """Format a suite's content for a terminal."""
    record, data = _make_summary_record(suite), suite.dataset_record
    test = f"{data.test_images:,} test images" + f" (drawn by seed {data.seed})" * bool(data.share)
    channels = "grey" if data.channels == 1 else "colour"
    pixels = f"{data.channels} columns" if data.tabular else f"{data.size} x {data.size}, {channels}"
    shape = f"{data.classes:,} classes, {pixels}"
    explained = suite.given or _describe_recipe(find_recipe(suite.reference_recipe))
    lines = [
        suite.title,
        f"  {suite.about}",
        f"  data         {suite.dataset}: {data.train_images:,} training and {test} of {shape}",
        f"  network      {suite.architecture_names}",
        f"  recipe       {_describe_recipe(suite.recipe_record)}",
        f"  reference    {format_count(suite.references, 'network')}, {explained}",
    ]
    for block in suite.blocks:
        levels = ", ".join(f"{t:g}" for t in block.levels)
        settings = f"levels {levels}; {format_count(block.seeds, 'seed')}; unit {block.unit}; fill {block.fill}"
        lines += [f"  {block.protocol.name:<12} {settings}", f"               {', '.join(block.estimators)}"]
    lines += [f"  left out     {name}: {why}" for name, why in suite.left_out.items()]
    lines += [f"  cost         {record['trainings']:,} trainings, {record['images_trained'] / 1e6:,.2f} M images"]
    lines += [f"  short form   {_describe_agreement(FAST[suite.name])}"] if record["likeness"] else []
    return "\n".join(lines)


def _make_recipe_record(recipe: Recipe) -> dict[str, Any]:
    return {"title": recipe.title} | {key: getattr(recipe, key) for key in SETTINGS}


def _describe_recipe(recipe: Recipe) -> str:
    values = {key: getattr(recipe, key) for key in ("epochs", "batch", "peak")}
    numbers = ", ".join(f"{key} {value:g}" for key, value in values.items())
    return f"{recipe.title}: {numbers}, {recipe.augmentation}"


def _wrap_and_indent(text: str, width: int) -> list[str]:
    return wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _make_agreement_record(agreement: FastSuiteAgreement) -> dict[str, Any]:
    tau = agreement.tau and dict(zip(("value", "low", "high"), agreement.tau, strict=True))
    return {"of": agreement.of, "tau": tau, "source": agreement.source}


def _describe_agreement(agreement: FastSuiteAgreement) -> str:
    if agreement.tau is None:
        return f"agreement of its ranks with those of {agreement.of}: not measured"
    tau, low, high = agreement.tau
    ranks = f"its ranks and those of {agreement.of}: Kendall's tau {tau:.2f} ({low:.2f} to {high:.2f})"
    return f"{ranks}; {agreement.source}"


def list_estimator_records() -> list[dict[str, Any]]:
    """Return every built-in estimator."""
    return [
        {
            "estimator": e.id,
            "kind": "control" if e.control else "estimator",
            "base": e.base,
            "form": e.form,
            "parameters": e.parameters,
            "about": e.about,
        }
        for e in ESTIMATORS.values()
    ]


def make_estimator_table() -> Table:
    """Format the built-in estimators for a terminal."""
    twins = "; ".join(f"ID~{twin}: {about}" for twin, about in TWINS.items())
    parameters = "; ".join(f"{name}: {parameter.about}" for name, parameter in PARAMETERS.items())
    notes = f"Twins of an estimator ID. {twins}.\nParameters, as in var-grad(noise=0.05), with defaults. {parameters}."
    headings = ("estimator", "kind", "what", "parameters")
    shown = Table(*headings, box=SIMPLE_HEAD, caption=notes, caption_justify="left")
    for row in list_estimator_records():
        values = "\n".join(f"{name}={format_value(value)}" for name, value in row["parameters"].items())
        shown.add_row(row["estimator"], row["kind"], row["about"], values)
    return shown
