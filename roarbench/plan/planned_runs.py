"""List a suite's planned runs, their keys, and the networks and rankings that the runs share.

An estimator's row does not depend on the suite's other rows. Under protocols with a common network, the network that
scores a row was tuned on the row's own masks, so no row has the advantage of familiar masks
(docs/decisions/0022-common-network-tuned-for-every-row.md).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

from roarbench.common.enums import PAPER_LEVELS, MapNumerics, Order, ScoredNetwork, Split, Unit
from roarbench.common.identity import hash_value, make_json_record
from roarbench.estimators.catalogue import find_estimator, find_estimator_with_ranking
from roarbench.estimators.estimator import Estimator
from roarbench.plan.cells_and_runs import CLEAN, Cell, CommonNetworkSpec, ReferenceSpec, Run
from roarbench.plan.protocols import MORF, PROTOCOLS, find_network_scored_without_removal
from roarbench.plan.recipes import find_recipe, make_fine_tuning_recipe
from roarbench.plan.suite import FIRST_REFERENCE_SEED, SEEDS_PER_REPLICATION, SuiteSpec


class PlannedRun(NamedTuple):
    """A cell and a seed of a suite; the fingerprints of data and networks, which complete a `Run`, may be unknown."""

    cell: Cell
    seed: int


@cache  # a board requests every suite's planned runs repeatedly
def list_planned_runs(suite: SuiteSpec) -> tuple[PlannedRun, ...]:
    """Return each planned run of a suite once; runs on untouched images (t = 0) come first in every block."""
    planned = (
        PlannedRun(cell, seed) for cells, seeds in list_cells_with_seeds(suite) for seed in seeds for cell in cells
    )
    return tuple(dict.fromkeys(planned))


def list_cells_with_seeds(suite: SuiteSpec) -> Iterator[tuple[list[Cell], Sequence[int]]]:
    """Yield the planned cells of a suite with their seeds; a cell comes with its twin that is run for each image."""
    for block in suite.blocks:
        protocol = block.protocol
        shared = (suite.dataset, suite.model)
        if clean := find_network_scored_without_removal(protocol.retrain, block.fill):
            yield [Cell(*shared, CLEAN, MORF.order, *clean, Unit.SCALAR, 0.0)], suite.list_seeds(block)
        for estimator, t in product(block.estimators, block.levels):
            twins = (protocol.make_paired_twin_id(estimator),) if protocol.compares_with_other_image else ()
            cells = [
                Cell(*shared, name, protocol.order, protocol.retrain, block.fill, block.unit, t)
                for name in (estimator, *twins)
            ]
            yield cells, suite.list_seeds(block, estimator)


def describe_run(planned: PlannedRun, suite: SuiteSpec | None = None) -> str:
    """Describe a run in one line, `roar grad t=0.5 scalar seed 0`, with its fill if this is not the mean.

    `find_protocol_name` explains `suite`.
    """
    cell = planned.cell
    fill = f" fill {cell.fill}" * (cell.fill != "mean")
    return f"{find_protocol_name(cell, suite)} {cell.estimator} t={cell.t:g} {cell.unit}{fill} seed {planned.seed}"


def find_protocol_name(cell: Cell, suite: SuiteSpec | None = None) -> str:
    """Return the name of the first of the suite's protocols that has the cell's order and scored network.

    Without a suite, all protocols count.
    """
    if cell.retrain is ScoredNetwork.EXCHANGED:
        return "roar-exchanged"
    protocols = [*(block.protocol for block in suite.blocks), *PROTOCOLS.values()] if suite else PROTOCOLS.values()
    wanted = cell.order, cell.retrain
    return next(protocol.name for protocol in protocols if (protocol.order, protocol.retrain) == wanted)


@lru_cache(1024)  # each run of a suite requests one
def make_common_network_spec(
    suite: SuiteSpec, data: str, order: Order, unit: Unit, seed: int, fill: str = "mean"
) -> CommonNetworkSpec:
    """Return the identity of the common network that scores a suite's rows for one order, unit, seed and fill."""
    tuning = make_json_record(make_fine_tuning_recipe(suite.recipe_record))
    masks = {} if suite.tuned_on is Split.TRAIN else {"masks": suite.tuned_on}
    controls = tuple(find_estimator(name).fingerprint for name in suite.controls)
    shared = (suite.dataset, data, suite.model, suite.recipe, controls)
    return CommonNetworkSpec(*shared, order, unit, seed, hash_value(tuning | masks), fill)


