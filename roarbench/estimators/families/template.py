"""What training images tell of a class: controls that are told a network's answer and ask it no more.

DataError where the training images are not at hand.
"""

from roarbench.errors import DataError
from roarbench.estimators.baselines import blur
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.families.centre import centre
from roarbench.estimators.inputs import ClassImages, MapInput
from roarbench.estimators.lazy_imports import F, Tensor

_GREYS = 8  # levels of brightness, half a standard deviation each
_AROUND = 1 / 32  # of the image's side, two pixels of 64: where they are counted


def class_template(inputs: MapInput) -> Tensor:
    """Return each number times that of its class in the mean training image, where there is detail, near the middle.

    The first product is input x gradient of the classifier by the nearest class mean.
    """
    return inputs.images * _by_class(inputs).means[inputs.batch.targets] * _detail(inputs.images) * centre(inputs)


def linear_classifier(inputs: MapInput) -> Tensor:
    """Return each number times its weight in a linear classifier of thumbnails, where there is detail.

    The first product is input x gradient of that classifier. The detail of a table's row, one pixel, is a constant.
    """
    return inputs.images * _by_class(inputs).weights[inputs.batch.targets] * _detail(inputs.images)


def _by_class(inputs: MapInput) -> ClassImages:
    if inputs.batch.by_class is None:
        raise DataError(f"the training images are not at hand; '{inputs.estimator.id}' needs them")
    return inputs.batch.by_class


def _detail(images: Tensor) -> Tensor:
    """Return the entropy of the greys around each pixel, (n, 1, h, w)."""
    level = ((images.mean(1) + 2) * 2).long().clamp(0, _GREYS - 1)
    shares = blur(F.one_hot(level, _GREYS).movedim(-1, 1).to(images), _AROUND).clamp(min=1e-6)
    return -(shares * shares.log()).sum(1, keepdim=True)


ESTIMATORS = (
    Estimator("class-template", title="Class template",
        about="image times mean training image of the predicted class, where there is detail, near the middle",
        control=True, uses_prediction=True, maps=class_template, papers=(), neighbours=True),
    Estimator("linear-classifier", title="Linear classifier",
        about="image times weights of a linear classifier of thumbnails for the predicted class, where there is detail",
        control=True, uses_prediction=True, maps=linear_classifier, papers=(), neighbours=False),
)  # fmt: skip
