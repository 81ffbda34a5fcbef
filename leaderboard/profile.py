"""What is known of an estimator: its papers, its file, and the command that repeats its runs."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from leaderboard.source import lookup_estimator
from leaderboard.text import plain, plain_lines
from roarbench.analysis.boards import SuiteResults
from roarbench.estimators import NOISY, Estimator
from roarbench.estimators.ids import CUDA, TRUSTED, EstimatorId
from roarbench.estimators.parameters import PARAMETERS, written
from roarbench.submissions.file import Submission


@dataclass(frozen=True)
class Profile:
    """Facts about an estimator.

    Attributes:
        estimator: Its id.
        about: One sentence.
        control: Never looks at the model.
        authors: Of these papers.
        papers: Where its base and its form were published, one line each.
        bibtex: The same for a bibliography; empty where there is none.
        source: File of the repository that computes it.
        settings: Its parameters in words; empty where it has none.
        claim: What the authors of a submission say that it is good for; empty where they do not.
        code: The file that was submitted; empty for what comes with the benchmark.
    """

    estimator: str
    about: str
    control: bool
    authors: str
    papers: tuple[str, ...]
    bibtex: str
    source: str
    settings: str
    claim: str = ""
    code: str = ""


def profile(name: str, suites: Iterable[SuiteResults] = ()) -> Profile:
    """Return what is known of an estimator, as plain text.

    Args:
        name: Its id.
        suites: Those that may have a submission of this id.
    """
    found = [each.submissions[name] for each in suites if name in each.submissions]
    return _submitted(name, found[0]) if found else _built_in(name)


def _submitted(name: str, submission: Submission) -> Profile:
    return Profile(
        estimator=plain(name),
        about=plain(submission.description),
        control=False,
        authors=plain(submission.authors),
        papers=(plain(submission.paper),) if submission.paper else (),
        bibtex="",
        source=f"submitted file, sha256 {submission.sha256}",
        settings="; ".join(f"{name} {written(value)}" for name, value in submission.values),
        claim=plain(submission.claim),
        code=plain_lines(submission.source.decode("utf-8-sig", errors="replace")),
    )


def _built_in(name: str) -> Profile:
    row = lookup_estimator(name)
    published = () if row.twin else row.papers or ()  # a blurred random map is no one's proposal
    return Profile(
        estimator=plain(name),
        about=row.about[:1].upper() + plain(row.about)[1:],
        control=row.control,
        authors=", ".join(dict.fromkeys(author for paper in published for author in paper.authors)),
        papers=tuple(paper.text for paper in published),
        bibtex="\n\n".join(paper.bibtex for paper in published),
        source=row.source,
        settings=_settings(row),
    )


def _settings(row: Estimator) -> str:
    value = row.value
    parts = [f"{value('steps')} steps from {value('baseline')}"] if row.base == "ig" else []
    if row.form in NOISY:
        parts.append(f"{value('samples')} noisy copies, noise {written(value('noise'))} of the image's range")
    if row.own_passes:
        parts += [f"{name} {written(value(name))}: {PARAMETERS[name].about}" for name in row.parameters]
    return "; ".join(parts)


def command(suite_results: SuiteResults, name: str) -> str:
    """Return the command that repeats all runs of an estimator in a suite, in an empty store."""
    row = lookup_estimator(name)
    listed = EstimatorId.read(plain(name)).listed or "" if row.submitted else ""
    file = shlex.quote(f"FILE({listed})") if listed else "FILE"
    asked = f"--submission {file}" if row.submitted else f"--estimators {shlex.quote(plain(name))}"
    trust = " --trust-submission" if TRUSTED in row.marks else ""
    device = " --submission-device cuda" if CUDA in row.marks else ""
    limit = f" --limit {suite_results.limit}" if suite_results.limit else ""
    return f"roarbench run --suite {suite_results.suite.called} {asked}{trust}{device}{limit} --store NEW-FOLDER"
