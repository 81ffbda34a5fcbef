"""Describe suites and estimators, and write the commands that repeat their stored runs."""

import shlex
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING

from roarbench.common.text import TABLE_WORDS, blank_control_characters, fit_on_one_line, format_count
from roarbench.compute.recipe import Recipe
from roarbench.estimators.catalogue import ESTIMATORS, TWINS, find_estimator_or_placeholder
from roarbench.estimators.estimator import Estimator, find_paper
from roarbench.estimators.ids import CUDA, PARAMETERS, TRUSTED, EstimatorId, format_value
from roarbench.plan.cells_and_runs import CLEAN, PUBLISHED_WEIGHTS
from roarbench.plan.planned_runs import count_reference_epochs, list_planned_runs, list_shared_inputs
from roarbench.plan.protocols import Protocol
from roarbench.plan.recipes import find_recipe, make_fine_tuning_recipe
from roarbench.plan.suite import SEEDS_PER_REPLICATION, SuiteSpec
from roarbench.plan.suites import SUITES, make_suite_option_value
from roarbench.report.table_record import ROW_KEY, Table, make_column
from roarbench.report.table_renderers import format_list

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from roarbench.analysis.suite_results import SuiteResults

Options = tuple[str, ...]

_LONGEST = 300  # maximum characters of a line or an id from a submission


def count_suite_training_cost(suite: SuiteSpec) -> tuple[int, int]:
    """Return the training runs of a suite, with those of the explained networks, and their images times epochs."""
    points = list_planned_runs(suite)
    inputs = list_shared_inputs(suite, points)
    trainings = sum(point.cell.retrain.trains_per_run for point in points) + len(inputs.common)
    explained = 0 if suite.given or suite.dataset_record.test_only else len(inputs.references)
    recipe = suite.recipe_record
    epochs = trainings * recipe.epochs + len(inputs.tuned) * make_fine_tuning_recipe(recipe).epochs
    epochs += explained * count_reference_epochs(suite)
    return trainings + explained, round(epochs * suite.dataset_record.train_images)


def format_suite_list(width: int) -> str:
    """Format all suites in about three lines each, for a terminal of `width` characters."""
    lines = []
    for suite in SUITES.values():
        trainings, images = count_suite_training_cost(suite)
        twins = len(suite.estimators) - len(suite.estimators_with_own_row)
        rankings = f"{len(suite.estimators)} rankings" + (f" ({twins} of them twins)" if twins else "")
        size = f"{rankings}, {format_count(trainings, 'training')} of {suite.model}, {images / 1e6:,.1f} M images"
        lines.append(suite.title)
        for text in (suite.about, size):
            lines += wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


def format_suite(suite: SuiteSpec, width: int) -> str:
    """Format a suite's content for a terminal of `width` characters."""
    (trainings, images_trained), data = count_suite_training_cost(suite), suite.dataset_record
    images = f"{data.train_images:,} training and {data.test_images:,} test images"
    images += f" (drawn by seed {data.seed})" * bool(data.share)
    if data.test_only:
        images = f"{data.test_images:,} test images, no training images,"
    channels = "grey" if data.channels == 1 else "colour"
    pixels = f"{data.channels} pixels ({TABLE_WORDS})" if data.tabular else f"{data.size} x {data.size}, {channels}"
    shape = f"{data.classes:,} classes, {pixels}"
    trained = "from --reference FILE" if data.test_only else _describe_recipe(find_recipe(suite.reference_recipe))
    lines = [
        suite.title,
        f"  about        {suite.about}",
        f"  data         {suite.dataset}: {images} of {shape}",
        f"  network      {suite.architecture_names}",
        f"  recipe       {_describe_recipe(suite.recipe_record)}",
        f"  explained    {format_count(suite.references, 'network')}, {suite.given or trained}",
    ]
    for block in suite.blocks:
        levels = ", ".join(f"{t:g}" for t in block.levels)
        settings = f"levels {levels}; {format_count(block.seeds, 'seed')}; unit {block.unit}; fill {block.fill}"
        lines += [f"  {block.protocol.name:<12} {settings}", f"               {', '.join(block.estimators)}"]
    lines += [f"  left out     {name}: {why}" for name, why in suite.left_out.items()]
    lines += [f"  cost         {format_count(trainings, 'training')}, {images_trained / 1e6:,.2f} M images"]
    split = partial(wrap, width=width, subsequent_indent=" " * 15, break_long_words=False, break_on_hyphens=False)
    return "\n".join(chain.from_iterable(map(split, lines)))


def _describe_recipe(recipe: Recipe) -> str:
    numbers = ", ".join(f"{field} {getattr(recipe, field):g}" for field in ("epochs", "batch", "peak"))
    return f"{recipe.title}: {numbers}, augmentation {recipe.augmentation}"


def make_estimator_table() -> "RichTable":
    """Format the built-in estimators for a terminal."""
    twins = "; ".join(f"ID~{twin}: {about}" for twin, about in TWINS.items())
    parameters = "; ".join(f"{name}: {parameter.about}" for name, parameter in PARAMETERS.items())
    notes = f"Twins of an estimator ID. {twins}.\nParameters, as in var-grad(noise=0.05), with defaults. {parameters}."
    values = [
        "\n".join(f"{name}={format_value(value)}" for name, value in row.parameters.items())
        for row in ESTIMATORS.values()
    ]
    kinds = ("control" if row.is_control_or_search else "estimator" for row in ESTIMATORS.values())
    columns = (
        make_column(ROW_KEY, ESTIMATORS, "estimator", side="left"),
        make_column("kind", kinds, "kind", side="left"),
        make_column("about", (row.about for row in ESTIMATORS.values()), "what", side="left"),
        make_column("parameters", values, "parameters", side="left"),
    )
    return format_list(Table("", columns, tuple(notes.split("\n"))))


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
    papers = [find_paper(key) for key in row.papers or () if not row.twin]  # a blurred map has no paper of its own
    return PapersAndSettings(
        source=f"{row.module.replace('.', '/')}.py" if row.module else "",
        settings=tuple(
            f"{name} {format_value(row.get_value(name))}: {PARAMETERS[name].about}" for name in row.parameters
        ),
        papers=tuple(paper.text for paper in papers),
        bibtex=tuple(paper.bibtex for paper in papers),
    )


