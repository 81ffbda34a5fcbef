"""Define the identity under which an estimator's rankings are stored."""

import json
from dataclasses import dataclass
from typing import Any

from roarbench.common.enums import MapNumerics, Split, Unit
from roarbench.common.identity import Keyed, make_json_record
from roarbench.compute.bit_planes import Layout
from roarbench.compute.ranking import TIE_RULE, TIE_SEED
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import Estimator
from roarbench.plan.planned_runs import (
    list_ranked_splits,
    list_splits_ranked_by_controls,
    list_stored_levels,
    make_reference_spec,
)
from roarbench.plan.suite import SuiteSpec


@dataclass(frozen=True)
class RankingSpec(Keyed):
    """Everything that determines an estimator's rankings of a data set.

    A field that was added after a release has a default value; folder names and files omit a field with this value.
    """

    data: str  # fingerprint of the decoded data set
    reference: str  # fingerprint of the explained network; empty for controls
    estimator: str  # fingerprint of the estimator and its parameters
    name: str  # id of the estimator
    unit: Unit
    levels: tuple[float, ...]  # levels at which removal masks can be read from the bit-planes
    shape: tuple[int, int, int]  # channels, height and width of an image
    splits: tuple[Split, ...] = tuple(Split)  # splits whose images are ranked
    # requested settings for maps; the manifest records the actual settings of each file under `made`
    maps: MapNumerics = MapNumerics.FLOAT32

    @property
    def estimator_record(self) -> Estimator:
        """Return the estimator that ranks the features."""
        return find_estimator(self.name)

    @property
    def layout(self) -> Layout:
        """Return the layout of the bit-planes."""
        return Layout(self.shape, self.unit, self.levels)


def make_spec_record(spec: RankingSpec) -> dict[str, Any]:
    """Return the spec and the rule for ties as JSON values."""
    identity: dict[str, Any] = json.loads(json.dumps(make_json_record(spec)))
    return identity | {"tie_rule": TIE_RULE, "tie_seed": TIE_SEED}


def make_file_metadata(spec: RankingSpec, split: Split) -> dict[str, Any]:
    """Return the metadata of an Arrow file, with which other programs can read the file."""
    layout = spec.layout
    codes = {"boundaries": list(layout.bin_boundaries), "codes": list(layout.boundary_codes)}
    return make_spec_record(spec) | codes | {"split": split.value}


def make_ranking_spec(
    suite: SuiteSpec, data: str, shape: tuple[int, int, int], estimator: Estimator, unit: Unit, network_number: int = 0
) -> RankingSpec:
    """Return the identity of an estimator's rankings for a suite; suites with equal identities share the rankings.

    The suite need not contain the estimator. `data` is the fingerprint of the images, `shape` has the channels, height
    and width of an image, and `network_number` is the number of the explained network.
    """
    return RankingSpec(
        data=data,
        reference=make_reference_spec(suite, data, network_number).key if estimator.depends_on_network else "",
        estimator=estimator.fingerprint,
        name=estimator.id,
        unit=unit,
        levels=list_stored_levels(suite),
        shape=shape,
        splits=list_splits_ranked_by_controls(suite)
        if estimator.id in suite.controls
        else list_ranked_splits(suite, estimator, network_number if estimator.depends_on_network else None),
        maps=suite.maps if estimator.uses_shared_pass else MapNumerics.FLOAT32,
    )
