"""How far the image lies from what replaces removed features: controls that never see the network."""

from roarbench.estimators import Estimator
from roarbench.estimators.base import MapInput
from roarbench.estimators.baselines import blurred
from roarbench.estimators.lazy import Tensor

_FINE = 1 / 32  # of the image's side: two pixels of 64, the strongest width on development images (studies/corpus)


def deviation(asked: MapInput) -> Tensor:
    """Return how far each number lies from its baseline."""
    return (asked.images - asked.baseline).abs()


def colour_deviation(asked: MapInput) -> Tensor:
    """Return each number's distance from the training mean, 0, times its distance from the mean of its pixel."""
    return asked.images * (asked.images - asked.images.mean(1, keepdim=True))


def saturation_deviation(asked: MapInput) -> Tensor:
    """Return a pixel's saturation, largest minus smallest number, times the deviation of the blurred image."""
    images = asked.images
    return (images.amax(1, keepdim=True) - images.amin(1, keepdim=True)) * blurred(images, _FINE).abs()


ESTIMATORS = (
    Estimator("deviation", title="Deviation from the mean", about="distance of a number from its baseline",
        control=True, maps=deviation, parameters={"baseline": "mean"}, papers=(), neighbours=False),
    Estimator("deviation-blurred", title="Blurred deviation", about="that distance, blurred", control=True,
        maps=lambda asked: blurred(deviation(asked)), parameters={"baseline": "mean"}, papers=(), neighbours=True),
    Estimator("colour-deviation", title="Colour deviation",
        about="signed distance of a number from the training mean times that from its pixel's mean",
        control=True, maps=colour_deviation, papers=(), neighbours=False),
    Estimator("saturation-deviation", title="Saturation",
        about="saturation times the distance of the blurred image from the training mean", control=True,
        maps=saturation_deviation, papers=(), neighbours=True),
)  # fmt: skip
