"""Record what a run needs besides its own record, and plan the run from both, without the suite that planned it first.

The run has data set, network, estimator, level, seed, training recipe, fill, unit and images. The entry has the rest,
which most runs of a suite share.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from roarbench.common.enums import Split, Unit
from roarbench.common.errors import CallerError
from roarbench.common.identity import Keyed, check_field_values
from roarbench.compute.builtin_network_table import MODELS
from roarbench.datasets.catalogue import DATASETS
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.cells_and_runs import CLEAN, Cell, Run
from roarbench.plan.planned_runs import (
    PlannedRun,
    build_run,
    find_protocol_name,
    list_splits_ranked_by,
    list_stored_levels,
)
from roarbench.plan.protocols import PROTOCOLS, ROAR, Protocol
from roarbench.plan.suite import SEEDS_PER_REPLICATION, Block, CustomSuite, GivenNetwork, SuiteSpec, find_published_name


@dataclass(frozen=True)
class PlanEntry(Keyed):
    """Settings of a plan that a run's own record lacks; a field added later has a default value."""

    protocol: str  # name of the run's protocol
    levels: tuple[float, ...]  # levels of the stored rankings
    splits: tuple[Split, ...]  # splits that the run's estimator ranks; empty without a stored ranking
    references: int  # number of explained networks
    reference_recipe: str  # `name@version` of the recipe for training explained networks
    tuned_on: Split = Split.TRAIN  # as in `SuiteSpec`
    given: tuple[str, ...] = ()  # weights of all explained networks, as in `SuiteSpec.given`; empty if trained
    models: tuple[str, ...] = ()  # names of the explained networks if they may differ in architecture


def make_plan_entry(suite: SuiteSpec, run: Run) -> PlanEntry:
    """Return the settings of a suite that determine one of its runs."""
    estimator, number = run.cell.estimator_of_stored_ranking, suite.find_explained_number(run.cell, run.seed)
    return PlanEntry(
        find_protocol_name(run.cell, suite),
        list_stored_levels(suite),
        list_splits_ranked_by(suite, estimator, number) if estimator else (),
        suite.references,
        suite.reference_recipe,
        suite.tuned_on,
        tuple(filter(None, suite.given.split(",")))[: suite.references],
        tuple(network.model for network in suite.networks)[: suite.references],
    )


def read_plan_entry(values: Mapping[str, Any]) -> PlanEntry:
    """Return the entry from its JSON values; raise ValueError, TypeError or LookupError if one is invalid."""
    enums = {"splits": tuple(map(Split, values["splits"])), "tuned_on": Split(values.get("tuned_on", Split.TRAIN))}
    texts = {name: tuple(values.get(name, ())) for name in ("given", "models")}
    entry = PlanEntry(**{**values, **enums, **texts, "levels": tuple(map(float, values["levels"]))})
    check_field_values(entry)
    if not all(0 < t <= 1 for t in entry.levels) or entry.references < 1:
        raise ValueError(f"levels {entry.levels} or {entry.references} references are impossible")
    if {len(entry.given), len(entry.models)} - {0, entry.references}:
        seen = f"{len(entry.given)} weights and {len(entry.models)} models"
        raise ValueError(f"{entry.references} references have {seen}")
    return entry


def plan_single_run(run: Run, entry: PlanEntry, stored_suites: Sequence[SuiteSpec]) -> SuiteSpec:
    """Return a suite that has this run alone, with the same networks and rankings as the suite that planned it.

    A name in a run of a user's own data set or network ends in a hash; `stored_suites` have what the name denotes.

    Raises:
        CallerError: Own data or networks are unknown, or this version plans another run from the same settings.
    """
    cell = run.cell
    if entry.protocol not in PROTOCOLS:
        raise CallerError(f"{run.key} was run under {entry.protocol}; use the version of roarbench that stored it")
    rows = () if cell.estimator == CLEAN else (_find_row(cell.estimator, PROTOCOLS[entry.protocol]),)
    seeds = run.seed % SEEDS_PER_REPLICATION + 1
    block = Block(PROTOCOLS[entry.protocol], rows, entry.levels, seeds, cell.unit, cell.fill)
    suite = SuiteSpec(
        name=f"run-{run.key[:8]}",
        version=1,
        about="a single run",
        dataset=cell.dataset,
        model=cell.model,
        recipe=run.recipe if cell.retrain.trains else entry.reference_recipe,
        reference_recipe=entry.reference_recipe,
        blocks=(block,),
        given=",".join(entry.given),
        maps=run.maps,
        references=entry.references,
        replication=run.seed // SEEDS_PER_REPLICATION,
        own=_find_own_data_and_network(cell.dataset, cell.model, stored_suites),
        tuned_on=entry.tuned_on,
        networks=_find_own_networks(entry, stored_suites) if entry.models else (),
    )
    estimator, number = cell.estimator_of_stored_ranking, suite.find_explained_number(cell, run.seed)
    if estimator and list_splits_ranked_by(suite, estimator, number) != entry.splits:
        # another protocol of the suite also ranked training images, and the checksum of rankings covers both splits
        suite = replace(suite, blocks=(block, Block(ROAR, rows, entry.levels, entry.references, cell.unit)))
    if build_run(suite, PlannedRun(cell, run.seed), run.data, run.limit) != run:
        seen = f"this version plans another run than {run.key} from the same settings"
        raise CallerError(f"{seen}; use the version of roarbench that stored it")
    return suite


