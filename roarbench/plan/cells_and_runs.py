"""Define runs and trained networks as frozen records, which exist before anything is computed.

A *cell* is a point of an estimator's accuracy curve; a *run* is a cell with a seed and everything else that determines
the outcome. A run's key is the hash of its record, so a stored run is never repeated, and a run with a changed setting
never reuses a stored result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from roarbench.common.enums import MapNumerics, Order, ScoredNetwork, Unit
from roarbench.common.errors import CallerError
from roarbench.common.files import compute_sha256
from roarbench.common.identity import Keyed, hash_value, make_json_record
from roarbench.compute.recipe import Recipe
from roarbench.estimators.catalogue import find_estimator, find_estimator_with_ranking
from roarbench.estimators.estimator import Estimator
from roarbench.plan.recipes import find_recipe

CLEAN = "none"  # value of `Cell.estimator` at t = 0, where nothing is removed


@dataclass(frozen=True)
class Cell:
    """A point of an estimator's accuracy curve."""

    dataset: str
    model: str  # name of the trained network
    estimator: str  # id of the estimator of the removed ranking; `CLEAN` at t = 0
    order: Order
    retrain: ScoredNetwork
    fill: str
    unit: Unit
    t: float  # removal fraction, in [0, 1]

    def __post_init__(self) -> None:
        if not 0 <= self.t <= 1:
            raise ValueError(f"level t must be in [0, 1], got {self.t}; 30% is written 0.3")

    def __hash__(self) -> int:  # of all fields, it takes twice as long, and every result is found by its cell
        return hash((self.estimator, self.order, self.retrain, self.t))

    @property
    def estimator_record(self) -> Estimator | None:
        """Return the estimator that ranks the features; None for untouched images."""
        return None if self.estimator == CLEAN else find_estimator(self.estimator)

    @property
    def estimator_of_stored_ranking(self) -> Estimator | None:
        """Return the estimator of the stored ranking that removes features; None if there is no stored ranking."""
        return None if self.estimator == CLEAN else find_estimator_with_ranking(self.estimator)


@dataclass(frozen=True)
class Run:
    """A cell with everything else that determines its outcome; the results store has one row for each run.

    A field added after a release has a default value. The key ignores a field with this value, so keys of stored rows
    never change.
    """

    cell: Cell
    # seed of initialisation, batch order and augmentation, and of the rankings of `random-redrawn`, which are drawn
    # during training. Other rankings do not depend on this seed
    seed: int
    recipe: str  # `name@version` of the scored network's training recipe
    data: str  # fingerprint of the decoded images and labels
    estimator: str  # fingerprint of the estimator and its parameters
    reference: str  # key of the explained network; empty if neither ranking nor score depends on a network
    limit: int | None = None  # images per split of a reduced data set; None for the whole set
    # `NAME@CHECKSUM` of the explained network's given weights; empty for a trained network, and for runs without an
    # explained network
    given: str = ""
    # requested settings of the explained network's maps; float32 for runs without such maps
    maps: MapNumerics = MapNumerics.FLOAT32
    # key of the common network, or of the scored network if the map explains another network; empty for other runs
    network: str = ""

    @cached_property
    def key(self) -> str:
        """Return the hash of the whole record, 32 hex digits."""
        return hash_value(make_json_record(self))

    @property
    def recipe_record(self) -> Recipe:
        return find_recipe(self.recipe)


@dataclass(frozen=True)
class ReferenceSpec(Keyed):
    """Identity of an explained network."""

    dataset: str
    data: str  # fingerprint of the decoded images and labels
    model: str
    recipe: str  # `name@version` of the training recipe; empty for given weights
    seed: int  # seed of initialisation, batch order and augmentation
    given: str = ""  # `NAME@CHECKSUM` of given weights; empty for a trained network


@dataclass(frozen=True)
class CommonNetworkSpec(Keyed):
    """Identity of a common network, which is trained on images with the controls' removal masks of other images."""

    dataset: str
    data: str  # fingerprint of the decoded images and labels
    model: str
    recipe: str  # `name@version` of the training recipe
    # fingerprints of the controls whose masks the training uses; masks of each of the paper's levels and masks that
    # remove nothing are used equally often
    families: tuple[str, ...]
    order: Order  # end of the rankings that is removed
    unit: Unit
    seed: int  # seed of initialisation, batch order, augmentation and mask exchange
    tuning: str  # settings of the tuning on each row
    fill: str = "mean"


def hash_fine_tuned_network(common: str, rankings: str) -> str:
    """Return the key of a network fine-tuned from the network with key `common`; `rankings` is a checksum."""
    return hash_value({"common": common, "rankings": rankings})


def read_run_record(values: Mapping[str, Any]) -> Run:
    """Return the run from its stored JSON values; raise CallerError if this version does not know a field or value."""
    cell = read_cell_record(values["cell"])
    try:
        return Run(**{**values, "cell": cell, "maps": MapNumerics(values.get("maps", MapNumerics.FLOAT32))})
    except (TypeError, ValueError) as error:
        raise _make_other_version_error(error) from None


def read_cell_record(values: Mapping[str, Any]) -> Cell:
    """Return the cell of a run from its stored JSON values; raise CallerError as `read_run_record` does."""
    try:
        return Cell(**convert_enums(values))
    except (TypeError, ValueError) as error:
        raise _make_other_version_error(error) from None


def _make_other_version_error(error: Exception) -> CallerError:
    remedy = "use the version of roarbench that stored the run"
    return CallerError(f"this version cannot read a run: {error}; {remedy}")


def convert_enums(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a cell's stored JSON values to its fields; raise ValueError for an unknown value."""
    order, retrain, unit = Order(values["order"]), ScoredNetwork(values["retrain"]), Unit(values["unit"])
    return {**values, "order": order, "retrain": retrain, "unit": unit}


class PublishedWeights(NamedTuple):
    """Weights that torchvision publishes."""

    file: str  # file name; after the hyphen come the first digits of the file's SHA-256
    model: str
    classes: int  # number of classes of the training images
    channels: int  # number of channels of the training images


PUBLISHED_WEIGHTS = {
    "torchvision:resnet50-v1": PublishedWeights("resnet50-0676ba61.pth", "resnet50", 1000, 3),
    "torchvision:resnet50-v2": PublishedWeights("resnet50-11ad3fa6.pth", "resnet50", 1000, 3),
}


def make_weights_title(reference: str) -> str:
    """Return `NAME@CHECKSUM` for a weights file or a name of `PUBLISHED_WEIGHTS`; copies of one file share a title.

    Raises CallerError if `reference` is neither a readable file nor a name of `PUBLISHED_WEIGHTS`.
    """
    titles = {
        name: f"{name}@{Path(weights.file).stem.rpartition('-')[2]}" for name, weights in PUBLISHED_WEIGHTS.items()
    }
    if reference in titles:
        return titles[reference]
    try:
        checksum = compute_sha256(Path(reference)) if Path(reference).is_file() else ""
    except OSError as error:  # no permission to read, or an invalid file name
        seen = f"cannot read --reference {reference[:80]} ({error.strerror})"
        raise CallerError(f"{seen}; name a file of weights") from None
    if not checksum:
        names = ", ".join(PUBLISHED_WEIGHTS)
        raise CallerError(f"--reference {reference} is not a file; name a file of weights, or use one of {names}")
    published = (title for title in titles.values() if checksum.startswith(title.rpartition("@")[2]))
    return next(published, f"file@{checksum[:32]}")
