"""Define suites as frozen records: blocks of cells on one data set, the networks, and the controls that apply."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import NamedTuple

from roarbench.common.enums import MapNumerics, ScoredNetwork, Split, Unit
from roarbench.common.errors import CallerError, UnknownName
from roarbench.common.text import format_count
from roarbench.compute.builtin_network_table import NetworkSpec
from roarbench.compute.fills import FILL_WORDS, FILLS, PLAIN_FILLS, TABULAR_FILLS
from roarbench.compute.recipe import Recipe
from roarbench.datasets.catalogue import DatasetRecord, find_dataset
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import CONTROLS, Estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.protocols import Protocol
from roarbench.plan.recipes import find_recipe

NO_NEIGHBOURS = "the columns of a table have no neighbours"
FIRST_REFERENCE_SEED = 1000  # distinct from the seeds of retrained networks, which start at 0
SEEDS_PER_REPLICATION = 10_000  # seeds of replication r start at r times this number, so two replications share no seed
# Maximum number of explained networks that are scored with each other's maps. Seed 100 i + j denotes the map of network
# i and the predictions of network j, so stored runs stay valid if a suite gets more networks
MAX_COMPARED_NETWORKS = 100
_COLOUR_CONTROLS = ("colour-deviation", "saturation-deviation")
# CONTROLS, then the strongest controls of studies/corpus, which were selected on images that no leaderboard uses
_IMAGE_CONTROLS = (*CONTROLS, "contrast", "deviation", "deviation-blurred", *_COLOUR_CONTROLS, "linear-classifier")


def decode_network_pair_seed(seed: int) -> tuple[int, int]:
    """Return the numbers of the explained and the scored network that a seed of an own-network protocol denotes."""
    return divmod(seed % SEEDS_PER_REPLICATION, MAX_COMPARED_NETWORKS)


@dataclass(frozen=True)
class Block:
    """The cells of one protocol: every estimator at every level."""

    protocol: Protocol
    estimators: tuple[str, ...]  # ids in the order of the suite's tables
    levels: tuple[float, ...]  # levels above 0; a block also has the cell at t = 0, except mask-only blocks
    seeds: int  # number of seeds of each cell; seeds start at 0
    unit: Unit = Unit.SCALAR
    fill: str = "mean"


def find_recorded_fill_name(name: str) -> str:
    """Return the records' name of a fill, given the users' name; raise UnknownName if there is no such fill."""
    if (fill := FILL_WORDS.get(str(name), name)) not in FILLS:
        raise UnknownName("fill", name, map(find_displayed_fill_name, FILLS))
    return fill


def find_displayed_fill_name(fill: str) -> str:
    """Return the users' name of a fill, given the records' name, for example `black` for `zero`."""
    return FILLS[fill].word or fill if fill in FILLS else fill


def refuse_unusable_fill(fill: str, retrain: ScoredNetwork) -> None:
    """Raise CallerError for an unknown fill, or if the fill is too slow for masks that change in every epoch."""
    if fill not in FILLS:
        raise UnknownName("fill", fill, map(find_displayed_fill_name, FILLS))
    if fill not in PLAIN_FILLS and retrain is ScoredNetwork.COMMON:
        *first_fills, last_fill = map(find_displayed_fill_name, PLAIN_FILLS)
        remedy = f"for protocols that exchange masks use {', '.join(first_fills)} or {last_fill}"
        raise CallerError(f"fill '{fill}' is too slow to compute for every mask; {remedy}")


def refuse_impossible_cells(block: Block, tabular: bool) -> None:
    """Raise CallerError if the block's fill is impossible for its protocol, or its unit or fill for tabular data."""
    if tabular:
        refuse_impossible_for_table(block.fill, block.unit)
    refuse_unusable_fill(block.fill, block.protocol.retrain)


