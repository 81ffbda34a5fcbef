"""The network that scores all rows: trained on the controls' exchanged masks, then tuned on those of each row.

Nobody's row depends on which other rows there are, and every row's masks are as familiar to the network that scores it
as any other's are (docs/decisions/0022-tune-the-common-network-on-every-row.md).
"""

from dataclasses import dataclass, replace
from functools import cache

from roarbench.enums import Order, Split, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.identity import Keyed, hash_value, make_record
from roarbench.plan.recipe import Decay, Recipe
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import SuiteSpec

_TUNING_EPOCHS = 1.0
_TUNING_RATE = 1 / 8  # of the peak rate of the training before it


@dataclass(frozen=True)
class CommonNetwork(Keyed):
    """A network that has met the removal masks of the controls on images of others, by all that fixes it."""

    dataset: str
    data: str  # fingerprint of the decoded images and labels
    model: str
    recipe: str  # `name@version` of its training recipe
    # fingerprints of the estimators whose removal masks it has met, at the paper's levels and with nothing removed, in
    # equal shares
    families: tuple[str, ...]
    order: Order  # which end of the rankings was removed
    unit: Unit
    seed: int  # drives initialisation, batch order, augmentation and the exchange
    tuning: str  # what fixes the tuning on the rows that it scores
    fill: str = "mean"


def make_common_network(
    suite: SuiteSpec, data: str, order: Order, unit: Unit, seed: int, fill: str = "mean"
) -> CommonNetwork:
    """Return the network that scores the rows of a suite in one order, unit, fill and seed."""
    place = (suite.dataset, data, suite.model, suite.recipe, _families(suite.controls))
    return CommonNetwork(*place, order, unit, seed, _tuning(suite.recipe, suite.tuned_on), fill)


@cache
def _families(controls: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(find_estimator(name).fingerprint for name in controls)


@cache
def _tuning(recipe: str, masks: Split) -> str:
    tuning = make_record(make_tuning_recipe(find_recipe(recipe)))
    return hash_value(tuning if masks is Split.TRAIN else {**tuning, "masks": masks})


def make_tuned_key(common: str, rankings: str) -> str:
    """Return the key of the common network of this key, tuned on the rankings of this checksum."""
    return hash_value({"common": common, "rankings": rankings})


def make_tuning_recipe(recipe: Recipe) -> Recipe:
    """Return how a network trained by this recipe is tuned on the exchanged masks of one row: an epoch at full size."""
    return replace(
        recipe,
        name=f"{recipe.name}-tuning",
        epochs=_TUNING_EPOCHS,
        peak=_TUNING_RATE * recipe.peak,
        warmup=_TUNING_EPOCHS / 8,
        decay=Decay.LINEAR,
        sides=(1.0,),
        start="",
    )


def count_tuning_epochs(recipe: Recipe) -> float:
    """Return how many epochs of a training by this recipe take as long as the tuning of a network, at full size."""
    tuning = make_tuning_recipe(recipe)
    return tuning.epochs * tuning.area / recipe.area
