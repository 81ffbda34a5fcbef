"""What the mean image of a class tells of an image: a control that is told a network's answer and asks it no more."""

from roarbench.errors import DataError
from roarbench.estimators import Estimator
from roarbench.estimators.base import MapInput
from roarbench.estimators.baselines import blurred
from roarbench.estimators.families.centre import centre
from roarbench.estimators.lazy import F, Tensor

_GREYS = 8  # levels of brightness, half a standard deviation each
_AROUND = 1 / 32  # of the image's side, two pixels of 64: where they are counted


def class_template(asked: MapInput) -> Tensor:
    """Return each number times that of its class in the mean training image, where there is detail, near the middle.

    The first product is input x gradient of the classifier by the nearest class mean. Detail is the entropy of the
    greys around a pixel.

    Raises:
        DataError: The training images are not at hand.
    """
    batch = asked.batch
    if batch.templates is None:
        raise DataError("the mean training images are not at hand; 'class-template' needs them")
    level = ((batch.images.mean(1) + 2) * 2).long().clamp(0, _GREYS - 1)
    shares = blurred(F.one_hot(level, _GREYS).movedim(-1, 1).to(batch.images), _AROUND).clamp(min=1e-6)
    detail = -(shares * shares.log()).sum(1, keepdim=True)
    return batch.images * batch.templates[batch.targets] * detail * centre(asked)


ESTIMATORS = (
    Estimator("class-template", title="Class template",
        about="image times mean training image of the predicted class, where there is detail, near the middle",
        control=True, answered=True, maps=class_template, papers=(), neighbours=True),
)  # fmt: skip
