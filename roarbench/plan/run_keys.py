"""How a planned point becomes a run with a key: which reference, splits and levels a suite takes."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from roarbench.enums import PAPER_LEVELS, Making, ScoredNetwork, Split, Unit
from roarbench.estimators.catalogue import find_ranking_estimator
from roarbench.estimators.estimator import Estimator
from roarbench.plan.common_network import make_common_network
from roarbench.plan.points import Point, expand_points
from roarbench.plan.recipes import find_recipe
from roarbench.plan.runs import CLEAN, Cell, ReferenceSpec, Run
from roarbench.plan.suite import REPLICATION, Block, SuiteSpec
from roarbench.protocols.unretrained import MORF


def make_reference(suite: SuiteSpec, data: str, number: int = 0) -> ReferenceSpec:
    """Return one of the models that a suite explains on the data of this fingerprint, by its number."""
    recipe = "" if suite.given else suite.reference_recipe
    model, _ = suite.network_of(number)
    return ReferenceSpec(suite.dataset, data, model, recipe, suite.reference_seed(number), suite.given_to(number))


def count_reference_epochs(suite: SuiteSpec) -> float:
    """Return passes over the training images of the reference's training; 0 where its weights are given."""
    return 0.0 if suite.given else find_recipe(suite.reference_recipe).epochs


def build_run(suite: SuiteSpec, point: Point, data: str, limit: int | None) -> Run:
    """Give a planned point the fingerprints that make it a run."""
    cell, number = point.cell, suite.explained(point.cell, point.seed)
    reference = make_reference(suite, data, number)
    explained, estimator = depends_on_reference(cell), cell.estimator_record
    return Run(
        cell=cell,
        seed=point.seed,
        recipe=suite.recipe if cell.retrain.trains else reference.recipe,
        data=data,
        estimator=estimator.fingerprint if estimator else "",
        reference=reference.key if explained else "",
        limit=limit,
        given=suite.given_to(number) if explained else "",
        maps=suite.maps if estimator and estimator.shared else Making.FLOAT32,
        network=find_scored_network(suite, point, data),
    )


@lru_cache(32)  # a store is asked for the same ones again and again
def list_runs(suite: SuiteSpec, data: str, limit: int | None) -> Mapping[Point, Run]:
    """Return every planned run of a suite on the data of this fingerprint."""
    return {point: build_run(suite, point, data, limit) for point in expand_points(suite)}


@lru_cache(32)
def list_keys(suite: SuiteSpec, data: str, limit: int | None) -> Mapping[Point, str]:
    """Return the key of every planned run of a suite on the data of this fingerprint."""
    return {point: run.key for point, run in list_runs(suite, data, limit).items()}


def find_scored_network(suite: SuiteSpec, point: Point, data: str) -> str:
    """Return the key of the network that scores a point, where it is neither trained for it nor the explained one."""
    cell, number = point.cell, suite.scored(point.cell, point.seed)
    if cell.retrain is ScoredNetwork.COMMON:
        return make_common_network(suite, data, cell.order, cell.unit, point.seed, cell.fill).key
    other = not cell.retrain.trains and number != suite.explained(cell, point.seed)
    return make_reference(suite, data, number).key if other else ""


def depends_on_reference(cell: Cell) -> bool:
    """Return whether a cell's outcome depends on the reference: it is what is scored, or explained."""
    estimator = cell.estimator_record
    return bool(estimator and estimator.hangs_on_network) or not cell.retrain.trains


def list_reference_points(suite: SuiteSpec) -> tuple[Point, ...]:
    """Return each reference on untouched images: how good it is. A suite without such scoring has it beside."""
    clean = Cell(suite.dataset, suite.model, CLEAN, MORF.order, ScoredNetwork.NONE, "mean", Unit.SCALAR, 0.0)
    first = REPLICATION * suite.replication
    return tuple(Point(clean, first + number) for number in range(suite.references))


def has_explained_model(suite: SuiteSpec) -> bool:
    """Return whether any of a suite's outcomes depends on its reference, or one was given."""
    return bool(suite.given) or any(depends_on_reference(point.cell) for point in expand_points(suite))


def list_stored_levels(suite: SuiteSpec) -> tuple[float, ...]:
    """Return the levels that rankings are stored for: the paper's five, so that suites share them, or its own."""
    levels = {t for block in suite.blocks for t in block.levels}
    return PAPER_LEVELS if levels <= set(PAPER_LEVELS) else tuple(sorted(levels | set(PAPER_LEVELS)))


def list_ranked_splits(suite: SuiteSpec, row: Estimator | None = None, number: int | None = None) -> tuple[Split, ...]:
    """Return whose images a row ranks, or any row: only test images where nothing is trained on others' masks.

    A row that the suite has not ranks what any of its rows does. By the reference of a number, where that is asked
    for, training images are ranked only if a training has a seed of that reference.
    """
    row = row if any(row in map(find_ranking_estimator, block.estimators) for block in suite.blocks) else None
    blocks = [block for block in suite.blocks if row is None or row in map(find_ranking_estimator, block.estimators)]
    trained = [block for block in blocks if not ranks_only_test_images(suite, block.protocol.retrain)]
    if number is not None:
        trained = [block for block in trained if number in set(_ranking_for(suite, block, row))]
    return tuple(Split) if trained else (Split.TEST,)


def _ranking_for(suite: SuiteSpec, block: Block, row: Estimator | None) -> Iterator[int]:
    """Yield the numbers of the references by which a row ranks for the seeds of a block."""
    for name in block.estimators:
        if row in (find_ranking_estimator(name), None):
            cell = Cell(suite.dataset, suite.model, name, MORF.order, block.protocol.retrain, "mean", block.unit, 0.0)
            yield from (suite.explained(cell, seed) for seed in range(block.seeds))


def ranks_only_test_images(suite: SuiteSpec, retrain: ScoredNetwork) -> bool:
    """Return whether rows need no rankings of training images under a protocol that trains such networks."""
    return not retrain.trains or (retrain is ScoredNetwork.COMMON and suite.tuned_on is Split.TEST)


def list_control_splits(suite: SuiteSpec) -> tuple[Split, ...]:
    """Return whose images are ranked by the controls that common networks meet: all, where there are such networks."""
    common = any(block.protocol.retrain is ScoredNetwork.COMMON for block in suite.blocks)
    return tuple(Split) if common else list_ranked_splits(suite)
