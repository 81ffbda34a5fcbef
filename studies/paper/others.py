"""ROAR on CIFAR-10 as other papers measured it, beside the published rows.

cifar10_of_others.csv has accuracies after retraining, in percent. Rong et al. (ICML 2022, arXiv 2202.00449): the four
plots in RankCorrelation-checkpoint.ipynb of tleemann/road_evaluation@e6b9987, digitised, about +-.3 points and +-1
where curves cross; ResNet-18, means of 5 runs, the true class explained, whole pixels removed. Khakzar et al. (CVPR
2021): saurabheights/ROAR, one run each, whole pixels removed.
"""

import csv
from collections import defaultdict
from pathlib import Path

from scipy.stats import kendalltau

from roarbench.enums import Unit
from roarbench.report.claim_table import compute_accuracy_tables
from roarbench.text import MISSING, format_markdown_table
from studies.paper.published import HIGH, DataSet

FILE = Path(__file__).with_name("cifar10_of_others.csv")
_LEVELS = (0.1, 0.5, HIGH)
_PAPERS = {"rong2022": "Rong et al.", "khakzar2021": "Khakzar et al."}
_OURS = "ours"


def others(sets: list[DataSet]) -> str:
    """Return accuracies after retraining on CIFAR-10 by other papers and ours, in percent, and Kendall's tau."""
    found = _read()
    results = next(each.results for each in sets if each.name == "cifar10")
    for name, curve in compute_accuracy_tables(results, Unit.SCALAR).roar[results.suite.dataset].items():
        for level in _LEVELS:
            if level in curve:
                found[_OURS, level][name] = 100 * curve[level]
    names = sorted({name for (paper, _), rows in found.items() if paper in _PAPERS for name in rows})
    sources = {**_PAPERS, _OURS: _OURS}
    columns = [(paper, level) for level in _LEVELS for paper in sources]
    rows = [[f"`{name}`", *(_format(found[column].get(name)) for column in columns)] for name in names]
    taus = [_correlate(found[column], found[_OURS, column[1]]) if column[0] in _PAPERS else "" for column in columns]
    heads = [f"{sources[paper]}, {level:g}" for paper, level in columns]
    return format_markdown_table(("removed first", *heads), [*rows, ["Kendall's tau with ours", *taus]])


def _read() -> dict[tuple[str, float], dict[str, float]]:
    found = defaultdict[tuple[str, float], dict[str, float]](dict)
    with FILE.open() as file:
        for row in csv.DictReader(file):
            found[row["paper"], float(row["removed"])][row["estimator"]] = float(row["accuracy"])
    return found


def _correlate(theirs: dict[str, float], ours: dict[str, float]) -> str:
    names = theirs.keys() & ours.keys()
    if len(names) < 2:
        return MISSING
    tau = kendalltau([theirs[name] for name in names], [ours[name] for name in names]).statistic
    return f"{tau:+.2f} ({len(names)} rows)"


def _format(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"
