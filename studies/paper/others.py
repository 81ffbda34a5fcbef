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

from roarbench.common.enums import Unit
from roarbench.common.text import MISSING, format_interval, format_markdown_table
from roarbench.plan.protocols import DIFFROAR, ROAR
from roarbench.report.paper_claims import Curve, compute_mean_accuracies
from studies.paper.published import HIGH, DataSet, format_accuracy

FILE = Path(__file__).with_name("cifar10_of_others.csv")
_LEVELS = (0.1, 0.5, HIGH)
_PAPERS = {"rong2022": "Rong et al.", "khakzar2021": "Khakzar et al."}
_OURS = "ours"
# DiffROAR of a ResNet-50 on CIFAR-10 by level, in points, with its standard deviation between pairs of runs (vector
# paths of plots/feature_inversion_cifar10.pdf in harshays/inputgradients@3770469; Shah et al., arXiv 2102.12781)
_SHAH = {0.1: (0.98, 0.45), 0.5: (1.00, 0.55), HIGH: (-4.75, 0.30)}
_SQUARED_GRADIENT = "grad-sq"  # ranks features as Shah et al. do, who take the absolute gradient


def others(sets: list[DataSet]) -> str:
    """Make a table of accuracies after retraining on CIFAR-10 in other papers and ours, with Kendall's tau."""
    results = next(dataset.results for dataset in sets if dataset.name == "cifar10")
    curves = _read_curves() | {_OURS: compute_mean_accuracies(results, ROAR, Unit.SCALAR)}
    names = sorted({name for paper in _PAPERS for name in curves[paper]})
    columns = [(paper, level) for level in _LEVELS for paper in (*_PAPERS, _OURS)]
    rows = [
        [f"`{name}`", *(format_accuracy(curves[paper].get(name, {}), level) for paper, level in columns)]
        for name in names
    ]
    taus = ["" if paper == _OURS else _correlate(curves[paper], curves[_OURS], level) for paper, level in columns]
    heads = [f"{_PAPERS.get(paper, _OURS)}, {level:g}" for paper, level in columns]
    return format_markdown_table(("removed first", *heads), [*rows, ["Kendall's tau with ours", *taus]])


def diffroar_of_shah(sets: list[DataSet]) -> str:
    """Make a table of accuracy under KAR minus ROAR of the squared gradient, by level, ours and Shah et al.'s."""
    shown = [dataset for dataset in sets if _SQUARED_GRADIENT in dataset.diffroar]
    levels = [dataset.results.list_included_levels(DIFFROAR, Unit.SCALAR) for dataset in shown]
    differences = [dataset.diffroar[_SQUARED_GRADIENT].differences for dataset in shown]
    by_level = [dict(zip(*pair, strict=True)) for pair in zip(levels, differences, strict=True)]
    rows = [
        [f"{t:g}", *(format_interval(of[t].in_points) if t in of else MISSING for of in by_level), _format_shah(t)]
        for t in sorted({t for of in by_level for t in of})
    ]
    return format_markdown_table(("level", *(dataset.name for dataset in shown), "Shah et al., cifar10, ± sd"), rows)


def _format_shah(level: float) -> str:
    return "{:+.1f} ± {:.1f}".format(*_SHAH[level]) if level in _SHAH else MISSING


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
