"""The table of estimators: look up ids, find names for readers, and count passes. Nothing here imports torch.

The estimators are declared in the files of `roarbench.estimators.families`; the table lists controls first. The meaning
of a published id never changes: if a definition changes, the estimator gets a new version.
"""

import re
from collections.abc import Iterable, Set
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from roarbench.common.enums import MATCHED_IMAGE, OTHER_IMAGE, OTHER_REFERENCE, Order
from roarbench.common.errors import CallerError, UnknownName
from roarbench.common.text import fit_on_one_line
from roarbench.estimators import families
from roarbench.estimators.estimator import (
    EXCHANGED_TWINS,
    NOISY,
    SUBMISSION,
    UNRANKED_TWINS,
    Estimator,
    Passes,
    Search,
    SharedPassSettings,
)
from roarbench.estimators.ids import (
    CUDA,
    TRUSTED,
    EstimatorId,
    Value,
    format_value,
    make_twin_id,
    parse_nondefault_parameters,
)

_FORMS = {  # from a form to the ensemble's name and the operation that follows it
    "smooth": ("SmoothGrad", ""),
    "smooth-squared": ("SmoothGrad", "squared"),
    "smoothed-square": ("SmoothGrad-Squared", ""),
    "variance": ("VarGrad", ""),
}
_OTHER_NAMES = {  # names in captum, zennit and Quantus that differ from our ids and titles
    "saliency": "grad",
    "vanillagradients": "grad",
    "inputxgradient": "input-x-grad",
    "gradientxinput": "input-x-grad",
    "layergradcam": "gradcam",
    "noisetunnel": "sg-grad",
    "deepliftshap": "deeplift",
    "shapleyvaluesampling": "shapley",
    "epsilonplus": "lrp",
}
# default number of features per image in `count_passes`: that of breast-cancer-10, whose suites have Shapley values,
# which take one pass per coalition of an image's features
FEATURES = 10
_BLACK = ("ig", "deeplift", "gradient-shap")  # bases whose path starts at black by default
BaseAndForm = tuple[str, str]


_PARAMETER = r"[A-Za-z][A-Za-z0-9_]{0,39}=[A-Za-z0-9._+-]{1,100}"  # a parameter of a submission, declared in its file
# id of a submission, to which suffixes of twins may be appended
_SUBMISSION_ID = re.compile(
    rf"[a-z0-9-]{{1,40}}@[0-9a-f]{{8}}(\({_PARAMETER}(,{_PARAMETER})*\))?(~{TRUSTED})?(~{CUDA})?"
)
_files = [file.name for file in iter_modules(families.__path__, f"{families.__name__}.")]
_declared = (replace(r, base=r.base or r.id, module=file) for file in _files for r in import_module(file).ESTIMATORS)
ESTIMATORS: dict[str, Estimator] = {row.id: row for row in sorted(_declared, key=lambda row: not row.control)}
PAPER_IDS = tuple(row.id for row in ESTIMATORS.values() if row.uses_shared_pass)  # the 18 of Hooker et al. 2019
TWINS = {
    "blurred": "its map after a Gaussian blur, which adds no information",
    "untrained": "its map of the explained network with random weights",
    "shuffled": "its map of the explained network with each layer's weights shuffled",
    "other-target": "its map of a random class that the explained network does not predict",
    OTHER_REFERENCE: "its map of another explained network of the suite",
    OTHER_IMAGE: "its map of another image, which has no information about this image",
    MATCHED_IMAGE: "its map of another image, matched to remove as many features of each stratum as the own map",
}


