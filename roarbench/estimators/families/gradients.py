"""Input times gradient, and the 18 estimators of Hooker et al. 2019: gradients, guided backprop, integrated gradients.

`roarbench.estimators.compute_maps` computes the maps of the 18 estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import nullcontext

from roarbench.common.errors import CallerError
from roarbench.estimators.estimator import IG_STEPS, NOISE, NOISY, SAMPLES, Estimator, MapInput, Passes
from roarbench.estimators.ids import Value
from roarbench.estimators.lazy_torch import Tensor, backward_rules, nn, torch

ReportLogits = Callable[[Tensor], object]


def compute_logit_gradients(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    rules: Set[str],
    report_logits: ReportLogits = lambda logits: None,
) -> dict[str, Tensor]:
    """Compute gradients of the target logit, float (n, c, h, w), signed, after one forward pass.

    The result is a dict from each rule to its map. The rule `grad` is the plain gradient. With the rule `gb`, guided
    backprop (Springenberg et al. 2015), a gradient passes back through a ReLU only where the ReLU's output and the
    incoming gradient are both positive. `report_logits` is called with the logits, (n, classes). Raises CallerError if
    `gb` is requested for a model without ReLUs, or with other rectifiers.
    """
    guide = backward_rules.Guided()
    with torch.enable_grad():
        inputs = images.detach().requires_grad_()
        with guide if "gb" in rules else nullcontext():
            logits = model(inputs)
        # each logit depends only on its own image, so the gradient of the sum contains each image's own gradient
        total = logits.gather(1, targets[:, None]).sum()
    report_logits(logits.detach())
    maps = {}
    if "grad" in rules:
        (maps["grad"],) = torch.autograd.grad(total, inputs, retain_graph="gb" in rules)
    if "gb" in rules:
        if seen := guide.explain_why_unguided(total):
            raise CallerError(f"guided backprop {seen}; leave out its estimators (gb …)")
        guide.on = True
        (maps["gb"],) = torch.autograd.grad(total, inputs)
    return maps


_BASES = {  # titles and papers by base
    "grad": ("Gradient", ("baehrens2010explain", "simonyan2014deep")),
    "gb": ("Guided Backprop", ("springenberg2015striving",)),
    "ig": ("Integrated Gradients", ("sundararajan2017axiomatic",)),
}
_FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "base": ("{}", ()),
    "squared": ("{}, squared", ("hooker2019benchmark",)),
    "smooth": ("SmoothGrad of {}", ("smilkov2017smoothgrad",)),
    "smooth-squared": ("SmoothGrad of {}, squared", ("smilkov2017smoothgrad", "hooker2019benchmark")),
    "smoothed-square": ("SmoothGrad-Squared of {}", ("hooker2019benchmark",)),
    "variance": ("VarGrad of {}", ("adebayo2018local",)),
}


def _declare(name: str, base: str, form: str, about: str) -> Estimator:
    (base_title, base_papers), (title, form_papers) = _BASES[base], _FORMS[form]
    path: dict[str, Value] = {"steps": IG_STEPS, "baseline": "black"} if base == "ig" else {}
    copies: dict[str, Value] = {"noise": NOISE, "samples": SAMPLES} if form in NOISY else {}
    return Estimator(
        *(name, base, form, about),
        title=title.format(base_title),
        parameters=path | copies,
        papers=tuple(dict.fromkeys((*base_papers, *form_papers))),
        neighbours=False,
    )


def input_x_grad(inputs: MapInput) -> Tensor:
    """Compute the image times the gradient of the target logit (Shrikumar et al., arXiv 1605.01713), signed."""
    return inputs.images * compute_logit_gradients(inputs.model, inputs.images, inputs.batch.targets, {"grad"})["grad"]


ESTIMATORS = (
    _declare("grad", "grad", "base", "gradient of the predicted class's logit, signed"),
    _declare("grad-sq", "grad", "squared", "gradient squared"),
    _declare("sg-grad", "grad", "smooth", "SmoothGrad: mean gradient over noisy copies, signed"),
    _declare("sg-grad-sq", "grad", "smooth-squared", "SmoothGrad of gradients, squared"),
    _declare("sgsq-grad", "grad", "smoothed-square", "SmoothGrad-Squared: mean squared gradient over noisy copies"),
    _declare("var-grad", "grad", "variance", "VarGrad: variance of the gradient over noisy copies"),
    _declare("gb", "gb", "base", "guided backprop, signed"),
    _declare("gb-sq", "gb", "squared", "guided backprop squared"),
    _declare("sg-gb", "gb", "smooth", "SmoothGrad of guided backprop, signed"),
    _declare("sg-gb-sq", "gb", "smooth-squared", "SmoothGrad of guided backprop, squared"),
    _declare("sgsq-gb", "gb", "smoothed-square", "SmoothGrad-Squared of guided backprop"),
    _declare("var-gb", "gb", "variance", "VarGrad of guided backprop"),
    _declare("ig", "ig", "base", "integrated gradients from black, signed"),
    _declare("ig-sq", "ig", "squared", "integrated gradients squared"),
    _declare("sg-ig", "ig", "smooth", "SmoothGrad of integrated gradients, signed"),
    _declare("sg-ig-sq", "ig", "smooth-squared", "SmoothGrad of integrated gradients, squared"),
    _declare("sgsq-ig", "ig", "smoothed-square", "SmoothGrad-Squared of integrated gradients"),
    _declare("var-ig", "ig", "variance", "VarGrad of integrated gradients"),
    Estimator("input-x-grad", title="Input × Gradient", about="gradient times the normalised image, signed",
        maps=input_x_grad, cost=Passes(1, 1), papers=("shrikumar2016not",), neighbours=False),
)  # fmt: skip
