"""Read a suite's predictions: their correctness, and those of each network under each network's maps."""

from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.suite_results import ByPoint, SuiteResults
from roarbench.common.enums import FEWEST_NETWORKS, Unit
from roarbench.estimators.catalogue import find_estimator, find_search
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, SEEDS_PER_REPLICATION
from roarbench.stats.correctness_and_gain import UNTOUCHED, Bits, Correctness, Point
from roarbench.stats.gains import select_variance_components
from roarbench.stats.variance_components import VarianceComponents, estimate_variance_components
from roarbench.store.run_result import RunResult, unpack_correctness

Grid = Sequence[Sequence[RunResult]]  # [map][network]


def collect_correctness(results: SuiteResults, protocol: Protocol, unit: Unit, fill: str = "") -> Correctness:
    """Return the correctness of all rows of a protocol, unit and fill; without levels if the suite lacks these.

    Own-network gain compares networks, not their correctness, so its rows have levels and no cells. The default fill is
    the fill of the protocol's tables. For a protocol derived from two others, the result is the correctness of the
    first protocol, for the rows, levels and seeds that both protocols have.
    """
    return _collect_correctness(results, protocol, unit, fill or results.suite.find_fill(protocol))


@lru_cache(64)  # a protocol's judge, its variances and the claims read the same correctness
def _collect_correctness(results: SuiteResults, protocol: Protocol, unit: Unit, fill: str) -> Correctness:
    parts = protocol.computed_from or (protocol,)
    rows, levels = results.list_planned_rows_and_included_levels(protocol, unit, fill)
    records = {name: find_estimator(name) for name in rows}
    empty = Correctness(  # without the correctness of any cell
        rows,
        levels,
        {},
        inconsistent=frozenset(results.explain_inconsistent_rows(protocol, unit, fill)),
        checks=frozenset(name for name in rows if not records[name].has_own_row),
        submitted=results.suite.added,
        model_free_controls=frozenset(name for name in rows if records[name].is_control_to_beat),
        searches={name: search for name in rows if (search := find_search(name))},
    )
    if not empty.levels or protocol.scores_all_network_pairs:
        return empty
    own, other = (results.find_results(part, unit, fill) for part in (parts[0], parts[-1]))
    if protocol.computed_from:
        both = {at: [seed for seed in seeds if seed in other[at]] for at, seeds in own.items() if at in other}
        own = {at: {seed: own[at][seed] for seed in seeds} for at, seeds in both.items() if seeds}
    names, steps = {CLEAN, *empty.estimators, *CONTROLS}, {0.0, *empty.levels}
    used = {at: seeds.values() for at, seeds in own.items() if at[0] in names and at[1] in steps}
    independent = results.check_rows(protocol, unit, fill).independent
    explained = {at: tuple(result.run.reference for result in group) for at, group in used.items()}
    references = {at: keys for at, keys in explained.items() if all(keys) and at[0] not in independent}
    correct = dict(zip(used, _unpack_groups(list(used.values())), strict=True))
    scores = replace(empty, correct=correct, references=references)
    if not protocol.random_is_zero:
        return scores
    return replace(scores, differences=_subtract_counterparts(scores, own, other, protocol))


@lru_cache(64)  # the judges of all units and levels share the variances
def estimate_variance(results: SuiteResults, protocol: Protocol, fill: str = "") -> VarianceComponents | None:
    """Estimate the variance between explained networks and training runs under a protocol, over all units.

    Returns None if the variance is unknown. Results of other protocols and fills are not used, because their networks
    are trained on other images.
    """
    by_unit = [scores for unit in Unit if (scores := collect_correctness(results, protocol, unit, fill)).correct]
    return select_variance_components(
        protocol, estimate_variance_components(scores.differences or scores for scores in by_unit)
    )


def _unpack_groups(groups: Sequence[Collection[RunResult]]) -> list[NDArray[np.bool_]]:
    """Return the correctness of groups of results on the same images, bool (results, images) for each group."""
    if not groups:
        return []
    whole = unpack_correctness([result for group in groups for result in group])  # at once, which is faster
    return [whole[end - len(group) : end] for group, end in zip(groups, accumulate(map(len, groups)), strict=True)]


def _subtract_counterparts(scores: Correctness, by_own: ByPoint, by_other: ByPoint, protocol: Protocol) -> Correctness:
    """Return each cell's correctness minus that of its counterpart, separately for each point and seed.

    The counterpart is the result of the same network on the same images, but with masks from other images. For a
    protocol derived from two others, the counterpart is the same row's result under the second protocol.
    """
    correct: dict[Point, NDArray[np.int8]] = {}
    references: dict[Point, tuple[str, ...]] = {}
    mixed = set(scores.inconsistent)
    for name, t in scores.correct:
        against = name if t == 0 or protocol.computed_from else protocol.make_paired_twin_id(name)
        mixed |= {name} if against in scores.inconsistent else set()
        own, other = by_own[name, t], by_other.get((against, t), {})
        if seeds := [seed for seed in own if seed in other]:
            one, two = _unpack_groups([[by_seed[seed] for seed in seeds] for by_seed in (own, other)])
            correct[name, t] = one.view(np.int8) - two.view(np.int8)
            explained = tuple(own[seed].run.reference for seed in seeds)
            references |= {(name, t): explained} if (name, t) in scores.references else {}
    return replace(scores, correct=correct, references=references, inconsistent=frozenset(mixed))


