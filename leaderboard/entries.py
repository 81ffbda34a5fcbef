"""One estimator in all suites: its rows, where its runs come from, and the command that does them again."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leaderboard.source import known
from leaderboard.tables import BoardTable, Entry
from leaderboard.words import plain
from roarbench.estimators import IG_STEPS, NOISE, SAMPLES
from roarbench.reports import describe
from roarbench.standings import Standing
from roarbench.store.results import Result

_SOURCES = {
    "random": "roarbench/estimators/controls.py",
    "sobel": "roarbench/estimators/controls.py",
    "truth": "roarbench/datasets/planted.py",
}
_PAPERS = {  # of the base, then of the form
    "gb": "Springenberg, Dosovitskiy, Brox, Riedmiller: Striving for Simplicity, ICLR workshop 2015",
    "ig": "Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, ICML 2017",
    "grad": "Simonyan, Vedaldi, Zisserman: Deep Inside Convolutional Networks, ICLR workshop 2014",
    "smooth": "Smilkov, Thorat, Kim, Viegas, Wattenberg: SmoothGrad, 2017 (arXiv 1706.03825)",
    "smooth-squared": "Smilkov, Thorat, Kim, Viegas, Wattenberg: SmoothGrad, 2017 (arXiv 1706.03825)",
    "smoothed-square": "Hooker, Erhan, Kindermans, Kim: A Benchmark for Interpretability Methods, NeurIPS 2019",
    "variance": "Adebayo, Gilmer, Goodfellow, Kim: Local Explanation Methods, 2018 (arXiv 1810.03307)",
}


@dataclass(frozen=True)
class Profile:
    """What an estimator is.

    Attributes:
        estimator: Its id.
        about: One sentence.
        control: Never looks at the model.
        papers: Where its base and its form were published.
        source: File of the repository that computes it.
        settings: Its parameters in words; empty where it has none.
    """

    estimator: str
    about: str
    control: bool
    papers: tuple[str, ...]
    source: str
    settings: str


def profile(name: str) -> Profile:
    """What is known of an estimator, as plain text."""
    row = known(name)
    papers = tuple(_PAPERS[part] for part in (row.base, row.form) if part in _PAPERS)
    source = _SOURCES.get(row.base) or f"roarbench/estimators/{'gradients' if row.form == 'base' else 'ensembles'}.py"
    parts = [f"{IG_STEPS} steps from black"] if row.base == "ig" else []
    if row.form not in ("base", "squared", ""):
        parts.append(f"{SAMPLES} noisy copies, noise {NOISE:g} of the image's range")
    return Profile(plain(name), plain(row.about), row.control, papers, source if row.base else "", "; ".join(parts))


def rows_of(tables: Mapping[str, BoardTable], name: str) -> dict[str, Entry]:
    """An estimator's row on every board that has it, by the board's slug."""
    return {key: entry for key, table in tables.items() for entry in table.entries if entry.estimator == name}


def command(held: Standing, name: str) -> str:
    """What to type to do all runs of an estimator in a suite again, in an empty store."""
    limit = f" --limit {held.limit}" if held.limit else ""
    return f"roarbench run --suite {held.suite.name} --estimators {plain(name)}{limit} --store NEW-FOLDER"


def runs_of(held: Standing, name: str) -> list[dict[str, Any]]:
    """Provenance of each run of an estimator, as flat records in the suite's order."""
    found = [(point, result) for point, result in held.results.items() if point.cell.estimator == name]
    return [{"run": plain(describe(point)), **_origin(result)} for point, result in found]


def _origin(result: Result) -> dict[str, Any]:
    made = result.provenance
    return {
        "accuracy": result.correct / result.total,
        "images": result.total,
        "seconds": result.seconds,
        "when": f"{result.created:%Y-%m-%d %H:%M} UTC",
        "code": plain(made.code_version),
        "libraries": plain(", ".join(f"{name} {number}" for name, number in made.versions.items())),
        "machine": plain(", ".join(str(value) for value in made.hardware.values())),
        "recipe": result.run.recipe,
        "key": result.run.key,
    }


def machines(held: Standing) -> list[str]:
    """Code and machines behind a suite's results, the most used first, each with its number of runs."""
    made = Counter(f"{r['code']} on {r['machine']}" for r in map(_origin, held.results.values()))
    return [f"{name} ({count} runs)" for name, count in made.most_common()]
