"""Read a suite's predictions of each network under each network's maps, from which own-network gain is computed."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import FEWEST_NETWORKS, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, SEEDS_PER_REPLICATION
from roarbench.stats.correctness_and_gain import UNTOUCHED, Bits, Correctness, Point
from roarbench.store.run_result import RunResult, unpack_correctness

Grid = Sequence[Sequence[RunResult]]  # [map][network]


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
        per_network = find_estimator(name).depends_on_network
        grids = [_arrange_by_map_and_network(results, stored.get((name, t), {}), per_network) for t in scores.levels]
        complete = [grid for grid in grids if grid]
        if complete and len(complete) == len(grids) and name not in scores.inconsistent:
            results_in_order = [result for grid in complete for row in grid for result in row]
            shape = (len(complete), len(complete[0]), len(complete[0]), -1)
            kept[name] = unpack_correctness(results_in_order).compress(shared, 1).reshape(shape).transpose(1, 2, 0, 3)
            fixed |= {name} if _has_same_masks_for_all_networks(complete, results.masks, shared) else set()
    return kept, frozenset(fixed)


def list_points_with_every_map_and_network(results: SuiteResults, protocol: Protocol, unit: Unit) -> list[Point]:
    """Return the points, of rows and of the untouched images, with a result of every network under every map."""
    return [
        at
        for at, by_seed in results.find_results(protocol, unit).items()
        if _arrange_by_map_and_network(results, by_seed, at == UNTOUCHED or find_estimator(at[0]).depends_on_network)
    ]


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
    stored, per_network = results.find_results(protocol, unit), find_estimator(name).depends_on_network
    own, other = list[Bits](), list[Bits]()
    for t in results.list_included_levels(protocol, unit):
        grid = _arrange_by_map_and_network(results, stored.get((name, t), {}), per_network) or ()
        for i in range(len(grid)):
            own.append(grid[i][i].correctness)
            other.append(grid[(i + 1) % len(grid)][i].correctness)
    return own, other


def _mark_images_predicted_alike(results: SuiteResults, protocol: Protocol, unit: Unit) -> NDArray[np.bool_] | None:
    """Mark the images to which all networks assign the same class, bool (images,); None without enough results."""
    untouched = _arrange_by_map_and_network(
        results, results.find_results(protocol, unit).get(UNTOUCHED, {}), per_network=True
    )
    if untouched is None or len(untouched) < FEWEST_NETWORKS:
        return None
    return np.asarray(unpack_correctness([result for row in untouched for result in row]).all(0))


def _arrange_by_map_and_network(
    results: SuiteResults, by_seed: Mapping[int, RunResult], per_network: bool
) -> Grid | None:
    """Arrange an estimator's results at one level as a grid of maps by networks; None if a result is missing.

    If the map is the same for all networks, one score per network is stored and used for every map.
    """
    seeds = _list_seeds_of_pairs(results.suite.references, results.suite.replication, per_network)
    try:
        return [[by_seed[seed] for seed in row] for row in seeds]
    except KeyError:
        return None


@lru_cache(64)  # all cells of a suite have the same seeds
def _list_seeds_of_pairs(networks: int, replication: int, per_network: bool) -> Sequence[Sequence[int]]:
    """Return the seed of each network under each map, as in `_arrange_by_map_and_network`."""
    numbers, first = range(networks), SEEDS_PER_REPLICATION * replication
    return [[first + MAX_COMPARED_NETWORKS * (i if per_network else j) + j for j in numbers] for i in numbers]


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
