"""Which of the inputs that runs share a store's folder has."""

from collections.abc import Iterable

from roarbench.plan.common_network import common_network, make_tuned_key
from roarbench.plan.points import Point
from roarbench.plan.run_keys import list_ranked_splits, reference_of
from roarbench.plan.shared_inputs import Common, RankedSplit, SharedInputs, inputs_of
from roarbench.plan.suite import SuiteSpec
from roarbench.store.layout import Workspace
from roarbench.store.networks import StoredNetwork, StoredReference
from roarbench.store.ranking_parts import MANIFEST, checksum_of
from roarbench.store.ranking_spec import ranking_spec
from roarbench.store.rankings import RankingsStore


def find_made_inputs(workspace: Workspace, suite: SuiteSpec, data: str, points: Iterable[Point]) -> SharedInputs:
    """Return what a folder has, whole, of what these points on the images of this fingerprint rest on."""
    rankings = RankingsStore(workspace.rankings)
    needed, shape = inputs_of(suite, points), suite.dataset_record.shape

    def predicted(number: int) -> bool:
        store = StoredReference(workspace.references, reference_of(suite, data, number))
        return all(map(store.predicted, list_ranked_splits(suite)))

    def checksum(row: RankedSplit) -> str:
        spec = ranking_spec(suite, data, shape, row.estimator, row.unit, row.reference)
        return checksum_of(rankings.folder(spec) / MANIFEST)

    def has(common: Common, *ranked_by: str) -> bool:
        key = common_network(suite, data, *common).key
        return StoredNetwork(workspace.networks, make_tuned_key(key, *ranked_by) if ranked_by else key).has()

    ranked = {row: found for row in needed.rankings if (found := checksum(row))}
    return SharedInputs(
        {number for number in needed.references if predicted(number)},
        ranked.keys(),
        {common for common in needed.common if has(common)},
        {(common, row) for common, row in needed.tuned if row in ranked and has(common, ranked[row])},
    )