def find_estimator(name: str, suggestions: Iterable[str] = ()) -> Estimator:
    """Look up an estimator by its id: an id of the table, a submission's id `NAME@hash`, or a twin's id `ID~TWIN`.

    An estimator of the table may have parameters, `ID(noise=0.05)`. The returned id lists the parameters that differ
    from the defaults, with each number in its shortest form: `var-grad(noise=.050)` becomes `var-grad(noise=0.05)`. The
    parameters of a submission are kept as written, because only its file defines them.

    Args:
        name: Id of the estimator.
        suggestions: Further names that the error may suggest.

    Raises:
        UnknownName: There is no such estimator.
        CallerError: The estimator lacks these parameters or does not accept these values.
    """
    return ESTIMATORS[name] if name in ESTIMATORS else _derive_estimator(name, tuple(suggestions))


@lru_cache(4096)  # a page looks up each of its rows a hundred times
def _derive_estimator(name: str, suggestions: tuple[str, ...]) -> Estimator:
    estimator_id = EstimatorId.parse(name)
    if "@" not in name and ("(" in name or ")" in name):
        if estimator_id.listed is None:
            raise CallerError(f"cannot read the estimator '{estimator_id}'; write ID(noise=0.05)")
        plain = replace(estimator_id, name=estimator_id.name.strip(), listed=None)
        table, base = find_estimator(str(plain), suggestions), find_estimator(plain.name)
        values = parse_nondefault_parameters(base.id, base.parameters, estimator_id.listed, str(estimator_id))
        if not values:
            return table
        listed = ",".join(f"{key}={format_value(value)}" for key, value in values.items())
        about = ", ".join(f"{key} {format_value(value)}" for key, value in values.items())
        full_id = str(replace(plain, listed=listed))
        return replace(table, id=full_id, about=f"{table.about}; {about}", values=tuple(values.items()))
    if _SUBMISSION_ID.fullmatch(name):
        return Estimator(name, SUBMISSION, about="a submission")
    parent, twin = None, estimator_id.twins[-1] if estimator_id.twins else ""
    with suppress(UnknownName):
        parent = find_estimator(str(estimator_id.parent)) if twin else None
    if parent is None or twin not in _list_twins(parent):
        twins = (make_twin_id(row.id, twin) for row in ESTIMATORS.values() for twin in _list_twins(row))
        known = (*ESTIMATORS, *twins, *suggestions)
        ids: dict[str, str] = {}  # by titles, and by names in other libraries
        for row in ESTIMATORS.values():
            for one in (row.id, row.title, find_display_name(row.id).name):
                ids.setdefault(_reduce_to_lower_case_letters(one), row.id)
        meant = (_OTHER_NAMES | ids).get(_reduce_to_lower_case_letters(name.rpartition(".")[2]), "")
        raise UnknownName("estimator", name, known, "estimators", meant)
    return replace(parent, id=name, twin=twin, about=f"{parent.id}: {TWINS[twin]}")


def _reduce_to_lower_case_letters(name: str) -> str:
    return re.sub("[^a-z]", "", name.lower())


def split_estimator_ids(text: str) -> list[str]:
    """Split a list of ids at commas that are not in parentheses."""
    ids, depth = [""], 0
    for character in text:
        depth = max(0, depth + (character == "(") - (character == ")"))
        if character == "," and not depth:
            ids.append("")
        else:
            ids[-1] += character
    return ids


def format_id_with_samples(name: str) -> str:
    """Format an id for tables, with its samples if the default is too small to converge, as in `rise(samples=256)`.

    A blind search has its passes, as in `search(passes=32)`: tables have searches of several lengths.
    """
    estimator_id = EstimatorId.parse(name)
    shown = [f"{key}={value}" for key, value in _find_shown_defaults(estimator_id).items()]
    return str(replace(estimator_id, listed=",".join(filter(None, (*shown, estimator_id.listed))))) if shown else name


def _find_shown_defaults(estimator_id: EstimatorId) -> dict[str, Value]:
    row = None if estimator_id.submitted else ESTIMATORS.get(estimator_id.name)
    shown = "passes" if row and row.is_search else "samples" if row and row.few_samples else ""
    return {shown: row.parameters[shown]} if row and shown and f"{shown}=" not in (estimator_id.listed or "") else {}


