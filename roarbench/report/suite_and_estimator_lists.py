"""List suites and estimators, without importing torch, SciPy or SQL."""

from textwrap import wrap
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from roarbench.common.text import format_count
from roarbench.compute.recipe import Recipe
from roarbench.estimators.catalogue import ESTIMATORS, TWINS
from roarbench.estimators.ids import PARAMETERS, format_value
from roarbench.plan.planned_runs import (
    expand_points,
    find_epochs_per_reference,
    list_shared_inputs,
    make_fine_tuning_recipe,
)
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import FAST, SUITES, FastSuiteAgreement


class SuiteCost(NamedTuple):
    """Cost of a whole suite, in training runs and training images."""

    trainings: int
    images_trained: int  # training images times epochs, summed over all training runs


def count_suite_cost(suite: SuiteSpec) -> SuiteCost:
    """Count the training runs of a suite, including the training of explained networks."""
    points = expand_points(suite)
    inputs = list_shared_inputs(suite, points)
    trainings = sum(point.cell.retrain.trains_per_run for point in points) + len(inputs.common)
    reference = 0 if suite.given else len(inputs.references)
    recipe = suite.recipe_record
    epochs = trainings * recipe.epochs + len(inputs.tuned) * make_fine_tuning_recipe(recipe).epochs
    epochs += reference * find_epochs_per_reference(suite)
    return SuiteCost(trainings + reference, round(epochs * suite.dataset_record.train_images))


def format_suite_list(width: int) -> str:
    """Format all suites in about three lines each, for a terminal of `width` characters."""
    lines = []
    for suite in SUITES.values():
        cost, twins = count_suite_cost(suite), len(suite.estimators) - len(suite.estimators_with_rank)
        rankings = f"{len(suite.estimators)} rankings" + (f" ({twins} of them twins)" if twins else "")
        words = f"{rankings}, {cost.trainings:,} trainings of {suite.model}, {cost.images_trained / 1e6:,.1f} M images"
        lines += [suite.title, *_wrap_and_indent(suite.about, width), *_wrap_and_indent(words, width)]
        lines += _wrap_and_indent(_describe_agreement(FAST[suite.name]), width) if suite.name in FAST else []
    return "\n".join(lines)


def format_suite(suite: SuiteSpec) -> str:
    """Format a suite's content for a terminal."""
    cost, data = count_suite_cost(suite), suite.dataset_record
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
    lines += [f"  cost         {cost.trainings:,} trainings, {cost.images_trained / 1e6:,.2f} M images"]
    lines += [f"  short form   {_describe_agreement(FAST[suite.name])}"] if suite.name in FAST else []
    return "\n".join(lines)


def _describe_recipe(recipe: Recipe) -> str:
    values = {key: getattr(recipe, key) for key in ("epochs", "batch", "peak")}
    numbers = ", ".join(f"{key} {value:g}" for key, value in values.items())
    return f"{recipe.title}: {numbers}, {recipe.augmentation}"


def _wrap_and_indent(text: str, width: int) -> list[str]:
    return wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _describe_agreement(agreement: FastSuiteAgreement) -> str:
    if agreement.tau is None:
        return f"agreement of its ranks with those of {agreement.of}: not measured"
    tau, low, high = agreement.tau
    ranks = f"its ranks and those of {agreement.of}: Kendall's tau {tau:.2f} ({low:.2f} to {high:.2f})"
    return f"{ranks}; {agreement.source}"


def make_estimator_table() -> Table:
    """Format the built-in estimators for a terminal."""
    twins = "; ".join(f"ID~{twin}: {about}" for twin, about in TWINS.items())
    parameters = "; ".join(f"{name}: {parameter.about}" for name, parameter in PARAMETERS.items())
    notes = f"Twins of an estimator ID. {twins}.\nParameters, as in var-grad(noise=0.05), with defaults. {parameters}."
    headings = ("estimator", "kind", "what", "parameters")
    shown = Table(*headings, box=SIMPLE_HEAD, caption=notes, caption_justify="left")
    for row in ESTIMATORS.values():
        values = "\n".join(f"{name}={format_value(value)}" for name, value in row.parameters.items())
        shown.add_row(row.id, "control" if row.control else "estimator", row.about, values)
    return shown
