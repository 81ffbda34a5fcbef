"""Under what identity the rankings of a suite are stored."""

from roarbench.datasets.decoded import ImageData
from roarbench.estimators import Estimator
from roarbench.plan.keys import family_splits, ranked_splits, reference_of, stored_levels
from roarbench.plan.suite import Suite
from roarbench.store.ranking_spec import RankingSpec
from roarbench.terms import Making, Unit


def ranking_spec(suite: Suite, images: ImageData, estimator: Estimator, unit: Unit, number: int = 0) -> RankingSpec:
    """Return the identity under which the ranking of an estimator is stored, for all suites that can share it.

    The suite's estimators need not hold this one; `number` says which of its references is explained.
    """
    return RankingSpec(
        data=images.fingerprint,
        reference="" if estimator.control else reference_of(suite, images.fingerprint, number).key,
        estimator=estimator.fingerprint,
        name=estimator.id,
        unit=unit,
        levels=stored_levels(suite),
        shape=images.record.shape,
        splits=family_splits(suite) if estimator.id in suite.controls else ranked_splits(suite),
        maps=suite.maps if estimator.shared else Making.FLOAT32,
    )
