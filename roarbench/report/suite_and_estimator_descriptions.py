"""Describe suites and estimators from their definitions and submissions, without importing torch, SciPy or SQL."""

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from roarbench.common.text import blank_control_characters, fit_on_one_line, format_count, name_item
from roarbench.compute.recipe import Recipe
from roarbench.estimators.catalogue import ESTIMATORS, TWINS, find_estimator_or_placeholder
from roarbench.estimators.estimator import find_paper
from roarbench.estimators.ids import PARAMETERS, format_value
from roarbench.plan.planned_runs import find_epochs_per_reference, list_planned_runs, list_shared_inputs
from roarbench.plan.protocols import adapt_text_to_data
from roarbench.plan.recipes import find_recipe, make_fine_tuning_recipe
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import SUITES

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults

_LONGEST = 300  # maximum characters of a line from a submission


class SuiteCost(NamedTuple):
    """Cost of a whole suite, in training runs and training images."""

    trainings: int
    images_trained: int  # training images times epochs, summed over all training runs


def count_suite_cost(suite: SuiteSpec) -> SuiteCost:
    """Count the training runs of a suite, including those of the explained networks."""
    points = list_planned_runs(suite)
    inputs = list_shared_inputs(suite, points)
    trainings = sum(point.cell.retrain.trains_per_run for point in points) + len(inputs.common)
    explained = 0 if suite.given else len(inputs.references)
    recipe = suite.recipe_record
    epochs = trainings * recipe.epochs + len(inputs.tuned) * make_fine_tuning_recipe(recipe).epochs
    epochs += explained * find_epochs_per_reference(suite)
    return SuiteCost(trainings + explained, round(epochs * suite.dataset_record.train_images))


def format_suite_list(width: int) -> str:
    """Format all suites in about three lines each, for a terminal of `width` characters."""
    lines = []
    for suite in SUITES.values():
        cost, twins = count_suite_cost(suite), len(suite.estimators) - len(suite.estimators_with_own_row)
        rankings = f"{len(suite.estimators)} rankings" + (f" ({twins} of them twins)" if twins else "")
        size = f"{rankings}, {cost.trainings:,} trainings of {suite.model}, {cost.images_trained / 1e6:,.1f} M images"
        lines += [suite.title, *_wrap_and_indent(suite.about, width), *_wrap_and_indent(size, width)]
    return "\n".join(lines)


def format_suite(suite: SuiteSpec) -> str:
    """Format a suite's content for a terminal."""
    cost, data = count_suite_cost(suite), suite.dataset_record
    noun = f"{name_item(data.tabular)}s"
    images = f"{data.train_images:,} training and {data.test_images:,} test {noun}"
    images += f" (drawn by seed {data.seed})" * bool(data.share)
    if data.test_only:
        images = f"{data.test_images:,} test {noun}, no training {noun},"
    channels = "grey" if data.channels == 1 else "colour"
    pixels = f"{data.channels} columns" if data.tabular else f"{data.size} x {data.size}, {channels}"
    shape = f"{data.classes:,} classes, {pixels}"
    explained = suite.given or _describe_recipe(find_recipe(suite.reference_recipe))
    lines = [
        suite.title,
        f"  {suite.about}",
        f"  data         {suite.dataset}: {images} of {shape}",
        f"  network      {suite.architecture_names}",
        f"  recipe       {_describe_recipe(suite.recipe_record)}",
        f"  reference    {format_count(suite.references, 'network')}, {explained}",
    ]
    for block in suite.blocks:
        levels = ", ".join(f"{t:g}" for t in block.levels)
        settings = f"levels {levels}; {format_count(block.seeds, 'seed')}; unit {block.unit}; fill {block.fill}"
        lines += [f"  {block.protocol.name:<12} {settings}", f"               {', '.join(block.estimators)}"]
    lines += [f"  left out     {name}: {why}" for name, why in suite.left_out.items()]
    lines += [f"  cost         {cost.trainings:,} trainings, {cost.images_trained / 1e6:,.2f} M {noun}"]
    return "\n".join(lines)


def _describe_recipe(recipe: Recipe) -> str:
    numbers = ", ".join(f"{field} {getattr(recipe, field):g}" for field in ("epochs", "batch", "peak"))
    return f"{recipe.title}: {numbers}, {recipe.augmentation}"


def _wrap_and_indent(text: str, width: int) -> list[str]:
    return wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def make_estimator_table() -> Table:
    """Format the built-in estimators for a terminal."""
    twins = "; ".join(f"ID~{twin}: {about}" for twin, about in TWINS.items())
    parameters = "; ".join(f"{name}: {parameter.about}" for name, parameter in PARAMETERS.items())
    notes = f"Twins of an estimator ID. {twins}.\nParameters, as in var-grad(noise=0.05), with defaults. {parameters}."
    table = Table("estimator", "kind", "what", "parameters", box=SIMPLE_HEAD, caption=notes, caption_justify="left")
    for row in ESTIMATORS.values():
        values = "\n".join(f"{name}={format_value(value)}" for name, value in row.parameters.items())
        table.add_row(row.id, "control" if row.control else "estimator", row.about, values)
    return table


@dataclass(frozen=True)
class PapersAndSettings:
    """Papers, source file and settings of an estimator, as plain text; an unknown value is empty."""

    source: str
    settings: tuple[str, ...] = ()  # one line each
    papers: tuple[str, ...] = ()  # papers on the estimator's base and form
    bibtex: tuple[str, ...] = ()  # entries of these papers; empty for a submission
    # only of submissions, with control characters replaced by spaces
    authors: str = ""
    claim: str = ""
    code: str = ""


def collect_papers_and_settings(name: str, suites: Iterable["SuiteResults"] = ()) -> PapersAndSettings:
    """Collect an estimator's papers and settings; a submission with this id is looked up in the suites."""
    row, suites = find_estimator_or_placeholder(name), list(suites)
    submission = next((results.submissions[name] for results in suites if name in results.submissions), None)
    if submission:
        code = submission.source.decode("utf-8-sig", errors="replace").expandtabs(4)
        return PapersAndSettings(
            source=f"submitted file, sha256 {submission.sha256}",
            settings=tuple(
                fit_on_one_line(f"{name} {format_value(value)}", _LONGEST)
                for name, value in {**submission.parameters, **dict(submission.values)}.items()
            ),
            papers=(fit_on_one_line(submission.paper, _LONGEST),) if submission.paper else (),
            authors=fit_on_one_line(submission.authors, _LONGEST),
            claim=fit_on_one_line(submission.claim, _LONGEST),
            code="\n".join(map(blank_control_characters, code.splitlines())),
        )
    papers = [
        find_paper(key) for key in row.papers or () if not row.twin
    ]  # a blurred map has no publication of its own
    tabular = bool(suites) and all(results.suite.dataset_record.tabular for results in suites)
    return PapersAndSettings(
        source=f"{row.module.replace('.', '/')}.py" if row.module else "",
        settings=tuple(
            f"{name} {format_value(row.get_value(name))}: {adapt_text_to_data(PARAMETERS[name].about, tabular)}"
            for name in row.parameters
        ),
        papers=tuple(paper.text for paper in papers),
        bibtex=tuple(paper.bibtex for paper in papers),
    )
