"""Derive a suite's planned runs, their keys, the common networks, and the inputs that runs share.

An estimator's row does not depend on the suite's other rows. Under protocols with a common network, the network that
scores a row was tuned on the row's own masks, so no row has the advantage of familiar masks
(docs/decisions/0022-common-network-tuned-for-every-row.md).
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

from roarbench.common.enums import PAPER_LEVELS, MapNumerics, Order, ScoredNetwork, Split, Unit
from roarbench.common.identity import Keyed, hash_value, make_json_record
from roarbench.compute.recipe import Decay, Recipe
from roarbench.estimators.catalogue import find_estimator, find_owner_of_ranking
from roarbench.estimators.estimator import Estimator
from roarbench.plan.cells_and_runs import CLEAN, Cell, ReferenceSpec, Run
from roarbench.plan.protocols import MORF, PROTOCOLS, Protocol, find_network_scored_without_removal
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import REPLICATION, Block, SuiteSpec

_FINE_TUNING_EPOCHS = 1.0
_FINE_TUNING_RATE = 1 / 8  # peak learning rate of the tuning, divided by that of the common network's training


@dataclass(frozen=True)
class Point:
    """A planned run: a cell and a seed, before the fingerprints of data and explained network are known."""

    cell: Cell
    seed: int


@cache  # a board requests every suite's points repeatedly
def expand_points(suite: SuiteSpec) -> tuple[Point, ...]:
    """Return each planned run of a suite once; runs on untouched images (t = 0) come first in every block."""
    return tuple(dict.fromkeys(point for block in suite.blocks for point in _list_block_points(suite, block)))


def _list_block_points(suite: SuiteSpec, block: Block) -> Iterator[Point]:
    protocol = block.protocol
    shared = (suite.dataset, suite.model)
    if clean := find_network_scored_without_removal(protocol.retrain, block.fill):
        cell = Cell(*shared, CLEAN, MORF.order, *clean, Unit.SCALAR, 0.0)
        yield from (Point(cell, seed) for seed in suite.list_seeds(block))
    for estimator, t in product(block.estimators, block.levels):
        for seed in suite.list_seeds(block, estimator):
            for name in (estimator, protocol.make_paired_twin_id(estimator)) if protocol.paired else (estimator,):
                cell = Cell(*shared, name, protocol.order, protocol.retrain, block.fill, block.unit, t)
                yield Point(cell, seed)


def select_part_of_suite(
    suite: SuiteSpec,
    estimators: Iterable[str] | None = None,
    seeds: int | None = None,
    protocol: Protocol | None = None,
) -> SuiteSpec:
    """Return the part of a suite with these estimators and this protocol, and with `seeds` seeds of trained networks.

    None selects all estimators, the suite's own number of seeds, or all protocols.
    """
    names = suite.estimators if estimators is None else tuple(estimators)
    blocks = []
    for block in (block for block in suite.blocks if protocol in (None, block.protocol)):
        rows = tuple(name for name in block.estimators if name in names)
        blocks.append(replace(block, estimators=rows, seeds=seeds if seeds and block.protocol.trains else block.seeds))
    selected = tuple(block for block in blocks if block.estimators)
    # keep only references that a seed uses, but keep all if networks are compared under each other's maps
    compares_networks = any(block.protocol.compares_networks for block in selected)
    most = suite.references if compares_networks else seeds or suite.references
    return replace(suite, blocks=selected, references=min(suite.references, most))


def describe_run(point: Point, suite: SuiteSpec | None = None) -> str:
    """Describe a run as in `roar grad t=0.5 scalar seed 0`; `find_protocol_name` explains `suite`."""
    cell = point.cell
    return f"{find_protocol_name(cell, suite)} {cell.estimator} t={cell.t:g} {cell.unit} seed {point.seed}"


def find_protocol_name(cell: Cell, suite: SuiteSpec | None = None) -> str:
    """Return the name of the first of the suite's protocols that has the cell's order and scored network.

    Without a suite, return the name of the protocol that scores each image once.
    """
    protocols = [block.protocol for block in suite.blocks] if suite else []
    protocols += [protocol for protocol in PROTOCOLS.values() if not protocol.paired]
    wanted = cell.order, cell.retrain
    return next(protocol.name for protocol in protocols if (protocol.order, protocol.retrain) == wanted)


@dataclass(frozen=True)
class CommonNetworkSpec(Keyed):
    """Identity of a common network, which is trained on images with the controls' removal masks of other images."""

    dataset: str
    data: str  # fingerprint of the decoded images and labels
    model: str
    recipe: str  # `name@version` of the training recipe
    # fingerprints of the controls whose masks the training uses; masks of the paper's levels, and masks that remove
    # nothing, are used equally often
    families: tuple[str, ...]
    order: Order  # end of the rankings that is removed
    unit: Unit
    seed: int  # seed of initialisation, batch order, augmentation and mask exchange
    tuning: str  # settings of the tuning on each row
    fill: str = "mean"


