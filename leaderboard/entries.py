"""One estimator in all suites: its rows, where its runs come from, and the command that does them again."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from leaderboard.papers import papers
from leaderboard.source import known
from leaderboard.words import plain, plain_lines
from roarbench.analysis.boards import SuiteResults
from roarbench.estimators import CUDA, IG_STEPS, NOISE, SAMPLES, TRUSTED, Estimator
from roarbench.plan.runs import describe
from roarbench.store.results import Result
from roarbench.submissions.file import Submission

_COMMON = ("test images", "code", "libraries", "machine", "recipe")  # mostly the same for all runs of an entry
_SOURCES = {
    "random": "roarbench/estimators/controls.py",
    "sobel": "roarbench/estimators/controls.py",
    "truth": "roarbench/datasets/planted.py",
}
_KEY = 12  # hexadecimal digits of a run's key that a command shows: enough to tell 25,000 runs apart


@dataclass(frozen=True)
class Profile:
    """What an estimator is.

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


def profile(name: str, helds: Iterable[SuiteResults] = ()) -> Profile:
    """What is known of an estimator, as plain text.

    Args:
        name: Its id.
        helds: Suites that may hold what was submitted under this id.
    """
    found = [held.submissions[name] for held in helds if name in held.submissions]
    return _handed_in(name, found[0]) if found else _built_in(name)


def _handed_in(name: str, submission: Submission) -> Profile:
    return Profile(
        estimator=plain(name),
        about=plain(submission.description),
        control=False,
        authors=plain(submission.authors),
        papers=(plain(submission.paper),) if submission.paper else (),
        bibtex="",
        source=f"submitted file, sha256 {submission.sha256}",
        settings="",
        claim=plain(submission.claim),
        code=plain_lines(submission.source.decode("utf-8-sig", errors="replace")),
    )


def _built_in(name: str) -> Profile:
    row = known(name)
    published = () if row.twin else papers(row.base, row.form)  # a blurred random map is no one's proposal
    source = _SOURCES.get(row.base) or f"roarbench/estimators/{'gradients' if row.form == 'base' else 'ensembles'}.py"
    return Profile(
        estimator=plain(name),
        about=row.about[:1].upper() + plain(row.about)[1:],
        control=row.control,
        authors=", ".join(dict.fromkeys(author for paper in published for author in paper.authors)),
        papers=tuple(paper.text for paper in published),
        bibtex="\n\n".join(paper.bibtex for paper in published),
        source=source if row.base and not row.submitted else "",
        settings=_settings(row),
    )


def _settings(row: Estimator) -> str:
    parts = [f"{IG_STEPS} steps from black"] if row.base == "ig" else []
    if row.form not in ("base", "squared", ""):
        parts.append(f"{SAMPLES} noisy copies, noise {NOISE:g} of the image's range")
    return "; ".join(parts)


def command(held: SuiteResults, name: str) -> str:
    """What to type to do all runs of an estimator in a suite again, in an empty store."""
    row = known(name)
    asked = "--submission FILE" if row.submitted else f"--estimators {plain(name)}"
    trust = " --trust-submission" if TRUSTED in row.marks else ""
    device = " --submission-device cuda" if CUDA in row.marks else ""
    limit = f" --limit {held.limit}" if held.limit else ""
    return f"roarbench run --suite {held.suite.name} {asked}{trust}{device}{limit} --store NEW-FOLDER"


def runs_of(held: SuiteResults, name: str) -> list[dict[str, Any]]:
    """Provenance of each run of an estimator, as flat records in the suite's order."""
    found = [(point, result) for point, result in held.results.items() if point.cell.estimator == name]
    return [{"run": plain(describe(point)), **_made(result), **_origin(result)} for point, result in found]


def _made(result: Result) -> dict[str, Any]:
    return {
        "accuracy": result.correct / result.total,
        "test images": result.total,
        "wall seconds": result.seconds,
        "when": f"{result.created:%Y-%m-%d %H:%M} UTC",
        "command": f"roarbench reproduce {result.run.key[:_KEY]} --store STORE",
    }


def _origin(result: Result) -> dict[str, str]:
    made = result.provenance
    parts = (_part(name, value) for name, value in made.hardware.items())
    return {
        "code": plain(made.code_version),
        "libraries": plain(", ".join(f"{name} {number}" for name, number in made.versions.items())),
        "machine": plain(", ".join(parts)),
        "recipe": plain(result.run.recipe),
    }


def _part(name: str, value: object) -> str:
    return f"{value} cores" if name == "cores" else str(value)


def shared(runs: list[dict[str, Any]]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """What all runs have in common, and of each run what is left: a table says the same thing once."""
    same = {key: str(runs[0][key]) for key in _COMMON if runs and len({run[key] for run in runs}) == 1}
    return same, [{key: value for key, value in run.items() if key not in same} for run in runs]


def machines(held: SuiteResults) -> list[str]:
    """Code and machines behind a suite's results, the most used first, each with its number of runs."""
    made = Counter(f"{r['code']} on {r['machine']}" for r in map(_origin, held.results.values()))
    return [f"{name} ({count} runs)" for name, count in made.most_common()]
