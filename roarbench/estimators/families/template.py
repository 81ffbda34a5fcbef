"""What training images tell of a class: controls that are told a network's answer and ask it no more.

DataError where the training images are not at hand.
"""

from roarbench.errors import DataError
from roarbench.estimators import Estimator
from roarbench.estimators.base import ClassImages, MapInput
from roarbench.estimators.baselines import blurred
from roarbench.estimators.families.centre import centre
from roarbench.estimators.lazy import F, Tensor

_GREYS = 8  # levels of brightness, half a standard deviation each
_AROUND = 1 / 32  # of the image's side, two pixels of 64: where they are counted


def class_template(asked: MapInput) -> Tensor:
    """Return each number times that of its class in the mean training image, where there is detail, near the middle.

    The first product is input x gradient of the classifier by the nearest class mean.
    """
    return asked.images * _by_class(asked).means[asked.batch.targets] * _detail(asked.images) * centre(asked)


def linear_classifier(asked: MapInput) -> Tensor:
    """Return each number times its weight in a linear classifier of thumbnails, where there is detail.

    The first product is input x gradient of that classifier. The detail of a table's row, one pixel, is a constant.
    """
    return asked.images * _by_class(asked).weights[asked.batch.targets] * _detail(asked.images)


def _by_class(asked: MapInput) -> ClassImages:
    if asked.batch.by_class is None:
        raise DataError(f"the training images are not at hand; '{asked.estimator.id}' needs them")
    return asked.batch.by_class


def _detail(images: Tensor) -> Tensor:
    """Return the entropy of the greys around each pixel, (n, 1, h, w)."""
    level = ((images.mean(1) + 2) * 2).long().clamp(0, _GREYS - 1)
    shares = blurred(F.one_hot(level, _GREYS).movedim(-1, 1).to(images), _AROUND).clamp(min=1e-6)
    return -(shares * shares.log()).sum(1, keepdim=True)


ESTIMATORS = (
    Estimator("class-template", title="Class template",
        about="image times mean training image of the predicted class, where there is detail, near the middle",
        control=True, answered=True, maps=class_template, papers=(), neighbours=True),
    Estimator("linear-classifier", title="Linear classifier",
        about="image times weights of a linear classifier of thumbnails for the predicted class, where there is detail",
        control=True, answered=True, maps=linear_classifier, papers=(), neighbours=False),
)  # fmt: skip
