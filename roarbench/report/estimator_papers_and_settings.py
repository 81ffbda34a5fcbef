"""Collect an estimator's papers, source file and settings, and write the command that repeats its runs."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.text import fit_on_one_line, make_printable
from roarbench.estimators.catalogue import find_estimator_or_placeholder
from roarbench.estimators.ids import CUDA, PARAMETERS, TRUSTED, EstimatorId, format_value
from roarbench.plan.suites import make_suite_option_value

_LONGEST = 300  # maximum characters of a line from outside


@dataclass(frozen=True)
class EstimatorPapersAndSettings:
    """Papers, source file and settings of an estimator, as plain text; an unknown value is empty.

    Each setting is one line. The papers describe the estimator's base and form. Only submissions have `claim` and
    `code`; in both, control characters are replaced by spaces.
    """

    source: str
    settings: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()
    bibtex: str = ""
    claim: str = ""
    code: str = ""


def collect_papers_and_settings(name: str, suites: Iterable[SuiteResults] = ()) -> EstimatorPapersAndSettings:
    """Collect the facts about an estimator; a submission with this id is looked up in the suites."""
    row = find_estimator_or_placeholder(name)
    submission = next((results.submissions[name] for results in suites if name in results.submissions), None)
    if submission:
        code = submission.source.decode("utf-8-sig", errors="replace").expandtabs(4)
        return EstimatorPapersAndSettings(
            source=f"submitted file, sha256 {submission.sha256}",
            settings=tuple(f"{name} {format_value(value)}" for name, value in submission.values),
            papers=(fit_on_one_line(submission.paper, _LONGEST),) if submission.paper else (),
            claim=fit_on_one_line(submission.claim, _LONGEST),
            code="\n".join(map(make_printable, code.splitlines())),
        )
    published = () if row.twin else row.papers or ()  # a blurred map has no publication of its own
    papers, bibtex = tuple(paper.text for paper in published), "\n\n".join(paper.bibtex for paper in published)
    settings = tuple(f"{name} {format_value(row.get_value(name))}: {PARAMETERS[name].about}" for name in row.parameters)
    source_file = f"{row.module.replace('.', '/')}.py" if row.module else ""
    return EstimatorPapersAndSettings(source_file, settings, papers, bibtex)


def make_repeat_command(suite_results: SuiteResults, name: str) -> str:
    """Return the command that repeats all runs of an estimator in an empty store."""
    row = find_estimator_or_placeholder(name)
    listed = EstimatorId.parse(fit_on_one_line(name, _LONGEST)).listed or "" if row.submitted else ""
    file = shlex.quote(f"FILE({listed})") if listed else "FILE"
    option = f"--submission {file}" if row.submitted else f"--estimators {shlex.quote(fit_on_one_line(name, _LONGEST))}"
    trust = " --trust-submission" if TRUSTED in row.parsed_id.marks else ""
    device = " --submission-device cuda" if CUDA in row.parsed_id.marks else ""
    limit = f" --max-images {suite_results.limit}" if suite_results.limit else ""
    suite = make_suite_option_value(suite_results.suite)
    return f"roarbench run --suite {suite} {option}{trust}{device}{limit} --store NEW-FOLDER"