@lru_cache(1024)  # each run of a suite requests one or two
def make_reference_spec(suite: SuiteSpec, data: str, number: int = 0) -> ReferenceSpec:
    """Return the identity of the explained network with this number, on the data with this fingerprint."""
    recipe = "" if suite.given else suite.reference_recipe
    model = suite.networks[number].model if suite.networks else suite.model
    first = SEEDS_PER_REPLICATION * suite.replication + FIRST_REFERENCE_SEED
    seed = first + (0 if suite.given else 2 * number)  # one for all given weights; an untrained copy has the next seed
    return ReferenceSpec(suite.dataset, data, model, recipe, seed, suite.find_given_weights(number))


def count_reference_epochs(suite: SuiteSpec) -> float:
    """Return the number of epochs for which each explained network is trained; 0 for given weights."""
    return 0.0 if suite.given else find_recipe(suite.reference_recipe).epochs


def build_run(suite: SuiteSpec, planned: PlannedRun, data: str, limit: int | None) -> Run:
    """Build the run on the data with this fingerprint; `limit` has the same meaning as in `Run`."""
    cell, number = planned.cell, suite.find_explained_number(planned.cell, planned.seed)
    reference = make_reference_spec(suite, data, number)
    explained, estimator = depends_on_reference(cell), cell.estimator_record
    return Run(
        cell=cell,
        seed=planned.seed,
        recipe=suite.recipe if cell.retrain.trains else reference.recipe,
        data=data,
        estimator=estimator.fingerprint if estimator else "",
        reference=reference.key if explained else "",
        limit=limit,
        given=suite.find_given_weights(number) if explained else "",
        maps=suite.maps if estimator and estimator.uses_shared_pass else MapNumerics.FLOAT32,
        network=find_second_network_key(suite, planned, data),
    )


@lru_cache(32)  # stores request the same runs repeatedly
def list_runs(suite: SuiteSpec, data: str, limit: int | None) -> Mapping[PlannedRun, Run]:
    """Return the runs of a suite on the data with this fingerprint, by planned run."""
    return {planned: build_run(suite, planned, data, limit) for planned in list_planned_runs(suite)}


def find_second_network_key(suite: SuiteSpec, planned: PlannedRun, data: str) -> str:
    """Return the key of a run's common network, or of a scored network that the map does not explain; else empty."""
    cell, number = planned.cell, suite.find_scored_number(planned.cell, planned.seed)
    if cell.retrain is ScoredNetwork.COMMON:
        return make_common_network_spec(suite, data, cell.order, cell.unit, planned.seed, cell.fill).key
    other = not cell.retrain.trains and number != suite.find_explained_number(cell, planned.seed)
    return make_reference_spec(suite, data, number).key if other else ""


def depends_on_reference(cell: Cell) -> bool:
    """Return whether a cell's ranking or its score depends on an explained network."""
    estimator = cell.estimator_record
    return bool(estimator and estimator.depends_on_network) or not cell.retrain.trains


def list_clean_runs_of_explained_networks(suite: SuiteSpec) -> tuple[PlannedRun, ...]:
    """Return the runs that score each explained network on untouched images, even if the suite lacks these runs."""
    clean = Cell(suite.dataset, suite.model, CLEAN, MORF.order, ScoredNetwork.NONE, "mean", Unit.SCALAR, 0.0)
    first = SEEDS_PER_REPLICATION * suite.replication
    return tuple(PlannedRun(clean, first + number) for number in range(suite.references))


def needs_explained_network(suite: SuiteSpec) -> bool:
    """Return whether a suite has given weights, or a result that depends on an explained network."""
    return bool(suite.given) or any(depends_on_reference(planned.cell) for planned in list_planned_runs(suite))


