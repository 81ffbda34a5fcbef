"""Which runs a suite consists of: frozen records, made before anything is computed.

A *cell* is one point of a curve, a *run* is a cell with a seed and with all else that fixes its outcome. The hash of
a run's whole record is its key, so a run that is stored is never done again and a changed setting never meets old rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from roarbench.datasets import DatasetRecord
from roarbench.datasets.catalogue import find_dataset
from roarbench.errors import CallerError, UnknownName
from roarbench.estimators import CONTROLS, SHAPLEY_FEATURES, Estimator, find_estimator, ranked_by
from roarbench.identity import fingerprint, record
from roarbench.plan.recipes import Recipe, find_recipe
from roarbench.terms import FILLS, MORF, PROTOCOLS, SHOWN, Order, Precision, Protocol, Retrain, Split, Unit

NO_NEIGHBOURS = "it looks at neighbouring pixels, and the columns of a table have no neighbours"
CLEAN = "none"  # the estimator of the cell at t = 0, where nothing is removed
REFERENCE_SEED = 1000  # apart from the seeds of the retrained networks, which count up from 0
REPLICATION = 10_000  # from the seeds of a replication to those of the next: all of them are disjoint


@dataclass(frozen=True)
class Cell:
    """One point of a curve.

    Attributes:
        dataset: Name of the data set.
        model: Name of the network that is trained.
        estimator: Id of the estimator whose ranking is removed; `CLEAN` at t = 0.
        order: Which end of the ranking goes first.
        retrain: Which network is scored.
        fill: What replaces a removed feature.
        unit: What one feature is.
        t: Level, the fraction of features removed, in [0, 1].
    """

    dataset: str
    model: str
    estimator: str
    order: Order
    retrain: Retrain
    fill: str
    unit: Unit
    t: float

    def __post_init__(self) -> None:
        if not 0 <= self.t <= 1:
            raise ValueError(f"level t must be in [0, 1], got {self.t}; 30% is written 0.3")

    @property
    def estimator_record(self) -> Estimator | None:
        """Return what ranks the features; None for untouched images."""
        return None if self.estimator == CLEAN else find_estimator(self.estimator)

    @property
    def ranked_by(self) -> Estimator | None:
        """Return the estimator by whose rankings features go; None for untouched images and where none is stored."""
        return None if self.estimator == CLEAN else ranked_by(self.estimator)


@dataclass(frozen=True)
class Run:
    """A cell with everything else that fixes its outcome; one row of the results store.

    A field added after a release gets a default and is left out of the key while it has that default, so that the
    keys of stored rows never change.

    Attributes:
        cell: The point of a curve.
        seed: Drives initialisation, batch order and augmentation, and the rankings of `random-redrawn`, which are drawn
            while training. No other ranking depends on it.
        recipe: `name@version` of the training recipe; that of the reference where nothing is retrained.
        data: Fingerprint of the decoded images and labels.
        estimator: Fingerprint of the estimator and its parameters.
        reference: Fingerprint of the explained model; empty where neither ranking nor score depends on it.
        limit: Images per split if the data set was made small; None for the whole set.
        given: `NAME@CHECKSUM` of the explained model's weights if they were given; empty if it was trained, or where
            nothing depends on it.
        maps: What the explained model was to compute with while its maps were made; float32 where nothing depends on
            them.
        network: Key of the common network; empty where a network of the run's own, or the reference, is scored.
    """

    cell: Cell
    seed: int
    recipe: str
    data: str
    estimator: str
    reference: str
    limit: int | None = None
    given: str = ""
    maps: Precision = Precision.FLOAT32
    network: str = ""

    @property
    def key(self) -> str:
        """Return the hash of the whole record, 32 hex digits."""
        return fingerprint(record(self))

    @property
    def recipe_record(self) -> Recipe:
        """Return how its network is trained."""
        return find_recipe(self.recipe)


@dataclass(frozen=True)
class Reference:
    """Explained model, by all that fixes it.

    Attributes:
        dataset: Name of the data set.
        data: Fingerprint of the decoded images and labels.
        model: Name of the network.
        recipe: `name@version` of its training recipe; empty where its weights were given.
        seed: Drives initialisation, batch order and augmentation.
        given: `NAME@CHECKSUM` of weights that were given instead of trained; empty if it was trained.
    """

    dataset: str
    data: str
    model: str
    recipe: str
    seed: int
    given: str = ""

    @property
    def key(self) -> str:
        """Return the hash of the whole record, 32 hex digits."""
        return fingerprint(record(self))


def run_of(values: Mapping[str, Any]) -> Run:
    """Return the run that `record` was made of."""
    cell = dict(values["cell"])
    cell |= {"order": Order(cell["order"]), "retrain": Retrain(cell["retrain"]), "unit": Unit(cell["unit"])}
    maps = Precision(values.get("maps", Precision.FLOAT32))
    return Run(**{**values, "cell": Cell(**cell), "maps": maps})


@dataclass(frozen=True)
class Block:
    """A rectangle of cells under one protocol.

    Attributes:
        protocol: The question.
        estimators: Ids, in the order of the suite's tables.
        levels: Levels above 0; the cell at t = 0 comes with every block that has one.
        seeds: Seeds 0 … seeds - 1 of each cell.
        unit: What one feature is.
        fill: What replaces a removed feature.
    """

    protocol: Protocol
    estimators: tuple[str, ...]
    levels: tuple[float, ...]
    seeds: int
    unit: Unit = Unit.SCALAR
    fill: str = "mean"

    @property
    def estimator_records(self) -> tuple[Estimator, ...]:
        """Return its estimators, in order."""
        return tuple(map(find_estimator, self.estimators))


@dataclass(frozen=True)
class Own:
    """Part of a suite that no table has, because somebody's file describes it.

    Attributes:
        blocks: Its cells as they were asked for.
        references: How many networks it explains if none are given.
        dataset: Its data set; None for one of the table.
        source: The Python file that makes its network; empty for one that is known by its name.
        left_out: Estimators that do not apply to the network, each with the reason.
    """

    blocks: tuple[Block, ...]
    references: int
    dataset: DatasetRecord | None = None
    source: str = ""
    left_out: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Suite:
    """A named, versioned, frozen set of cells; a published suite never changes, it gets a successor.

    Attributes:
        name: What `--suite` takes.
        version: Counts up with every change of what is computed; of a suite from somebody's file the start of the hash
            of what is computed.
        about: One sentence.
        dataset: Name of the data set.
        model: Name of the network, for the reference and for every retraining.
        recipe: `name@version`, how the networks on degraded images are trained.
        reference_recipe: `name@version`, how the reference is trained.
        blocks: Its cells.
        given: `NAME@CHECKSUM` of the references' weights, in the order of their numbers with commas between; empty if
            they are trained by `reference_recipe`.
        maps: What the reference computes with while its maps are made.
        references: How many networks are explained: seed s of a cell is ranked by reference s mod `references`.
        replication: 0, or which repetition with other seeds and other references it is.
        own: What somebody's file says that no table has; None for the suites of the table.
        tuned_on: Whose images' removed-maps the common networks meet when they are tuned on a row; for those of test
            images no training image has to be explained.
    """

    name: str
    version: int | str
    about: str
    dataset: str
    model: str
    recipe: str
    reference_recipe: str
    blocks: tuple[Block, ...]
    given: str = ""
    maps: Precision = Precision.FLOAT32
    references: int = 1
    replication: int = 0
    own: Own | None = None
    tuned_on: Split = Split.TRAIN

    @property
    def called(self) -> str:
        """Return what `--suite` takes, wherever the store is that has it."""
        return f"{self.name}@{self.version}" if self.own else self.name

    @property
    def title(self) -> str:
        """Return the name with version, as tables and pages show it."""
        again = f", replication {self.replication}" if self.replication else ""
        return f"{self.called if self.own else f'{self.name} v{self.version}'}{again}"

    def seeds(self, block: Block) -> range:
        """Return the seeds of each cell of a block; where nothing is trained there is one for each reference."""
        first = REPLICATION * self.replication
        return range(first, first + (self.references if block.protocol.retrain is Retrain.NONE else block.seeds))

    def given_to(self, number: int) -> str:
        """Return `NAME@CHECKSUM` of the weights of a reference; empty if it is trained."""
        return self.given.split(",")[number] if self.given else ""

    def reference_number(self, seed: int) -> int:
        """Return which reference ranks for a seed, in [0, references)."""
        return seed % REPLICATION % self.references

    def reference_seed(self, number: int) -> int:
        """Return the seed of a reference; the one after it is that of its network with random weights.

        Given weights have the first one's: their checksum says which they are, whatever else was given with them.
        """
        return REPLICATION * self.replication + REFERENCE_SEED + (0 if self.given else 2 * number)

    @property
    def estimators(self) -> tuple[str, ...]:
        """Return the ids of all estimators, each once, in order."""
        return tuple(dict.fromkeys(name for block in self.blocks for name in block.estimators))

    @property
    def estimator_records(self) -> tuple[Estimator, ...]:
        """Return all estimators, each once, in order."""
        return tuple(map(find_estimator, self.estimators))

    @property
    def placed(self) -> tuple[str, ...]:
        """Return the ids of the estimators that are rows of their own, in order."""
        return tuple(estimator.id for estimator in self.estimator_records if estimator.placed)

    @property
    def dataset_record(self) -> DatasetRecord:
        """Return the data set."""
        return self.own and self.own.dataset or find_dataset(self.dataset)

    @property
    def network_source(self) -> str:
        """Return the Python file that makes its network; empty where its name says which it is."""
        return self.own.source if self.own else ""

    @property
    def asked_estimators(self) -> tuple[Estimator, ...]:
        """Return all estimators that were asked for, those that do not apply to the network among them."""
        blocks = self.own.blocks if self.own else self.blocks
        return tuple(map(find_estimator, dict.fromkeys(name for block in blocks for name in block.estimators)))

    @property
    def controls(self) -> tuple[str, ...]:
        """Return the controls that its images allow."""
        return controls_on(self.dataset_record)

    @property
    def left_out(self) -> dict[str, str]:
        """Return the controls and the asked estimators that do not apply to its images or network, with the reasons."""
        controls = dict.fromkeys((name for name in CONTROLS if name not in self.controls), NO_NEIGHBOURS)
        return controls | (dict(self.own.left_out) if self.own else {})

    def why_not(self, estimator: str) -> str:
        """Return why an estimator does not apply to its images or network, as far as is known; empty if it does."""
        return self.left_out.get(estimator) or _no_use(find_estimator(estimator), self.dataset_record)

    @property
    def recipe_record(self) -> Recipe:
        """Return how the networks on degraded images are trained."""
        return find_recipe(self.recipe)


def controls_on(record: DatasetRecord) -> tuple[str, ...]:
    """Return the controls that the images of a data set allow: Random alone where they are rows of a table."""
    return tuple(name for name in CONTROLS if not (record.tabular and find_estimator(name).spatial))


def _no_use(estimator: Estimator, record: DatasetRecord) -> str:
    """Return why an estimator cannot be asked of the images of a data set; empty if it can."""
    if record.tabular and estimator.spatial:
        return NO_NEIGHBOURS
    features = prod(record.shape)
    if estimator.base == "shapley" and features > SHAPLEY_FEATURES:
        return f"it looks at every coalition of {SHAPLEY_FEATURES} features at most, and here are {features:,}"
    return ""


@dataclass(frozen=True)
class Point:
    """A cell and a seed, before the data's and the reference's fingerprints are known."""

    cell: Cell
    seed: int


def expand(suite: Suite) -> tuple[Point, ...]:
    """Return all points of a suite, each once; the untouched images (t = 0) first in every block."""
    return tuple(dict.fromkeys(point for block in suite.blocks for point in _block_points(suite, block)))


def _block_points(suite: Suite, block: Block) -> Iterator[Point]:
    protocol = block.protocol
    place = (suite.dataset, suite.model)
    if clean := untouched_by(protocol.retrain):
        cell = Cell(*place, CLEAN, MORF.order, clean, "mean", Unit.SCALAR, 0.0)
        yield from (Point(cell, seed) for seed in suite.seeds(block))
    for estimator, t, seed in product(block.estimators, block.levels, suite.seeds(block)):
        for name in (estimator, protocol.counterpart(estimator)) if protocol.paired else (estimator,):
            cell = Cell(*place, name, protocol.order, protocol.retrain, block.fill, block.unit, t)
            yield Point(cell, seed)


def find_protocol(name: str) -> Protocol:
    """Return the protocol of this name, of those that are run.

    Raises:
        CallerError: There is none, or it is made of what others answered.
    """
    if name in SHOWN and (parts := [part.name for part in SHOWN[name].made_of]):
        raise CallerError(
            f"{name} is made of the answers under {' and '.join(parts)} and never run; run those, then "
            f"`roarbench table --protocol {name}` shows it"
        )
    if name not in PROTOCOLS:
        raise UnknownName("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]


def check_fill(fill: str, retrain: Retrain) -> None:
    """Refuse a fill that there is not, or one that is made once where what is removed is drawn anew in every epoch.

    Raises:
        CallerError: As said.
    """
    if fill not in FILLS:
        raise UnknownName("fill", fill, FILLS)
    if fill != "mean" and retrain in (Retrain.EXCHANGED, Retrain.COMMON):
        raise CallerError(f"fill '{fill}' is made once for an image; where masks are exchanged write the fill mean")


def untouched_by(retrain: Retrain) -> Retrain | None:
    """Return which network is scored at t = 0, where nothing is removed and nothing is exchanged.

    None for masks alone: an empty removed-map says nothing, so that cell is chance.
    """
    if retrain is Retrain.MASKS:
        return None
    return Retrain.IMAGES if retrain is Retrain.EXCHANGED else retrain


def select(
    suite: Suite, estimators: Iterable[str] | None = None, seeds: int | None = None, protocol: Protocol | None = None
) -> Suite:
    """Return the part of a suite with these estimators, or one protocol, or other numbers of seeds where it trains."""
    names = suite.estimators if estimators is None else tuple(estimators)
    blocks = []
    for block in (block for block in suite.blocks if protocol in (None, block.protocol)):
        kept = tuple(name for name in block.estimators if name in names)
        trained = block.protocol.retrain is not Retrain.NONE
        blocks.append(replace(block, estimators=kept, seeds=seeds if seeds and trained else block.seeds))
    references = min(suite.references, seeds or suite.references)  # those that no seed is ranked by are not needed
    return replace(suite, blocks=tuple(block for block in blocks if block.estimators), references=references)


def with_seeds(suite: Suite, seeds: Mapping[tuple[Retrain, str], int]) -> Suite:
    """Return the part of a suite in which every row has so many trainings, and no more than the suite gives it.

    Args:
        suite: Which.
        seeds: By kind of network and estimator; 1 for those that are not in it.
    """
    blocks = [part for block in suite.blocks for part in _with_seeds(block, seeds)]
    most = max(
        (block.seeds for block in blocks if block.protocol.retrain is not Retrain.NONE), default=suite.references
    )
    return replace(suite, blocks=tuple(blocks), references=min(suite.references, most))


def _with_seeds(block: Block, seeds: Mapping[tuple[Retrain, str], int]) -> Iterator[Block]:
    retrain = block.protocol.retrain
    if retrain is Retrain.NONE:
        yield block
        return
    counts = {name: min(block.seeds, seeds.get((retrain, name), 1)) for name in block.estimators}
    for count in dict.fromkeys(counts.values()):
        yield replace(block, estimators=tuple(name for name in counts if counts[name] == count), seeds=count)


def missing(runs: Iterable[Run], done: set[str]) -> list[Run]:
    """Return the runs whose key is not stored yet, in order."""
    return [run for run in runs if run.key not in done]


def describe(point: Point) -> str:
    """Describe one run in a few words."""
    cell = point.cell
    return f"{protocol_name(cell)} {cell.estimator} t={cell.t:g} {cell.unit} seed {point.seed}"


def protocol_name(cell: Cell) -> str:
    """Return the name of the protocol that a cell belongs to."""
    asked = (cell.order, cell.retrain)
    protocols = (protocol for protocol in PROTOCOLS.values() if not protocol.paired)  # whose cells another one has
    return next(protocol.name for protocol in protocols if (protocol.order, protocol.retrain) == asked)