def refuse_impossible_for_table(fill: str = "mean", unit: Unit = Unit.SCALAR) -> None:
    """Raise CallerError for a unit of several columns, or for a fill that is computed from neighbouring pixels."""
    if unit is not Unit.SCALAR:
        raise CallerError(f"unit is '{unit}', but a table has no pixels; use {Unit.SCALAR}")
    if fill not in TABULAR_FILLS:
        names = ", ".join(map(find_displayed_fill_name, TABULAR_FILLS))
        seen = f"fill '{fill}' is computed from neighbouring pixels, which a table lacks"
        raise CallerError(f"{seen}; use one of {names}")


@dataclass(frozen=True)
class GivenNetwork:
    """An explained network with given weights, in a suite whose networks may differ in architecture."""

    model: str  # name of the network, see `SuiteSpec.model`
    given: str  # `NAME@CHECKSUM` of a file's weights; `torchvision:NAME/WEIGHTS` or `timm:NAME`
    source: str = ""  # text of the Python file that builds the network; empty for built-in networks
    weights: str = field(default="", compare=False)  # path of the weights on this machine, or their published name


def find_published_name(given: str) -> str:
    """Return the name of weights that torchvision or timm publishes; empty for a file, whose path is unknown."""
    return given.replace("/", "@") if "/" in given or given.startswith("timm:") else ""


@dataclass(frozen=True)
class CustomSuite:
    """Fields that only suites from a user's file have."""

    blocks: tuple[Block, ...]  # requested cells
    references: int  # number of explained networks if no weights are given
    dataset: DatasetRecord | None = None  # the suite's own data set; None for one of the catalogue
    source: str = ""  # text of the Python file that builds the network; empty for built-in networks
    explains: str = ""  # published weights to explain, see `SuiteSpec.given`; empty for trained networks
    left_out: tuple[tuple[str, str], ...] = ()  # estimators that do not apply to the network, with reasons


