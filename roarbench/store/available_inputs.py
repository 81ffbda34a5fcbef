"""Which of the inputs that runs share a store's folder has."""

from collections.abc import Iterable

from roarbench.plan.common_network import make_common_network, make_tuned_key
from roarbench.plan.points import Point
from roarbench.plan.run_keys import list_ranked_splits, make_reference
from roarbench.plan.shared_inputs import Common, RankedSplit, SharedInputs, list_shared_inputs
from roarbench.plan.suite import SuiteSpec
from roarbench.store.networks import StoredNetwork, StoredReference
from roarbench.store.ranking_parts import MANIFEST, read_manifest_checksum
from roarbench.store.ranking_spec import make_ranking_spec
from roarbench.store.rankings import RankingsStore
from roarbench.store.workspace import Workspace


def find_made_inputs(workspace: Workspace, suite: SuiteSpec, data: str, points: Iterable[Point]) -> SharedInputs:
    """Return what a folder has, whole, of what these points on the images of this fingerprint rest on."""
    rankings = RankingsStore(workspace.rankings)
    needed, shape = list_shared_inputs(suite, points), suite.dataset_record.shape

    def predicted(number: int) -> bool:
        store = StoredReference(workspace.references, make_reference(suite, data, number))
        return all(map(store.predicted, list_ranked_splits(suite)))

    def checksum(row: RankedSplit) -> str:
        spec = make_ranking_spec(suite, data, shape, row.estimator, row.unit, row.reference)
        return read_manifest_checksum(rankings.folder(spec) / MANIFEST)

    def has(common: Common, *ranked_by: str) -> bool:
        key = make_common_network(suite, data, *common).key
        return StoredNetwork(workspace.networks, make_tuned_key(key, *ranked_by) if ranked_by else key).has()

    ranked = {row: found for row in needed.rankings if (found := checksum(row))}
    return SharedInputs(
        {number for number in needed.references if predicted(number)},
        ranked.keys(),
        {common for common in needed.common if has(common)},
        {(common, row) for common, row in needed.tuned if row in ranked and has(common, ranked[row])},
    )
