"""Random maps, which no image and no network has a say in."""

from roarbench.estimators.baselines import blur
from roarbench.estimators.estimator import SEED, Estimator
from roarbench.estimators.families.gradients import HOOKER
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor, noise

_SMOOTH_SEED = SEED + 3  # apart from that of the random control


def random(inputs: MapInput) -> Tensor:
    """Return uniform importance, fixed per image."""
    return noise.draw_random_importance(inputs.images, inputs.batch.ids, SEED)


def random_smooth(inputs: MapInput) -> Tensor:
    """Return a random map after a Gaussian of `width`, a share of the image's side.

    With the width of the twins' blur it is another draw of `random-blurred`: an estimator can be held against the
    random map of its own smoothness.
    """
    drawn = noise.draw_random_importance(inputs.images, inputs.batch.ids, _SMOOTH_SEED)
    return blur(drawn, float(inputs.estimator.value("width")))


ESTIMATORS = (
    Estimator("random", title="Random", about="an exact-count random ranking, fixed per image", control=True,
        maps=random, papers=(HOOKER,), neighbours=False, addable=False),
    Estimator("random-blurred", base="random", title="Blurred random", about="the random control's map, blurred",
        control=True, twin="blurred", maps=random, papers=(HOOKER,), neighbours=True),
    Estimator("random-redrawn", base="random", form="redrawn", title="Redrawn random",
        about="a random ranking drawn anew each epoch", control=True, papers=(HOOKER,), neighbours=False,
        addable=False),
    Estimator("random-smooth", title="Smooth random", about="a random map, as smooth as its width says",
        control=True, maps=random_smooth, parameters={"width": 0.1}, papers=(), neighbours=True),
)  # fmt: skip
