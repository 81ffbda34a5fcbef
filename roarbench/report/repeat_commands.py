"""Write the commands that repeat stored runs: those of one estimator, or all runs that a report shows."""

import shlex
from collections import defaultdict
from typing import TYPE_CHECKING

from roarbench.common.text import fit_on_one_line
from roarbench.estimators.catalogue import find_estimator_or_placeholder
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.ids import CUDA, TRUSTED, EstimatorId
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.given_weights_titles import PUBLISHED_WEIGHTS
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import SEEDS_PER_REPLICATION
from roarbench.plan.suites import make_suite_option_value

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults

_LONGEST = 300  # maximum characters of an id
Options = tuple[str, ...]


def make_repeat_command(suite_results: "SuiteResults", name: str) -> str:
    """Return the command that repeats all runs of an estimator in an empty store."""
    row = find_estimator_or_placeholder(name)
    if row.submitted:
        chosen = ("--submission", _add_submission_parameters("FILE", row), *_list_options_of_marks(row))
    else:
        chosen = ("--estimators", fit_on_one_line(name, _LONGEST))
    limit = ("--max-images", f"{suite_results.limit}") if suite_results.limit else ()
    suite = make_suite_option_value(suite_results.suite)
    return shlex.join(["roarbench", "run", "--suite", suite, *chosen, *limit, "--store", "NEW-FOLDER"])


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
    version = _list_version_options(results)
    inputs = _list_image_and_network_options(results)
    commands = [("run", *version, *inputs, *options) for options in runs]
    commands.append(("report", *version, *results.options, "-o", "report.html"))
    return [shlex.join(["roarbench", *words]) for words in commands]


def _list_version_options(results: "SuiteResults") -> Options:
    """Return the options that name the suite, its fill and unit if they are not the suite's own, and the images."""
    suffixes = [part.split(" ", 1) for part in results.suite.title_suffix.split(", ")]
    changed = [word for name, *value in suffixes if name in ("fill", "unit") for word in (f"--{name}", *value)]
    limit = ("--max-images", f"{results.limit}") if results.limit else ()
    return ("--suite", make_suite_option_value(results.suite), *limit, *changed)


def _list_image_and_network_options(results: "SuiteResults") -> Options:
    """Return the options of `run` for the images and for the explained networks, with DIR and FILE for local files."""
    options = []
    for option, value in zip(results.options[::2], results.options[1::2], strict=True):
        name = value.partition("@")[0]
        options += [option, "DIR" if option == "--data" else name if name in PUBLISHED_WEIGHTS else "FILE"]
    return tuple(options)


def _list_part_options(results: "SuiteResults", protocol: Protocol) -> tuple[Options, ...]:
    """Return the options of each `run` command that repeats the results of a protocol.

    There is a command for each way to run submissions: in the sandbox or trusted, on the CPU or a GPU.
    """
    suite, kind = results.suite, (protocol.order, protocol.retrain)
    done = [at for at in results.results if at.cell.estimator != CLEAN and (at.cell.order, at.cell.retrain) == kind]
    run = {point.cell.estimator for point in done}
    blocks = [block for block in suite.blocks if block.protocol == protocol]
    rows = [find_estimator_or_placeholder(name) for name in dict.fromkeys(n for b in blocks for n in b.estimators)]
    own = [row.id for row in rows if row.id not in suite.added and not row.is_control_to_beat]
    added = [row for row in rows if row.id in run & suite.added and not row.twin]  # their twins are run with them
    chosen = [name for name in own if name in run] + [row.id for row in added if not row.submitted]
    # controls are run in any case, so that a control alone selects no estimator
    options: Options = ("--estimators", ",".join(chosen or ["random"])) if chosen != own else ()
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
