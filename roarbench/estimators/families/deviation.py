"""How far the image lies from what replaces removed features: controls that never see the network."""

from roarbench.estimators.baselines import blur
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor

_FINE = 1 / 32  # of the image's side: two pixels of 64, the strongest width on development images (studies/corpus)


def deviation(inputs: MapInput) -> Tensor:
    """Return how far each number lies from its baseline."""
    return (inputs.images - inputs.baseline).abs()


def colour_deviation(inputs: MapInput) -> Tensor:
    """Return each number's distance from the training mean, 0, times its distance from the mean of its pixel."""
    return inputs.images * (inputs.images - inputs.images.mean(1, keepdim=True))


def saturation_deviation(inputs: MapInput) -> Tensor:
    """Return a pixel's saturation, largest minus smallest number, times the deviation of the blurred image."""
    images = inputs.images
    return (images.amax(1, keepdim=True) - images.amin(1, keepdim=True)) * blur(images, _FINE).abs()


ESTIMATORS = (
    Estimator("deviation", title="Deviation from the mean", about="distance of a number from its baseline",
        control=True, maps=deviation, parameters={"baseline": "mean"}, papers=(), neighbours=False),
    Estimator("deviation-blurred", title="Blurred deviation", about="that distance, blurred", control=True,
        maps=lambda asked: blur(deviation(asked)), parameters={"baseline": "mean"}, papers=(), neighbours=True),
    Estimator("colour-deviation", title="Colour deviation",
        about="signed distance of a number from the training mean times that from its pixel's mean",
        control=True, maps=colour_deviation, papers=(), neighbours=False),
    Estimator("saturation-deviation", title="Saturation",
        about="saturation times the distance of the blurred image from the training mean", control=True,
        maps=saturation_deviation, papers=(), neighbours=True),
)  # fmt: skip