def make_repeat_command(suite_results: "SuiteResults", name: str) -> str:
    """Return the command that repeats all runs of an estimator in an empty store."""
    row = find_estimator_or_placeholder(name)
    if row.submitted:
        chosen = ("--submission", _add_submission_parameters("FILE", row), *_list_options_of_marks(row))
    else:
        chosen = ("--estimators", fit_on_one_line(name, _LONGEST))
    return shlex.join(["roarbench", "run", *_list_run_options(suite_results), *chosen, "--store", "NEW-FOLDER"])


def make_status_command(suite_results: "SuiteResults") -> str:
    """Return the command that counts the runs of these results and lists failures."""
    return shlex.join(["roarbench", "status", *_list_version_options(suite_results), *suite_results.options])


def list_report_commands(results: "SuiteResults") -> list[str]:
    """Return the commands that run what a report shows, and last the command that writes the report.

    A submission's file is named as `new-submission` names it, because a store does not know the file's name.
    """
    protocols = dict.fromkeys(block.protocol for block in results.suite.blocks)
    parts = {protocol: _list_part_options(results, protocol) for protocol in protocols if results.has_started(protocol)}
    if len(parts) == len(protocols) and len(set(parts.values())) == 1:
        runs = [*next(iter(parts.values()))]
    else:
        runs = [("--protocol", protocol.name, *part) for protocol, several in parts.items() for part in several]
    commands = [("run", *_list_run_options(results), *options) for options in runs]
    commands.append(("report", *_list_version_options(results), *results.options, "-o", "report.html"))
    return [shlex.join(["roarbench", *words]) for words in commands]


def _list_version_options(results: "SuiteResults") -> Options:
    """Return the options that name the suite, its fill and unit if they are not the suite's own, and the images."""
    limit = ("--max-images", f"{results.limit}") if results.limit else ()
    return ("--suite", make_suite_option_value(results.suite), *limit, *results.suite.changes.options)


def _list_run_options(results: "SuiteResults") -> Options:
    """Return the options that run the suite in any store: SUITE.toml, DIR and FILE stand for local files."""
    _, name, *others = _list_version_options(results)
    options = ("--suite", "SUITE.toml" if results.suite.own else name, *others)
    for option, value in zip(results.options[::2], results.options[1::2], strict=True):
        name = value.partition("@")[0]
        options += (option, "DIR" if option == "--data" else name if name in PUBLISHED_WEIGHTS else "FILE")
    return options


def _list_part_options(results: "SuiteResults", protocol: Protocol) -> tuple[Options, ...]:
    """Return the options of each `run` that repeats a protocol's results: one for each way to run submissions."""
    suite, kind = results.suite, (protocol.order, protocol.retrain)
    done = [at for at in results.results if at.cell.estimator != CLEAN and (at.cell.order, at.cell.retrain) == kind]
    run = {point.cell.estimator for point in done}
    blocks = [block for block in suite.blocks if block.protocol == protocol]
    rows = [find_estimator_or_placeholder(name) for name in dict.fromkeys(n for b in blocks for n in b.estimators)]
    own = [row.id for row in rows if row.id not in suite.added and not row.is_control_to_beat]
    added = [row for row in rows if row.id in run & suite.added and not row.twin]  # their twins are run with them
    chosen = [name for name in own if name in run] + [row.id for row in added if not row.submitted]
    # controls are run in any case, so that a control alone selects no estimator
    chosen = [] if chosen == own else chosen or ["random"]
    lines = wrap(" ".join(chosen), 70, break_long_words=False, break_on_hyphens=False)  # each fits on a line of paper
    options = tuple(word for line in lines for word in ("--estimators", line.replace(" ", ",")))
    seeds = 1 + max(point.seed % SEEDS_PER_REPLICATION for point in done)
    if not protocol.scores_all_network_pairs and seeds < max(len(suite.list_seeds(block)) for block in blocks):
        options += ("--seeds", f"{seeds}")
    by_marks = defaultdict[Options, Options](tuple)
    for row in added:
        if row.submitted:
            file = f"{row.parsed_id.name.replace('-', '_')}.py"
            by_marks[_list_options_of_marks(row)] += ("--submission", _add_submission_parameters(file, row))
    return tuple((*options, *files, *marks) for marks, files in by_marks.items()) or (options,)


def _add_submission_parameters(file: str, submission: Estimator) -> str:
    listed = EstimatorId.parse(fit_on_one_line(submission.id, _LONGEST)).listed
    return f"{file}({listed})" if listed else file


def _list_options_of_marks(submission: Estimator) -> Options:
    """Return the options of `run` for a submission that ran without the sandbox, or on a GPU."""
    marks = submission.parsed_id.marks
    trust = ("--trust-submission",) if TRUSTED in marks else ()
    return (*trust, *(("--submission-device", "cuda") if CUDA in marks else ()))
