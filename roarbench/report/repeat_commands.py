"""Write the commands that repeat stored runs: those of one estimator, or all runs of a suite."""

import shlex
from typing import TYPE_CHECKING

from roarbench.common.text import fit_on_one_line
from roarbench.estimators.catalogue import find_estimator_or_placeholder
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.ids import CUDA, TRUSTED, EstimatorId
from roarbench.plan.given_weights_titles import PUBLISHED_WEIGHTS
from roarbench.plan.suites import make_suite_option_value

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults

_LONGEST = 300  # maximum characters of an id
Options = tuple[str, ...]


def make_repeat_command(suite_results: "SuiteResults", name: str) -> str:
    """Return the command that repeats all runs of an estimator in an empty store."""
    row = find_estimator_or_placeholder(name)
    if row.submitted:
        chosen = _list_submission_options(row, "FILE")
    else:
        chosen = ("--estimators", fit_on_one_line(name, _LONGEST))
    limit = ("--max-images", f"{suite_results.limit}") if suite_results.limit else ()
    suite = make_suite_option_value(suite_results.suite)
    return shlex.join(["roarbench", "run", "--suite", suite, *chosen, *limit, "--store", "NEW-FOLDER"])


def list_report_commands(results: "SuiteResults") -> list[str]:
    """Return the commands that run a suite and its submissions, and last the command that writes the report.

    A submission's file is named as `new-submission` names it, because a store does not know the file's name.
    """
    rows = [find_estimator_or_placeholder(name) for name in results.by_estimator]
    submissions = [row for row in rows if row.submitted and not row.twin]
    version = _list_version_options(results)
    run = ("run", *version, *_list_image_and_network_options(results))
    commands = [run, ("report", *version, *results.options, "-o", "report.html")]
    for row in submissions:
        file = f"{row.parsed_id.name.replace('-', '_')}.py"
        commands.insert(-1, (*run, *_list_submission_options(row, file)))
    return [shlex.join(["roarbench", *words]) for words in commands]


def _list_version_options(results: "SuiteResults") -> Options:
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


def _list_submission_options(submission: Estimator, file: str) -> Options:
    """Return the options of `run` for a submission with its parameters, without the sandbox or on a GPU."""
    listed = EstimatorId.parse(fit_on_one_line(submission.id, _LONGEST)).listed
    marks = submission.parsed_id.marks
    trust = ("--trust-submission",) if TRUSTED in marks else ()
    device = ("--submission-device", "cuda") if CUDA in marks else ()
    return ("--submission", f"{file}({listed})" if listed else file, *trust, *device)
