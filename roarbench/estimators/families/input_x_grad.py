"""The image times the gradient."""

from roarbench.estimators.estimator import Estimator, Passes
from roarbench.estimators.families.gradients import compute_logit_gradients
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor
from roarbench.estimators.papers import Paper

SHRIKUMAR = Paper("""@misc{shrikumar2016not,
    title = {Not Just a Black Box: Learning Important Features Through Propagating Activation Differences},
    author = {Avanti Shrikumar and Peyton Greenside and Anna Shcherbina and Anshul Kundaje},
    howpublished = {arXiv}, year = {2016}, eprint = {1605.01713}}""")


def input_x_grad(inputs: MapInput) -> Tensor:
    """Return the image times the gradient of the logit (Shrikumar et al., arXiv 1605.01713), signed."""
    return inputs.images * compute_logit_gradients(inputs.model, inputs.images, inputs.batch.targets, {"grad"})["grad"]


ESTIMATORS = (
    Estimator("input-x-grad", title="Input × Gradient", about="gradient times the normalised image, signed",
        maps=input_x_grad, cost=Passes(1, 1), papers=(SHRIKUMAR,), neighbours=False),
)  # fmt: skip
