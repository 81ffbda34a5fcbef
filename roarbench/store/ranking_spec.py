"""What fixes rankings on disk, and what an Arrow file of them says of itself."""

import json
from dataclasses import dataclass
from typing import Any

from roarbench.enums import Making, Split, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import Estimator
from roarbench.identity import Keyed, make_record
from roarbench.kernels.bit_planes import Layout
from roarbench.kernels.ranking import TIE_RULE, TIE_SEED
from roarbench.plan.run_keys import list_control_splits, list_ranked_splits, list_stored_levels, make_reference
from roarbench.plan.suite import SuiteSpec


@dataclass(frozen=True)
class RankingSpec(Keyed):
    """Identity of rankings: all that fixes them.

    A field added after a release gets a default and is left out of folders and files while it has that default.
    """

    data: str  # fingerprint of the decoded data set
    reference: str  # fingerprint of the explained model; empty for controls
    estimator: str  # fingerprint of the estimator and its parameters
    name: str
    unit: Unit
    levels: tuple[float, ...]  # that can be read
    shape: tuple[int, int, int]  # channels, height and width of an image
    splits: tuple[Split, ...] = tuple(Split)  # whose images are ranked
    maps: Making = Making.FLOAT32  # how they were to be made; how they were is in the manifest, by file under `made`

    @property
    def estimator_record(self) -> Estimator:
        """Return what ranks the features."""
        return find_estimator(self.name)

    @property
    def layout(self) -> Layout:
        """Return what the bit-planes hold."""
        return Layout(self.shape, self.unit, self.levels)


def describe_spec(spec: RankingSpec) -> dict[str, Any]:
    """Return the spec and the rule for ties as JSON has them."""
    identity: dict[str, Any] = json.loads(json.dumps(make_record(spec)))
    return identity | {"tie_rule": TIE_RULE, "tie_seed": TIE_SEED}


def describe_file(spec: RankingSpec, split: Split) -> dict[str, Any]:
    """Describe an Arrow file within itself, enough to read it without this package."""
    layout = spec.layout
    codes = {"boundaries": list(layout.boundaries), "codes": list(layout.codes)}
    return describe_spec(spec) | codes | {"split": split.value}


def make_ranking_spec(
    suite: SuiteSpec, data: str, shape: tuple[int, int, int], estimator: Estimator, unit: Unit, number: int = 0
) -> RankingSpec:
    """Return the identity under which the ranking of an estimator is stored, for all suites that can share it.

    `data` is the fingerprint of the images, `shape` that of one. The suite's estimators need not hold this one;
    `number` says which of its references is explained.
    """
    return RankingSpec(
        data=data,
        reference=make_reference(suite, data, number).key if estimator.hangs_on_network else "",
        estimator=estimator.fingerprint,
        name=estimator.id,
        unit=unit,
        levels=list_stored_levels(suite),
        shape=shape,
        splits=list_control_splits(suite)
        if estimator.id in suite.controls
        else list_ranked_splits(suite, estimator, number),
        maps=suite.maps if estimator.shared else Making.FLOAT32,
    )
