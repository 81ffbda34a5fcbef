"""Controls that have access to the true importance of planted data."""

from functools import partial

from roarbench.errors import DataError
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor


def truth(inputs: MapInput) -> Tensor:
    """Return planted data's true importance; DataError where the data set carries none."""
    if inputs.batch.truth is None:
        raise DataError("this data set has no true importance; 'truth' and 'truth-inverted' need planted data")
    return inputs.batch.truth


_told = partial(Estimator, control=True, papers=(), neighbours=False, addable=False, uses_ground_truth=True)
ESTIMATORS = (
    _told("truth", title="The truth", about="the true ranking of planted data", maps=truth),
    _told("truth-inverted", base="truth", form="inverted", title="The truth, inverted",
        about="the true ranking of planted data, least important first", maps=lambda asked: -truth(asked)),
)  # fmt: skip
