"""Words of the pages: what estimators and questions are called, and text from outside made plain."""

import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata
from typing import NamedTuple

from roarbench.errors import CallerError
from roarbench.estimators import Estimator
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator, shown_name
from roarbench.estimators.ids import EstimatorId
from roarbench.estimators.parameters import written
from roarbench.protocols.declaration import Protocol
from roarbench.text import one_line

ADVICE = "Results come with roarbench run --suite quick-matched --store STORE; open the board on the same store."
_FORMS = {  # name of an ensemble, and what is said of its sign
    "smooth": ("SmoothGrad", ""),
    "smooth-squared": ("SmoothGrad", "squared"),
    "smoothed-square": ("SmoothGrad-Squared", ""),
    "variance": ("VarGrad", ""),
}
_BLACK = ("ig", "deeplift", "gradient-shap")  # their paths begin at black where nothing else is said


def _repository() -> str:
    """Return the public address of the source, as the installed package says it; empty where it says none."""
    with suppress(PackageNotFoundError):
        for url in metadata("roarbench").get_all("Project-URL") or []:
            name, _, address = url.partition(", ")
            if name == "Repository":
                return str(address.rstrip("/"))
    return ""


REPOSITORY = _repository()


def plain(text: str, longest: int = 300) -> str:
    """Return text from outside as one printable line, cut where it is too long."""
    return one_line(text, longest)


def capital(words: str) -> str:
    """Return words with a capital at their beginning; the others stay as they are."""
    return words[:1].upper() + words[1:]


def typeset(text: str) -> str:
    """Return a text with real minus signs, and a narrow space before percent signs."""
    return re.sub(r"(?<!\w)-(?=\d)", "−", text.replace("%", "\N{NARROW NO-BREAK SPACE}%"))


def lede(protocol: Protocol) -> str:
    """Return what one dot of a board shows, as HTML of ours."""
    return re.sub(r"\*(.+?)\*", r"<b>\1</b>", protocol.dot.replace("'", "’"))


def lookup_estimator(name: str) -> Estimator:
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


def human_name(estimator: str) -> Name:
    """Return how an estimator is called; what nobody named is called by its id."""
    row = lookup_estimator(estimator)
    if row.submitted:
        return Name(plain(EstimatorId.read(estimator).name, 60), "submission")
    if row.base not in ESTIMATORS:
        return Name(plain(estimator, 60), "")
    base = ESTIMATORS[row.base].title
    name, said = _FORMS.get(row.form, (base, "" if row.form == "base" else row.form))
    of = f"of {base[0].lower()}{base[1:]}" if name != base and row.base != "grad" else ""
    values = ({"baseline": "black"} if row.base in _BLACK else {}) | dict(row.values)
    parts = [of, said, *(f"from {v}" if k == "baseline" else f"{k} {written(v)}" for k, v in values.items())]
    if estimator == "random-blurred":
        name = row.title
    if shown_name(estimator) != estimator:
        parts.append(shown_name(estimator).partition("(")[2].rstrip(")").replace("=", " "))
    return Name(name, ", ".join(filter(None, parts)).replace("from mean", "from the mean"))
