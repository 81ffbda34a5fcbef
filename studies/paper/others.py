"""Compare ROAR accuracies on CIFAR-10 in other papers with the published results.

cifar10_of_others.csv has accuracies after retraining, in percent. Those of Rong et al. (ICML 2022, arXiv 2202.00449)
were digitised from the four plots in RankCorrelation-checkpoint.ipynb of tleemann/road_evaluation@e6b9987; their error
is about 0.3 points, and 1 point where curves cross. Rong et al. used ResNet-18, means of 5 runs, maps of the true class
and whole pixels. Those of Khakzar et al. (CVPR 2021) are from saurabheights/ROAR, with one run each and whole pixels.
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
    """Make a table of accuracies after retraining on CIFAR-10 in other papers and ours, with Kendall's tau."""
    results = next(dataset.results for dataset in sets if dataset.name == "cifar10")
    curves = _read_curves() | {_OURS: compute_accuracy_tables(results, Unit.SCALAR).roar[results.suite.dataset]}
    names = sorted({name for paper in _PAPERS for name in curves[paper]})
    columns = [(paper, level) for level in _LEVELS for paper in (*_PAPERS, _OURS)]
    rows = [
        [f"`{name}`", *(format_accuracy(curves[paper].get(name, {}), level) for paper, level in columns)]
        for name in names
    ]
    taus = ["" if paper == _OURS else _correlate(curves[paper], curves[_OURS], level) for paper, level in columns]
    heads = [f"{_PAPERS.get(paper, _OURS)}, {level:g}" for paper, level in columns]
    return format_markdown_table(("removed first", *heads), [*rows, ["Kendall's tau with ours", *taus]])


def _read_curves() -> dict[str, Mapping[str, Curve]]:
    curves = {paper: defaultdict[str, dict[float, float]](dict) for paper in _PAPERS}
    with FILE.open() as file:
        for row in csv.DictReader(file):
            curves[row["paper"]][row["estimator"]][float(row["removed"])] = float(row["accuracy"]) / 100
    return {**curves}


def _correlate(theirs: Mapping[str, Curve], ours: Mapping[str, Curve], level: float) -> str:
    names = [name for name, curve in theirs.items() if level in curve and level in ours.get(name, {})]
    if len(names) < 2:
        return MISSING
    tau = kendalltau(*([curves[name][level] for name in names] for curves in (theirs, ours))).statistic
    return f"{tau:+.2f} ({len(names)} rows)"
