"""Say what an estimator is called among people, and what about it changes the answer."""

from typing import NamedTuple

from leaderboard.source import lookup_estimator
from leaderboard.text import plain
from roarbench.estimators.catalogue import ESTIMATORS, shown_name
from roarbench.estimators.ids import EstimatorId
from roarbench.estimators.parameters import written

_FORMS = {  # name of an ensemble, and what is said of its sign
    "smooth": ("SmoothGrad", ""),
    "smooth-squared": ("SmoothGrad", "squared"),
    "smoothed-square": ("SmoothGrad-Squared", ""),
    "variance": ("VarGrad", ""),
}
_BLACK = ("ig", "deeplift", "gradient-shap")  # their paths begin at black where nothing else is said


class Name(NamedTuple):
    """A name that people use, and what changes the answer: `Integrated Gradients`, `from the mean`."""

    name: str
    detail: str

    @property
    def whole(self) -> str:
        """Return both: `Integrated Gradients from the mean`."""
        return " ".join(filter(None, self))


def human_name(estimator: str) -> Name:
    """Return how an estimator is called; what nobody named is called by its id."""
    row = lookup_estimator(estimator)
    if row.submitted:
        return Name(plain(EstimatorId.read(estimator).name, 60), "submission")
    if row.base not in ESTIMATORS:
        return Name(plain(estimator, 60), "")
    base = ESTIMATORS[row.base].title
    name, said = _FORMS.get(row.form, (base, "" if row.form == "base" else row.form))
    of = base[0].lower() + base[1:] if name != base and row.base != "grad" else ""
    values = ({"baseline": "black"} if row.base in _BLACK else {}) | dict(row.values)
    parts = [
        f"of {of}" if of else "",
        said,
        *(f"from {v}" if k == "baseline" else f"{k} {written(v)}" for k, v in values.items()),
    ]
    if estimator == "random-blurred":
        name = row.title
    if shown_name(estimator) != estimator:
        parts.append(shown_name(estimator).partition("(")[2].rstrip(")").replace("=", " "))
    detail = ", ".join(filter(None, parts))
    return Name(name, detail.replace("from mean", "from the mean"))