def _strip_hash_and_marks(submission: EstimatorId) -> EstimatorId:
    return replace(submission, digits=None, marks=())


def choose_row_names(rows: Iterable[str]) -> dict[str, str]:
    """Return a dict from each id of a table to the name of its row.

    A submission's row has the name that the submission's author chose. If another submission or an estimator of the
    table has the same name, the row has the submission's id.
    """
    ids = {row: EstimatorId.parse(row) for row in rows}
    plain = {row: _strip_hash_and_marks(id_of_row) for row, id_of_row in ids.items()}
    ids_by_name: dict[EstimatorId, set[EstimatorId]] = {}
    for row, id_of_row in ids.items():
        ids_by_name.setdefault(plain[row].untwinned, set()).add(id_of_row.untwinned)
    unique = {name for name, same in ids_by_name.items() if len(same) == 1 and name.name not in ESTIMATORS}
    return {
        row: str(plain[row]) if id_of_row.submitted and plain[row].untwinned in unique else format_id_with_samples(row)
        for row, id_of_row in ids.items()
    }


def map_row_names_to_ids(rows: Iterable[str]) -> dict[str, str]:
    """Return a dict from the name of each row of a table to the row's id, for rows whose name is not their id."""
    return {name: row for row, name in choose_row_names(rows).items() if name != row}


def refuse_name_of_several_submissions(name: str, rows: Iterable[str]) -> None:
    """Raise CallerError if several of these rows are submissions with this name, such as two versions of a file."""
    ids = [
        row
        for row in rows
        if (parsed := EstimatorId.parse(row)).submitted and str(_strip_hash_and_marks(parsed)) == name
    ]
    if len(ids) > 1:
        raise CallerError(f"{len(ids)} submissions here have the name '{name}'; write one of {', '.join(ids)}")


def find_estimator_with_ranking(name: str) -> Estimator | None:
    """Return the estimator whose ranking decides which features an estimator or twin removes.

    A twin that exchanges images or explains another network uses the ranking of its parent; every other estimator uses
    its own. Returns None for `random-redrawn`, which has no ranking. Raises UnknownName for an unknown id.
    """
    estimator = find_estimator(name)
    while estimator.twin in UNRANKED_TWINS:
        estimator = find_estimator(estimator.id_without_last_twin)
    return estimator if estimator.has_own_map else None


def _list_twins(parent: Estimator) -> tuple[str, ...]:
    if parent.twin and parent.id not in ESTIMATORS:
        return () if parent.twin in EXCHANGED_TWINS else EXCHANGED_TWINS
    if parent.base == "random":  # Random has no twin `blurred`, because this twin is the estimator `random-blurred`
        return EXCHANGED_TWINS if parent.has_own_map else ()
    return ("blurred", *EXCHANGED_TWINS) if parent.control else tuple(TWINS)


def find_estimator_or_placeholder(name: str) -> Estimator:
    """Look up an estimator by id; for an unknown id, for example of a newer version, return a record of the id."""
    try:
        return find_estimator(name)
    except CallerError:
        return Estimator(name, "", "", "unknown to this version of roarbench")


def find_search(name: str) -> Search | None:
    """Return passes and order of a blind search; None for every other row, also for twins of a search."""
    return find_estimator_or_placeholder(name).search


def is_search_for_another_order(name: str, order: Order) -> bool:
    """Return whether a row is a blind search with which rows of tables in this order are not compared."""
    search = find_search(name)
    return search is not None and search.order is not order


def is_addable_to_suites(name: str) -> bool:
    """Return whether a row with this id, a submission or an estimator, can be added to suites that lack it."""
    try:
        estimator = find_estimator(name)
    except CallerError:
        return EstimatorId.parse(name).submitted
    return estimator.id == name and (estimator.addable or bool(estimator.values))


