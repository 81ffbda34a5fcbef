"""Published accuracies as curves, in the words used here; `data/README.md` has their sources."""

import csv
from collections.abc import Mapping
from importlib.resources import files

from roarbench.enums import Order
from roarbench.errors import UnknownName

Curve = Mapping[float, float]  # accuracy in [0, 1] by level; level 0 is the untouched images
Curves = Mapping[str, Mapping[str, Curve]]  # by data set, then by estimator

HOOKER_DATASETS = {"ImageNet": "imagenet", "Food_101": "food101", "Birdsnap": "birdsnap"}
HOOKER_ESTIMATORS = {
    "Random": "random",
    "Sobel": "sobel-released",  # as the paper's code computes it; `sobel` here is another control
    "GRAD": "grad",
    "SG-GRAD": "sg-grad",
    "SG-SQ-GRAD": "sgsq-grad",
    "VAR-GRAD": "var-grad",
    "GB": "gb",
    "SG-GB": "sg-gb",
    "SG-SQ-GB": "sgsq-gb",
    "VAR-GB": "var-gb",
    "IG": "ig",
    "SG-IG": "sg-ig",
    "SG-SQ-IG": "sgsq-ig",
    "VAR-IG": "var-ig",
}
# Hooker et al. 2019, section 4: the accuracy of an ImageNet model that is not retrained, 90% removed at random
UNRETRAINED: Curves = {"imagenet": {"random": {0.9: 0.005}}}


def read_hooker2019(order: Order) -> Curves:
    """Read ROAR (MoRF) or KAR (LeRF) of Hooker et al. 2019: 14 rankings, 3 data sets, 5 levels, means of 5 runs.

    KAR is published by the fraction kept; here, as everywhere, the level is the fraction removed.
    """
    mode = "remove" if order is Order.MORF else "keep"
    with (files("roarbench") / "data" / "hooker2019_table2.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    clean = {HOOKER_DATASETS[row["dataset"]]: row for row in rows if row["mode"] == "clean"}
    curves: dict[str, dict[str, dict[float, float]]] = {dataset: {} for dataset in HOOKER_DATASETS.values()}
    for row in (row for row in rows if row["mode"] == mode):
        dataset, percent = HOOKER_DATASETS[row["dataset"]], int(row["threshold_percent"])
        removed = percent if order is Order.MORF else 100 - percent
        curve = curves[dataset].setdefault(HOOKER_ESTIMATORS[row["estimator"]], {0.0: _accuracy(clean[dataset])})
        curve[removed / 100] = _accuracy(row)
    return {data: {name: dict(sorted(curve.items())) for name, curve in held.items()} for data, held in curves.items()}


def read_published_curves(dataset: str, order: Order) -> Mapping[str, Curve]:
    """Return the curves of Hooker et al. 2019 on one data set, by estimator; UnknownName if they did not use it."""
    curves = read_hooker2019(order)
    if dataset not in curves:
        raise UnknownName("published data set", dataset, curves)
    return curves[dataset]


def _accuracy(row: Mapping[str, str]) -> float:
    return float(row["top1_accuracy_percent"]) / 100