def make_common_network_spec(
    suite: SuiteSpec, data: str, order: Order, unit: Unit, seed: int, fill: str = "mean"
) -> CommonNetworkSpec:
    """Return the identity of the common network that scores a suite's rows for one order, unit, seed and fill."""
    shared = (suite.dataset, data, suite.model, suite.recipe, _list_control_families(suite.controls))
    return CommonNetworkSpec(*shared, order, unit, seed, _hash_fine_tuning_settings(suite.recipe, suite.tuned_on), fill)


@cache
def _list_control_families(controls: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(find_estimator(name).fingerprint for name in controls)


@cache
def _hash_fine_tuning_settings(recipe: str, masks: Split) -> str:
    tuning = make_json_record(make_fine_tuning_recipe(find_recipe(recipe)))
    return hash_value(tuning if masks is Split.TRAIN else {**tuning, "masks": masks})


def hash_fine_tuned_network(common: str, rankings: str) -> str:
    """Return the key of a fine-tuned network: `common` is the common network's key, `rankings` a checksum."""
    return hash_value({"common": common, "rankings": rankings})


def make_fine_tuning_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe that fine-tunes a common network on one row's exchanged masks: one epoch at full image size."""
    return replace(
        recipe,
        name=f"{recipe.name}-tuning",
        epochs=_FINE_TUNING_EPOCHS,
        peak=_FINE_TUNING_RATE * recipe.peak,
        warmup=_FINE_TUNING_EPOCHS / 8,
        decay=Decay.LINEAR,
        sides=(1.0,),
        start="",
    )


def express_fine_tuning_in_epochs(recipe: Recipe) -> float:
    """Return the cost of fine-tuning a common network, in epochs of a training run by this recipe."""
    tuning = make_fine_tuning_recipe(recipe)
    return tuning.epochs * tuning.mean_relative_image_area / recipe.mean_relative_image_area


def make_reference_spec(suite: SuiteSpec, data: str, number: int = 0) -> ReferenceSpec:
    """Return the identity of the explained network with this number, on the data with this fingerprint."""
    recipe = "" if suite.given else suite.reference_recipe
    model, _ = suite.find_architecture(number)
    seed, given = suite.compute_reference_seed(number), suite.find_given_weights(number)
    return ReferenceSpec(suite.dataset, data, model, recipe, seed, given)


def find_epochs_per_reference(suite: SuiteSpec) -> float:
    """Return the epochs of the explained network's training; 0 for given weights."""
    return 0.0 if suite.given else find_recipe(suite.reference_recipe).epochs


def build_run(suite: SuiteSpec, point: Point, data: str, limit: int | None) -> Run:
    """Build the run of a point on the data with this fingerprint; `limit` has the same meaning as in `Run`."""
    cell, number = point.cell, suite.find_explained_number(point.cell, point.seed)
    reference = make_reference_spec(suite, data, number)
    explained, estimator = depends_on_reference(cell), cell.estimator_record
    return Run(
        cell=cell,
        seed=point.seed,
        recipe=suite.recipe if cell.retrain.trains else reference.recipe,
        data=data,
        estimator=estimator.fingerprint if estimator else "",
        reference=reference.key if explained else "",
        limit=limit,
        given=suite.find_given_weights(number) if explained else "",
        maps=suite.maps if estimator and estimator.uses_shared_pass else MapNumerics.FLOAT32,
        network=find_shared_network_key(suite, point, data),
    )


@lru_cache(32)  # stores request the same runs repeatedly
def list_runs(suite: SuiteSpec, data: str, limit: int | None) -> Mapping[Point, Run]:
    """Return the runs of a suite on the data with this fingerprint, as a dict from points to runs."""
    return {point: build_run(suite, point, data, limit) for point in expand_points(suite)}


@lru_cache(32)
def list_run_keys(suite: SuiteSpec, data: str, limit: int | None) -> Mapping[Point, str]:
    """Return the keys of a suite's runs on the data with this fingerprint, as a dict from points to keys."""
    return {point: run.key for point, run in list_runs(suite, data, limit).items()}


def find_shared_network_key(suite: SuiteSpec, point: Point, data: str) -> str:
    """Return the key of a point's common network, or of a scored reference that is not the explained network.

    The key is empty for all other points.
    """
    cell, number = point.cell, suite.find_scored_number(point.cell, point.seed)
    if cell.retrain is ScoredNetwork.COMMON:
        return make_common_network_spec(suite, data, cell.order, cell.unit, point.seed, cell.fill).key
    other = not cell.retrain.trains and number != suite.find_explained_number(cell, point.seed)
    return make_reference_spec(suite, data, number).key if other else ""


def depends_on_reference(cell: Cell) -> bool:
    """Return whether a cell's ranking or its score depends on an explained network."""
    estimator = cell.estimator_record
    return bool(estimator and estimator.depends_on_network) or not cell.retrain.trains


def list_untouched_points(suite: SuiteSpec) -> tuple[Point, ...]:
    """Return points that score each explained network on untouched images; the suite need not have these points."""
    clean = Cell(suite.dataset, suite.model, CLEAN, MORF.order, ScoredNetwork.NONE, "mean", Unit.SCALAR, 0.0)
    first = REPLICATION * suite.replication
    return tuple(Point(clean, first + number) for number in range(suite.references))


def has_explained_model(suite: SuiteSpec) -> bool:
    """Return whether a suite has given weights, or a result that depends on an explained network."""
    return bool(suite.given) or any(depends_on_reference(point.cell) for point in expand_points(suite))


def list_stored_levels(suite: SuiteSpec) -> tuple[float, ...]:
    """Return the levels of stored rankings: the paper's five, so that suites share rankings, and the suite's others."""
    levels = {t for block in suite.blocks for t in block.levels}
    return PAPER_LEVELS if levels <= set(PAPER_LEVELS) else tuple(sorted(levels | set(PAPER_LEVELS)))


def list_ranked_splits(suite: SuiteSpec, row: Estimator | None = None, network: int | None = None) -> tuple[Split, ...]:
    """Return the splits whose images an estimator ranks: test images, and training images if masks of them are used.

    Masks of training images are used if networks are trained on the estimator's masks. For None or an estimator outside
    of the suite, return the splits that any estimator of the suite ranks. If `network` is the number of an explained
    network, only seeds that use this network count.
    """
    row = row if any(row in map(find_owner_of_ranking, block.estimators) for block in suite.blocks) else None
    blocks = [block for block in suite.blocks if row is None or row in map(find_owner_of_ranking, block.estimators)]
    trained = [block for block in blocks if not ranks_only_test_images(suite, block.protocol.retrain)]
    if network is not None:
        trained = [block for block in trained if network in set(_find_ranked_networks(suite, block, row))]
    return tuple(Split) if trained else (Split.TEST,)


def _find_ranked_networks(suite: SuiteSpec, block: Block, row: Estimator | None) -> Iterator[int]:
    """Yield the numbers of the explained networks whose rankings by an estimator are used for a block's seeds."""
    for name in block.estimators:
        if row in (find_owner_of_ranking(name), None):
            cell = Cell(suite.dataset, suite.model, name, MORF.order, block.protocol.retrain, "mean", block.unit, 0.0)
            yield from (suite.find_explained_number(cell, seed) for seed in range(block.seeds))


def ranks_only_test_images(suite: SuiteSpec, retrain: ScoredNetwork) -> bool:
    """Return whether this kind of scored network needs rankings of test images only."""
    return not retrain.trains or (retrain is ScoredNetwork.COMMON and suite.tuned_on is Split.TEST)


def list_control_splits(suite: SuiteSpec) -> tuple[Split, ...]:
    """Return the splits that controls rank: both if the suite has common networks, else the splits of estimators."""
    common = any(block.protocol.retrain is ScoredNetwork.COMMON for block in suite.blocks)
    return tuple(Split) if common else list_ranked_splits(suite)


class RankedSplit(NamedTuple):
    """Rankings of a split's images; `reference` is the number of the explained network, and 0 for controls."""

    estimator: Estimator
    unit: Unit
    reference: int
    split: Split


class CommonNetworkPoint(NamedTuple):
    """A common network before tuning, in a suite whose data set, architecture and recipe are known."""

    order: Order
    unit: Unit
    seed: int
    fill: str


class SharedInputs(NamedTuple):
    """Inputs that a suite's runs share."""

    references: Set[int] = frozenset()  # numbers of explained networks, and of networks scored without training
    rankings: Set[RankedSplit] = frozenset()
    common: Set[CommonNetworkPoint] = frozenset()
    # pairs of a common network and the test images' rankings by the estimator for which the network is tuned
    tuned: Set[tuple[CommonNetworkPoint, RankedSplit]] = frozenset()


def list_shared_inputs(suite: SuiteSpec, points: Iterable[Point]) -> SharedInputs:
    """Return the inputs that runs at these points share."""
    references, rankings = set[int](), set[RankedSplit]()
    networks, tuned = set[CommonNetworkPoint](), set[tuple[CommonNetworkPoint, RankedSplit]]()
    for cell, seed in ((point.cell, point.seed) for point in points):
        if depends_on_reference(cell):
            references.add(suite.find_scored_number(cell, seed))
        rows = []
        if row := cell.estimator_of_stored_ranking:
            number = suite.find_explained_number(cell, seed) if row.depends_on_network else 0
            rows = [RankedSplit(row, cell.unit, number, split) for split in Split]
            rankings.update(rows[-1:] if ranks_only_test_images(suite, cell.retrain) else rows)
        if cell.retrain is ScoredNetwork.COMMON:
            common = CommonNetworkPoint(cell.order, cell.unit, seed, cell.fill)
            networks.add(common)
            tuned.update((common, row) for row in rows[-1:])
            controls = map(find_estimator, suite.controls)
            rankings.update(RankedSplit(control, cell.unit, 0, split) for control in controls for split in Split)
    return SharedInputs(references, rankings, networks, tuned)