def add_rows(suite: SuiteSpec, run: Run, stored: Iterable[tuple[Cell, int]]) -> SuiteSpec:
    """Return the suite of a single run with all rows of the run's protocol and of ROAR among stored cells and seeds."""
    protocols = {(each.order, each.retrain): each for each in (PROTOCOLS[find_protocol_name(run.cell)], ROAR)}
    by_block: defaultdict[tuple[Protocol, Unit, str], list[tuple[Cell, int]]] = defaultdict(list)
    for cell, seed in stored:
        protocol = protocols.get((cell.order, cell.retrain))
        if protocol and cell.estimator != CLEAN and seed // SEEDS_PER_REPLICATION == suite.replication:
            by_block[protocol, cell.unit, cell.fill].append((cell, seed))
    blocks = [*suite.blocks]
    for (protocol, unit, fill), cells in by_block.items():
        rows = set()
        for name in {cell.estimator for cell, _ in cells}:
            with suppress(CallerError):  # an estimator of another version
                rows.add(_find_row(name, protocol))
        levels = tuple(sorted({cell.t for cell, _ in cells}))
        seeds = 1 + max(seed % SEEDS_PER_REPLICATION for _, seed in cells)
        blocks.append(Block(protocol, tuple(sorted(rows)), levels, seeds, unit, fill))
    # submissions do not change the noise that other rows show
    added = frozenset(name for block in blocks for name in block.estimators if find_estimator(name).submitted)
    return replace(suite, blocks=tuple(blocks), added=added)


def _find_row(estimator: str, protocol: Protocol) -> str:
    """Return the row of a protocol that lists an estimator: the estimator itself, or the parent of a paired twin."""
    record = find_estimator(estimator)
    return record.id_without_last_twin if protocol.twin_kind and record.twin == protocol.twin_kind else estimator


def _find_own_data_and_network(dataset: str, model: str, suites: Sequence[SuiteSpec]) -> CustomSuite | None:
    """Return the data set and the source of the network if they are a user's own; None if neither is."""
    own = [suite.own.dataset for suite in suites if suite.own and suite.own.dataset and suite.dataset == dataset]
    sources = [suite.network_source for suite in suites if suite.model == model and suite.network_source]
    if dataset not in DATASETS and not own:
        raise _make_missing_description_error(f"data set {dataset}")
    if _is_own_network(model) and not sources:
        raise _make_missing_description_error(f"network {model}")
    # several suites may describe a data set; the description of an imported suite has no folder
    record = max(own, key=lambda each: bool(each.folder), default=None)
    return CustomSuite((), 1, record, sources[0] if sources else "") if record or sources else None


def _find_own_networks(entry: PlanEntry, suites: Iterable[SuiteSpec]) -> tuple[GivenNetwork, ...]:
    known = {(network.model, network.given): network for suite in suites for network in suite.networks}
    networks = []
    for model, given in zip(entry.models, entry.given, strict=True):
        if _is_own_network(model) and (model, given) not in known:
            raise _make_missing_description_error(f"network {model}")
        networks.append(known.get((model, given)) or GivenNetwork(model, given, weights=find_published_name(given)))
    return tuple(networks)


def _is_own_network(model: str) -> bool:
    return model not in MODELS and ":" not in model  # names of torchvision's and timm's networks begin with `timm:`


def _make_missing_description_error(missing: str) -> CallerError:
    return CallerError(f"this store has no description of the {missing}; import a file that has the run")
