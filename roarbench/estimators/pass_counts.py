"""The passes through the network that maps of an image cost. Nothing here imports torch."""

from collections.abc import Iterable, Set

from roarbench.estimators.estimator import FEATURES, NOISY, Estimator, Passes
from roarbench.estimators.inputs import Settings

Form = tuple[str, str]  # (base, form), as in the table of estimators


def count_passes(estimators: Iterable[Estimator], features: int = FEATURES) -> Passes:
    """Count the passes that the maps of these estimators cost per image: (400, 416) for the 18 of the paper."""
    variants: dict[tuple[str, Settings], set[Form]] = {}  # those of one share their passes
    own: dict[tuple[object, ...], Passes] = {}  # a blurred twin costs no more
    for e in estimators:
        if e.cost:
            own[e.variant, e.base, e.values] = e.passes(features)
        elif not e.control:
            variants.setdefault((e.variant, find_settings(e)), set()).add((e.base, e.form))
    costs = list(own.values())
    for (_, settings), wanted in variants.items():
        single, repeated = list_needed_bases(wanted)
        costs += [_cost(single, settings), *[_cost(repeated, settings)] * settings.samples]
    return Passes(sum(cost.forward for cost in costs), sum(cost.backward for cost in costs))


def _cost(bases: Set[str], settings: Settings) -> Passes:
    forward = settings.steps if "ig" in bases else int(bool(bases))
    return Passes(forward, forward + ("gb" in bases and len(bases) > 1))


def list_needed_bases(wanted: Set[Form]) -> tuple[set[str], set[str]]:
    """Return the bases whose maps of the image itself are needed, and those whose maps of its noisy copies are."""
    single = {base for base, form in wanted if form not in NOISY}
    return single, {base for base, form in wanted if form in NOISY}


def find_settings(estimator: Estimator) -> Settings:
    """Return what an estimator asks of the shared pass."""
    return Settings(**{**estimator.parameters, **dict(estimator.values)})  # type: ignore[arg-type]