class DisplayName(NamedTuple):
    """An estimator's name for readers and its variation, for example `Integrated Gradients` and `from the mean`."""

    name: str
    detail: str  # variation; empty if there is none

    @property
    def full_name(self) -> str:
        """Return name and variation, such as `Integrated Gradients from the mean`."""
        return " ".join(filter(None, self))


def describe_control_use_of_network(control: str) -> str:
    """Describe how a control uses the network, as the predicate of a sentence."""
    row = find_estimator_or_placeholder(control)
    if row.is_search:
        return "uses only predictions of the network"
    return "uses only the predicted class of the network" if row.uses_prediction else "does not use the network"


def find_display_name(estimator: str) -> DisplayName:
    """Return an estimator's name for readers; if there is none, the id is the name."""
    row = find_estimator_or_placeholder(estimator)
    if row.submitted:  # versions of a file, and its rows with other parameters, have one name
        parsed = EstimatorId.parse(estimator)
        listed = (parsed.listed or "").replace("=", " ").replace(",", ", ")
        detail = ", ".join(filter(None, (f"submission {parsed.digits}", listed, *parsed.marks)))
        return DisplayName(fit_on_one_line(parsed.name, 60), fit_on_one_line(detail, 100))
    if row.base not in ESTIMATORS:
        return DisplayName(fit_on_one_line(estimator, 60), "")
    base = ESTIMATORS[row.base].title
    name, form = _FORMS.get(row.form, (base, "" if row.form == "base" else row.form))
    of_base = f"of {base}" if name != base and row.base != "grad" else ""
    values = ({"baseline": "black"} if row.base in _BLACK else {}) | dict(row.values)
    values |= _find_shown_defaults(EstimatorId.parse(estimator))
    parts = [of_base, form, *(f"from {v}" if k == "baseline" else f"{k} {format_value(v)}" for k, v in values.items())]
    if estimator == "random-blurred":
        name = row.title
    return DisplayName(name, ", ".join(filter(None, parts)).replace("from mean", "from the mean"))


def count_passes(estimators: Iterable[Estimator], features: int = FEATURES) -> Passes:
    """Count the passes per image that compute the maps of all these estimators: (400, 416) for the paper's 18.

    Submissions declare no cost, so their passes are not in the sum; the sandbox counts them (`PassCounter`).
    """
    # forms of one explained variant with equal settings share passes
    shared: dict[tuple[str, SharedPassSettings], set[BaseAndForm]] = {}
    own: dict[tuple[object, ...], Passes] = {}  # a blurred twin has its parent's key and shares its passes
    for row in estimators:
        if row.cost:
            cost = row.cost(row, features) if callable(row.cost) else row.cost
            if row.is_search:  # a short search is the beginning of a long one
                key = row.explained_variant, row.base, row.get_value("order"), row.get_value("baseline")
                own[key] = max(cost, own.get(key, cost))
            else:
                own[row.explained_variant, row.base, row.values] = cost
        elif row.uses_shared_pass and not row.submitted:
            shared.setdefault((row.explained_variant, row.shared_pass_settings), set()).add((row.base, row.form))
    costs = list(own.values())
    for (_, settings), wanted in shared.items():
        plain, noisy = list_plain_and_noisy_bases(wanted)
        costs += [_count_shared_passes(plain, settings), *[_count_shared_passes(noisy, settings)] * settings.samples]
    return Passes(sum(cost.forward for cost in costs), sum(cost.backward for cost in costs))


def _count_shared_passes(bases: Set[str], settings: SharedPassSettings) -> Passes:
    forward = settings.steps if "ig" in bases else int(bool(bases))
    return Passes(forward, forward + ("gb" in bases and len(bases) > 1))


def list_plain_and_noisy_bases(wanted: Set[BaseAndForm]) -> tuple[set[str], set[str]]:
    """Return the bases whose maps are needed for the image itself, and the bases needed for its noisy copies."""
    single = {base for base, form in wanted if form not in NOISY}
    return single, {base for base, form in wanted if form in NOISY}