def list_stored_levels(suite: SuiteSpec) -> tuple[float, ...]:
    """Return the levels of stored rankings: the paper's five, which all suites share, and the suite's own."""
    return tuple(sorted({*PAPER_LEVELS, *(t for block in suite.blocks for t in block.levels)}))


def list_ranked_splits(suite: SuiteSpec) -> tuple[Split, ...]:
    """Return the splits that a suite ranks: the test split, and the training split if networks train on its masks."""
    trained = any(not ranks_only_test_images(suite, block.protocol.retrain) for block in suite.blocks)
    return tuple(Split) if trained else (Split.TEST,)


def list_splits_ranked_by(suite: SuiteSpec, estimator: Estimator, number: int) -> tuple[Split, ...]:
    """Return the splits that one estimator ranks for the explained network with this number.

    Controls rank both splits for common networks, else what the suite ranks. Of the other estimators, only the blocks
    and seeds that use this estimator and this network count; one outside of the suite ranks what any estimator ranks.
    """
    if estimator.id in suite.controls:
        common = any(block.protocol.retrain is ScoredNetwork.COMMON for block in suite.blocks)
        return tuple(Split) if common else list_ranked_splits(suite)
    rows = [(block, name) for block in suite.blocks for name in block.estimators]
    for block, name in [row for row in rows if find_estimator_with_ranking(row[1]) == estimator] or rows:
        retrain = block.protocol.retrain
        cell = Cell(suite.dataset, suite.model, name, MORF.order, retrain, "mean", block.unit, 0.0)
        explained = {suite.find_explained_number(cell, seed) for seed in range(block.seeds)}
        if not ranks_only_test_images(suite, retrain) and (number in explained or not estimator.depends_on_network):
            return tuple(Split)
    return (Split.TEST,)


def ranks_only_test_images(suite: SuiteSpec, retrain: ScoredNetwork) -> bool:
    return not retrain.trains or (retrain is ScoredNetwork.COMMON and suite.tuned_on is Split.TEST)


class RankedSplit(NamedTuple):
    """Rankings of a split's images by one estimator."""

    estimator: Estimator
    unit: Unit
    reference: int  # number of the explained network; 0 for estimators that need no network
    split: Split


class PlannedCommonNetwork(NamedTuple):
    """A common network of a suite, before it is tuned for a row."""

    order: Order
    unit: Unit
    seed: int
    fill: str


class SharedInputs(NamedTuple):
    """Networks and rankings that a suite's runs share."""

    references: Set[int] = frozenset()  # numbers of explained networks, and of networks scored without training
    rankings: Set[RankedSplit] = frozenset()
    common: Set[PlannedCommonNetwork] = frozenset()
    # pairs of a common network and the test images' rankings by the estimator for which the network is tuned
    tuned: Set[tuple[PlannedCommonNetwork, RankedSplit]] = frozenset()


def list_shared_inputs(suite: SuiteSpec, runs: Iterable[PlannedRun | Run]) -> SharedInputs:
    """Return the networks and rankings that these runs share."""
    references, rankings = set[int](), set[RankedSplit]()
    networks, tuned = set[PlannedCommonNetwork](), set[tuple[PlannedCommonNetwork, RankedSplit]]()
    for cell, seed in ((run.cell, run.seed) for run in runs):
        if depends_on_reference(cell):
            references.add(suite.find_scored_number(cell, seed))
        rows = []
        if row := cell.estimator_of_stored_ranking:
            number = suite.find_explained_number(cell, seed) if row.depends_on_network else 0
            rows = [RankedSplit(row, cell.unit, number, split) for split in Split]
            rankings.update(rows[-1:] if ranks_only_test_images(suite, cell.retrain) else rows)
        if cell.retrain is ScoredNetwork.COMMON:
            common = PlannedCommonNetwork(cell.order, cell.unit, seed, cell.fill)
            networks.add(common)
            tuned.update((common, row) for row in rows[-1:])
            controls = map(find_estimator, suite.controls)
            rankings.update(RankedSplit(control, cell.unit, 0, split) for control in controls for split in Split)
    return SharedInputs(references, rankings, networks, tuned)
