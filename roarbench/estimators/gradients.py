"""The three bases of Hooker et al. 2019: gradient, guided backprop and integrated gradients."""

from collections.abc import Callable, Set
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from roarbench.errors import CallerError
from roarbench.estimators.base import PAPERS, Settings
from roarbench.estimators.baselines import baseline_images
from roarbench.estimators.guided import Guided
from roarbench.estimators.stem import passed

Note = Callable[[Tensor], object]


def ignore(logits: Tensor) -> None:
    """Take no note."""


def base_maps(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    black: Tensor,
    bases: Set[str],
    note: Note = ignore,
    settings: Settings = PAPERS,
) -> dict[str, Tensor]:
    """Return the wanted bases of one batch; they share all passes that they can.

    Integrated gradients (Sundararajan et al. 2017) are (x - x0) times the mean of the gradients at the points
    x0 + i/25 (x - x0), i = 1..25, where x0 is the black image, unless the settings say other steps or another baseline.
    The last point is the image itself, so its gradient serves GRAD as well. A `Divided` network passes its stem once.

    Args:
        model: Logits out, eval mode.
        images: Float (n, c, h, w), normalised.
        targets: Int64 (n,), the classes to explain.
        black: Float (c, 1, 1), the black pixel, normalised.
        bases: Of `grad`, `gb`, `ig`.
        note: Is told the logits of the images themselves, (n, classes), not those of other points of a path.
        settings: Steps and baseline of the path.

    Returns:
        For each base, float (n, c, h, w), signed.
    """
    if not bases:
        return {}
    rules = {"gb" if base == "gb" else "grad" for base in bases}
    if "ig" not in bases:
        return logit_gradients(model, images, targets, rules, note)
    end = passed(model, images)
    maps = logit_gradients(end.rest, end.outputs, targets, rules, note)
    total, start = maps["grad"].clone(), baseline_images(settings.baseline, images, black)
    begin = end.pass_on(start)
    for i in range(1, settings.steps):
        point = torch.lerp(begin, end.outputs, i / settings.steps)
        total += logit_gradients(end.rest, point, targets, {"grad"})["grad"]
    along = (images - start) * end.back(total) / settings.steps
    return {base: along if base == "ig" else end.back(maps[base]) for base in bases}


def logit_gradients(
    model: nn.Module, images: Tensor, targets: Tensor, rules: Set[str], note: Note = ignore
) -> dict[str, Tensor]:
    """Return gradients of the logit by the wanted rules, in one forward pass and one backward pass for each.

    The logit is the target's, before any softmax. `gb`, guided backprop (Springenberg et al. 2015), goes back through
    each ReLU only where its output and the gradient are above 0.

    Args:
        model: Logits out, eval mode: there the images of a batch do not meet.
        images: Float (n, c, h, w), normalised.
        targets: Int64 (n,), the classes to explain.
        rules: Of `grad`, `gb`.
        note: Is told the logits, (n, classes).

    Returns:
        For each rule, float (n, c, h, w), signed.

    Raises:
        CallerError: `gb` is wanted and the model has no ReLU.
    """
    guided = Guided()
    with torch.enable_grad():
        inputs = images.detach().requires_grad_()
        with guided if "gb" in rules else nullcontext():
            logits = model(inputs)
        total = logits.gather(1, targets[:, None]).sum()  # of a sum, each image gets its own logit's gradient
    note(logits.detach())
    maps = {}
    if "grad" in rules:
        (maps["grad"],) = torch.autograd.grad(total, inputs, retain_graph="gb" in rules)
    if "gb" in rules:
        if not guided.met:
            raise CallerError("guided backprop needs ReLUs and the network has none; leave out its estimators (gb …)")
        guided.on = True
        (maps["gb"],) = torch.autograd.grad(total, inputs)
    return maps