class RemovalChanges(NamedTuple):
    """Changes of a suite by options that set its fill or its unit (`set_allowed_fill_and_unit`)."""

    fill: str = ""  # users' name of the fill; empty if unchanged
    unit: Unit | None = None
    without: tuple[str, ...] = ()  # protocols that do not allow this fill or unit

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options with their values, as for the command line."""
        return (*(("--fill", self.fill) if self.fill else ()), *(("--unit", self.unit) if self.unit else ()))

    @property
    def title(self) -> str:
        """Return the part of a suite's title that names the changes; empty without changes."""
        without = f"without {', '.join(self.without)}" if self.without else ""
        parts = (f"fill {self.fill}" if self.fill else "", f"unit {self.unit}" if self.unit else "", without)
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class SuiteSpec:
    """A named, versioned, frozen set of cells; a published suite never changes, and a correction is a new version."""

    name: str  # value of `--suite`
    # number that increases with every change of the computation; for a suite from a user's file, the first digits of a
    # hash of everything that the suite computes
    version: int | str
    about: str  # description in a few words
    dataset: str
    model: str  # architecture of the explained and the retrained networks
    recipe: str  # `name@version` of the recipe for training on degraded images
    reference_recipe: str  # `name@version` of the recipe for training explained networks
    blocks: tuple[Block, ...]
    # `NAME@CHECKSUM` of the explained networks' weights in the order of the networks' numbers, joined by commas; empty
    # for trained networks
    given: str = ""
    maps: MapNumerics = MapNumerics.FLOAT32  # settings of the explained networks' maps
    references: int = 1  # number of explained networks; seed s of a cell uses the maps of network s mod `references`
    replication: int = 0  # number of the replication, which has other seeds and networks; 0 for the original
    own: CustomSuite | None = None  # fields that only suites from a user's file have; None for published suites
    # split whose masks tune the common network for each row; with the test split, training images need no maps
    tuned_on: Split = Split.TRAIN
    changes: RemovalChanges = field(default=RemovalChanges(), compare=False)  # by the options `--fill` and `--unit`
    # ids of estimators that a store adds to the suite (`add_estimators_with_twins`)
    added: frozenset[str] = field(default=frozenset(), compare=False)
    networks: tuple[GivenNetwork, ...] = ()  # explained networks that differ in weights and perhaps in architecture

    def __hash__(self) -> int:  # of all fields, it takes ten times as long, and suites are keys of many caches
        return hash((self.name, self.version, self.given, self.replication))

    @property
    def versioned(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def name_in_commands(self) -> str:
        """Return the name that users give to `--suite`; the name alone selects the newest version of a named suite."""
        return self.versioned if self.own else self.name

    @property
    def title(self) -> str:
        """Return the name with version, for tables and pages."""
        replication = f", replication {self.replication}" if self.replication else ""
        suffix = f", {self.changes.title}" if self.changes.title else ""
        return f"{self.name_in_commands if self.own else f'{self.name} v{self.version}'}{suffix}{replication}"

    def list_seeds(self, block: Block, estimator: str = CLEAN) -> Sequence[int]:
        """Return the seeds of each cell of a block; there is one seed per explained network if no network is trained.

        If every network is scored with every network's maps, there is one seed per pair of networks, but only one seed
        per network for estimators whose map is the same for all networks.
        """
        first, numbers = SEEDS_PER_REPLICATION * self.replication, range(self.references)
        if block.protocol.retrain is ScoredNetwork.SIBLINGS:
            per_network = estimator == CLEAN or find_estimator(estimator).depends_on_network
            pairs = product(numbers, numbers) if per_network else zip(numbers, numbers, strict=True)
            return [first + MAX_COMPARED_NETWORKS * explained + scored for explained, scored in pairs]
        return range(first, first + (block.seeds if block.protocol.trains else self.references))

    def find_given_weights(self, number: int) -> str:
        """Return an explained network's given weights, as in `given`; empty if the network is trained."""
        return self.given.split(",")[number] if self.given else ""

    def find_explained_number(self, cell: Cell, seed: int) -> int:
        """Return the number of the network that a cell's map explains; for a twin `other-reference`, the next one."""
        number = decode_network_pair_seed(seed)[0] if cell.retrain is ScoredNetwork.SIBLINGS else seed
        shift = EstimatorId.parse(cell.estimator).explains_next_network
        return (number % SEEDS_PER_REPLICATION + shift) % self.references

    def find_scored_number(self, cell: Cell, seed: int) -> int:
        """Return the number of the explained network that is scored for a cell."""
        number = decode_network_pair_seed(seed)[1] if cell.retrain is ScoredNetwork.SIBLINGS else seed
        return number % SEEDS_PER_REPLICATION % self.references

    def find_fill(self, protocol: Protocol) -> str:
        """Return the fill of a protocol's tables: the fill of its first block, or the mean if it has no block."""
        protocols = (protocol, *protocol.computed_from)
        return next((block.fill for block in self.blocks if block.protocol in protocols), "mean")

    def find_default_unit(self, protocol: Protocol) -> Unit:
        """Return the unit of a protocol's tables: the unit of its first block."""
        measured = (protocol.computed_from or (protocol,))[0]
        return next((block.unit for block in self.blocks if block.protocol == measured), Unit.SCALAR)

    def list_protocol_rows_and_levels(
        self, protocol: Protocol, unit: Unit, fill: str = ""
    ) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Return the estimators and the levels above 0 of a protocol's blocks with this unit and fill.

        An empty `fill` selects the protocol's own fill. For a protocol that is computed from two others, return only
        estimators and levels that both have.
        """
        rows, levels, fill = [], [], fill or self.find_fill(protocol)
        for part in protocol.computed_from or (protocol,):
            cells = (part, unit, fill)
            blocks = [block for block in self.blocks if (block.protocol, block.unit, block.fill) == cells]
            rows.append(dict.fromkeys(name for block in blocks for name in block.estimators))
            levels.append({t for block in blocks for t in block.levels})
        shared = sorted(set.intersection(*levels))
        return tuple(name for name in rows[0] if name in rows[-1]), tuple(shared)

    @property
    def estimators(self) -> tuple[str, ...]:
        """Return the ids of all estimators in order, without duplicates."""
        return tuple(dict.fromkeys(name for block in self.blocks for name in block.estimators))

    @property
    def estimator_records(self) -> tuple[Estimator, ...]:
        """Return the records of all estimators in order, without duplicates."""
        return tuple(map(find_estimator, self.estimators))

    @property
    def estimators_with_own_row(self) -> tuple[str, ...]:
        """Return the ids of the estimators that tables rank, in order."""
        return tuple(estimator.id for estimator in self.estimator_records if estimator.has_own_row)

    @property
    def dataset_record(self) -> DatasetRecord:
        """Return the record of the data set: the suite's own, or that of the catalogue."""
        return self.own and self.own.dataset or find_dataset(self.dataset)

    @property
    def architecture_names(self) -> str:
        return ", ".join(dict.fromkeys(network.model for network in self.networks)) or self.model

    def find_network(self, number: int | None = None) -> NetworkSpec:
        """Return the suite's network, or its explained network with this number."""
        record, own = self.dataset_record, None if number is None or not self.networks else self.networks[number]
        name, source = (own.model, own.source) if own else (self.model, self.network_source)
        return NetworkSpec(name, record.classes, record.channels, record.size, source)

    @property
    def network_source(self) -> str:
        """Return the Python source that defines the suite's network; empty for a built-in network."""
        return self.own.source if self.own else ""

    @property
    def controls(self) -> tuple[str, ...]:
        return list_applicable_controls(self.dataset_record)

    @property
    def left_out(self) -> dict[str, str]:
        """Return a dict from each control or requested estimator that does not apply to the reason."""
        controls = dict.fromkeys((name for name in CONTROLS if name not in self.controls), NO_NEIGHBOURS)
        return controls | (dict(self.own.left_out) if self.own else {})

    def explain_inapplicable(self, estimator: str) -> str:
        """Return the reason why an estimator does not apply to the images or network; empty if no reason is known."""
        if EstimatorId.parse(estimator).explains_next_network and self.references < 2:
            return "its maps explain the next network, but the suite explains only one; write references = 2"
        if why := self.left_out.get(estimator):
            return why
        row, record, features = find_estimator(estimator), self.dataset_record, prod(self.dataset_record.shape)
        if record.tabular and row.uses_neighbouring_features:
            return NO_NEIGHBOURS
        if record.test_only and row.uses_prediction:
            return "it is fitted to training images, but the suite has none"
        if row.most_features and features > row.most_features:
            return f"it supports at most {row.most_features} features, but an image here has {features:,}"
        return ""

    @property
    def recipe_record(self) -> Recipe:
        """Return the recipe by which networks are trained on degraded images."""
        return find_recipe(self.recipe)


def list_applicable_controls(record: DatasetRecord) -> tuple[str, ...]:
    """Return the controls that apply to a data set; for tables, only Random applies."""
    return tuple(name for name in CONTROLS if not (record.tabular and find_estimator(name).uses_neighbouring_features))


def list_controls_to_beat(channels: int, tabular: bool = False) -> tuple[str, ...]:
    """Return the controls that an estimator has to beat; grey images and tables have fewer than colour images."""
    if tabular:
        return ("random", "deviation", "linear-classifier")
    return tuple(name for name in _IMAGE_CONTROLS if channels > 1 or name not in _COLOUR_CONTROLS)


def describe_missing_controls(suite: SuiteSpec, protocol: Protocol) -> str:
    """Return a warning that lists the controls that a user's suite lacks for a protocol with two masks per image.

    The warning is empty for other protocols and for named suites.
    """
    if not suite.own or not protocol.compares_with_other_image:
        return ""
    record = suite.dataset_record
    names = {name for block in suite.blocks if block.protocol == protocol for name in block.estimators}
    controls = {name for name in names if find_estimator(name).is_control_to_beat}
    present = {name for name in controls if not suite.explain_inapplicable(name)}
    usual = list_controls_to_beat(record.channels, record.tabular)
    missing = [name for name in usual if name not in present and not suite.explain_inapplicable(name)]
    if not present or not missing:
        return ""
    seen = f"only {format_count(len(present), 'control')} for {protocol.name}, and fewer controls are easier to beat"
    return f"{seen}; add {', '.join(missing)} to `estimators`, or the word controls for all"