def load_kept_predictions(
    results: SuiteResults, protocol: Protocol, unit: Unit, scores: Correctness
) -> tuple[dict[str, NDArray[np.bool_]], frozenset[str]]:
    """Return each complete row's kept predictions at the levels of `scores`, on the images on which networks agree.

    Returns:
        Kept predictions by row (`compute_own_network_gains`), and the rows whose masks are equal for all networks.
    """
    stored, shared = results.find_results(protocol, unit), _mark_images_predicted_alike(results, protocol, unit)
    kept, fixed = dict[str, NDArray[np.bool_]](), set[str]()
    if shared is None or not shared.any():
        return kept, frozenset()
    for name in scores.estimators:
        grids = [_arrange_by_map_and_network(results, stored, (name, t)) for t in scores.levels]
        complete = [grid for grid in grids if grid]
        if complete and len(complete) == len(grids) and name not in scores.inconsistent:
            results_in_order = [result for grid in complete for row in grid for result in row]
            shape = (len(complete), len(complete[0]), len(complete[0]), -1)
            kept[name] = unpack_correctness(results_in_order).compress(shared, 1).reshape(shape).transpose(1, 2, 0, 3)
            fixed |= {name} if _has_same_masks_for_all_networks(complete, results.masks, shared) else set()
    return kept, frozenset(fixed)


def list_points_with_every_map_and_network(results: SuiteResults, protocol: Protocol, unit: Unit) -> list[Point]:
    """Return the points, of rows and of the untouched images, with a result of every network under every map."""
    stored = results.find_results(protocol, unit)
    return [point for point in stored if _arrange_by_map_and_network(results, stored, point)]


def describe_total_disagreement_of_networks(results: SuiteResults, protocol: Protocol, unit: Unit) -> str:
    """Return a sentence saying that the networks agree on no test image, or "" if they agree on some.

    The result is also empty if a network lacks stored predictions on the untouched images.
    """
    shared = _mark_images_predicted_alike(results, protocol, unit)
    if shared is None or shared.any():
        return ""
    seen = f"The {results.suite.references} networks predict the same class for none of the {len(shared)} test images"
    return f"{seen}, so own-network gain cannot be computed; use networks with the same classes, or more images."


def load_kept_under_own_and_next_map(
    results: SuiteResults, protocol: Protocol, unit: Unit, name: str
) -> tuple[Sequence[Bits], Sequence[Bits]]:
    """Return predictions kept under the own and the next network's map: bool (images,) per network and level."""
    stored, own, other = results.find_results(protocol, unit), list[Bits](), list[Bits]()
    for t in results.list_included_levels(protocol, unit):
        grid = _arrange_by_map_and_network(results, stored, (name, t)) or ()
        for i in range(len(grid)):
            own.append(grid[i][i].correctness)
            other.append(grid[(i + 1) % len(grid)][i].correctness)
    return own, other


def _mark_images_predicted_alike(results: SuiteResults, protocol: Protocol, unit: Unit) -> NDArray[np.bool_] | None:
    """Mark the images to which all networks assign the same class, bool (images,); None without enough results."""
    untouched = _arrange_by_map_and_network(results, results.find_results(protocol, unit), UNTOUCHED)
    if untouched is None or len(untouched) < FEWEST_NETWORKS:
        return None
    return np.asarray(unpack_correctness([result for row in untouched for result in row]).all(0))


def _arrange_by_map_and_network(results: SuiteResults, stored: ByPoint, point: Point) -> Grid | None:
    """Arrange the results at a point as a grid of maps by networks; None if a result is missing.

    If the map is the same for all networks, one score per network is stored and used for every map.
    """
    by_seed, numbers = stored.get(point, {}), range(results.suite.references)
    per_network = point == UNTOUCHED or find_estimator(point[0]).depends_on_network
    first = SEEDS_PER_REPLICATION * results.suite.replication
    try:
        return [
            [by_seed[first + MAX_COMPARED_NETWORKS * (i if per_network else j) + j] for j in numbers] for i in numbers
        ]
    except KeyError:
        return None


def _has_same_masks_for_all_networks(
    grids: Sequence[Grid], masks: Mapping[str, str], shared: NDArray[np.bool_]
) -> bool:
    for grid in grids:
        hashes = [masks.get(grid[i][i].run.key, "") for i in range(len(grid))]
        if not all(hashes):
            return False
        decoded = (np.frombuffer(b64decode(text), np.uint8).reshape(len(shared), -1) for text in hashes)
        own = (every.compress(shared, 0).tobytes() for every in decoded)
        first = next(own)
        if not all(first == other for other in own):  # the second differs, unless networks do not matter
            return False
    return True
