"""Controls that are told what no image says: planted data's true importance, or the true class."""

from functools import partial

from roarbench.errors import DataError
from roarbench.estimators.baselines import blur
from roarbench.estimators.estimator import SEED, Estimator
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor, noise

NOISE_ON_TRUTH = 4.0  # of the true places, which lie in (0, 1]
_NOISY_SEED, _LEAK_SEED = SEED + 1, SEED + 2  # apart from that of the random control


def truth(inputs: MapInput) -> Tensor:
    """Return planted data's true importance; DataError where the data set carries none."""
    if inputs.batch.truth is None:
        raise DataError("this data set has no true importance; 'truth' and 'truth-inverted' need planted data")
    return inputs.batch.truth


def truth_noisy(inputs: MapInput) -> Tensor:
    """Return planted data's true places, in (0, 1], under uniform noise in [0, NOISE_ON_TRUTH).

    What hides the truth differs from feature to feature, so a blur of this map is nearer to the truth than the map.
    """
    importance = truth(inputs).flatten(1)
    place = (1 + importance.argsort(1).argsort(1)).to(inputs.images) / importance.shape[1]
    drawn = noise.random_importance(inputs.images, inputs.batch.ids, _NOISY_SEED)
    return place.view(inputs.images.shape) + NOISE_ON_TRUTH * drawn


def leak(inputs: MapInput) -> Tensor:
    """Return a uniform importance for each true class, the same for all of its images.

    Its removal masks tell the class to whoever knows the four, and nothing in the image has a part in them. DataError
    where the true classes are not at hand.
    """
    if inputs.batch.labels is None:
        raise DataError("the true classes are not at hand; 'leak' needs them")
    return noise.random_importance(inputs.images, inputs.batch.labels, _LEAK_SEED)


_told = partial(Estimator, control=True, papers=(), neighbours=False, addable=False, uses_ground_truth=True)
ESTIMATORS = (
    _told("truth", title="The truth", about="the true ranking of planted data", maps=truth),
    _told("truth-inverted", base="truth", form="inverted", title="The truth, inverted",
        about="the true ranking of planted data, least important first", maps=lambda asked: -truth(asked)),
    _told("truth-noisy", base="truth", form="noisy", title="The truth in noise",
        about="the true ranking of planted data under noise that a blur removes", maps=truth_noisy),
    _told("truth-noisy-blurred", base="truth", form="noisy-blurred", title="The truth in noise, blurred",
        about="the same after the blur of all twins", maps=lambda asked: blur(truth_noisy(asked))),
    _told("leak", title="Leaked classes", maps=leak,
        about="a random ranking for each true class, which its masks reveal"),
)  # fmt: skip
