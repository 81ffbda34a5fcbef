"""ROAR on CIFAR-10 as other papers measured it, beside the published rows.

cifar10_of_others.csv has accuracies after retraining, in percent. Rong et al. (ICML 2022, arXiv 2202.00449): the four
plots in RankCorrelation-checkpoint.ipynb of tleemann/road_evaluation@e6b9987, digitised, about +-.3 points and +-1
where curves cross; ResNet-18, means of 5 runs, the true class explained, whole pixels removed. Khakzar et al. (CVPR
2021): saurabheights/ROAR, one run each, whole pixels removed.
"""

import csv
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from scipy.stats import kendalltau

from roarbench.analysis.paper_claims import Curve
from roarbench.common.enums import Unit
from roarbench.common.text import MISSING, format_markdown_table
from roarbench.report.claim_table import compute_accuracy_tables
from studies.paper.published import HIGH, DataSet, format_accuracy

FILE = Path(__file__).with_name("cifar10_of_others.csv")
_LEVELS = (0.1, 0.5, HIGH)
_PAPERS = {"rong2022": "Rong et al.", "khakzar2021": "Khakzar et al."}
_OURS = "ours"


def others(sets: list[DataSet]) -> str:
    """Return accuracies after retraining on CIFAR-10 by other papers and ours, in percent, and Kendall's tau."""
    results = next(each.results for each in sets if each.name == "cifar10")
    found = _read_curves() | {_OURS: compute_accuracy_tables(results, Unit.SCALAR).roar[results.suite.dataset]}
    names = sorted({name for paper in _PAPERS for name in found[paper]})
    columns = [(paper, level) for level in _LEVELS for paper in (*_PAPERS, _OURS)]
    rows = [
        [f"`{name}`", *(format_accuracy(found[paper].get(name, {}), level) for paper, level in columns)]
        for name in names
    ]
    taus = ["" if paper == _OURS else _correlate(found[paper], found[_OURS], level) for paper, level in columns]
    heads = [f"{_PAPERS.get(paper, _OURS)}, {level:g}" for paper, level in columns]
    return format_markdown_table(("removed first", *heads), [*rows, ["Kendall's tau with ours", *taus]])


def _read_curves() -> dict[str, Mapping[str, Curve]]:
    found = {paper: defaultdict[str, dict[float, float]](dict) for paper in _PAPERS}
    with FILE.open() as file:
        for row in csv.DictReader(file):
            found[row["paper"]][row["estimator"]][float(row["removed"])] = float(row["accuracy"]) / 100
    return {**found}


def _correlate(theirs: Mapping[str, Curve], ours: Mapping[str, Curve], level: float) -> str:
    names = [name for name, curve in theirs.items() if level in curve and level in ours.get(name, {})]
    if len(names) < 2:
        return MISSING
    tau = kendalltau(*([curves[name][level] for name in names] for curves in (theirs, ours))).statistic
    return f"{tau:+.2f} ({len(names)} rows)"
