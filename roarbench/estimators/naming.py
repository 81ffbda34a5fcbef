"""What people call an estimator, of the table, by its parameters, or handed in. Nothing here imports torch."""

from typing import NamedTuple

from roarbench.errors import CallerError
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator, format_name
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.estimators.parameters import format_value
from roarbench.text import fit_on_one_line

_FORMS = {  # name of an ensemble, and what is said of its sign
    "smooth": ("SmoothGrad", ""),
    "smooth-squared": ("SmoothGrad", "squared"),
    "smoothed-square": ("SmoothGrad-Squared", ""),
    "variance": ("VarGrad", ""),
}
_BLACK = ("ig", "deeplift", "gradient-shap")  # their paths begin at black where nothing else is said


def find_known_estimator(name: str) -> Estimator:
    """Return the estimator of this id, or a bare record of one that only a newer version knows."""
    try:
        return find_estimator(name)
    except CallerError:
        return Estimator(name, "", "", "not in this version's table of estimators")


class Name(NamedTuple):
    """A name that people use, and what changes the answer: `Integrated Gradients`, `from the mean`."""

    name: str
    detail: str

    @property
    def whole(self) -> str:
        """Return both: `Integrated Gradients from the mean`."""
        return " ".join(filter(None, self))


def describe_control_inputs(control: str) -> str:
    """Return what a control sees of the network, as the predicate of a sentence."""
    told = find_known_estimator(control).uses_prediction
    return "knows no more of the network than the class that it predicts" if told else "never sees the network"


def find_display_name(estimator: str) -> Name:
    """Return how an estimator is called; what nobody named is called by its id."""
    row = find_known_estimator(estimator)
    if row.submitted:
        return Name(fit_on_one_line(EstimatorId.read(estimator).name, 60), "submission")
    if row.base not in ESTIMATORS:
        return Name(fit_on_one_line(estimator, 60), "")
    base = ESTIMATORS[row.base].title
    name, said = _FORMS.get(row.form, (base, "" if row.form == "base" else row.form))
    of = f"of {base[0].lower()}{base[1:]}" if name != base and row.base != "grad" else ""
    values = ({"baseline": "black"} if row.base in _BLACK else {}) | dict(row.values)
    parts = [of, said, *(f"from {v}" if k == "baseline" else f"{k} {format_value(v)}" for k, v in values.items())]
    if estimator == "random-blurred":
        name = row.title
    if format_name(estimator) != estimator:
        parts.append(format_name(estimator).partition("(")[2].rstrip(")").replace("=", " "))
    return Name(name, ", ".join(filter(None, parts)).replace("from mean", "from the mean"))
