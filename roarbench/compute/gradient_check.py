"""Compare a network's gradient with differences of its logits: hooks and custom operations may change the gradient."""

from contextlib import suppress
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from roarbench.compute.external_networks import extract_logits

_STEP = 1e-4  # the length of the step, on the scale of the images
_AGREEMENT = 0.005  # of the differences in both senses; if they disagree, a kink is between, and they say nothing
_MOST_ERROR = 0.03


def describe_changed_gradient(model: nn.Module, images: Tensor, name: str = "the network") -> str:
    """Describe a gradient that is not the derivative of the logits; empty if it is, or if this cannot be measured.

    `model` is in eval mode and is not changed: a copy in float64 gets the first of the images, float (n, c, h, w). The
    derivative of its largest logit, along a random direction, is compared with differences.
    """
    with suppress(Exception):  # a network may refuse to be copied, float64, or gradients, which others report
        copied, image = deepcopy(model).double().requires_grad_(False), images[:1].double()
        inputs = image.clone().requires_grad_()
        with torch.enable_grad():
            logits = extract_logits(copied(inputs))
            target = int(logits.argmax())
            (gradient,) = torch.autograd.grad(logits[0, target], inputs)
        generator = torch.Generator().manual_seed(0)  # the global one is the caller's
        noise = torch.randn(image.shape, generator=generator, dtype=torch.float64).to(image)
        direction = normalize(noise.flatten(), dim=0)
        step = (_STEP * direction).view_as(image)
        with torch.no_grad():
            before, after = (extract_logits(copied(image + move))[0, target] for move in (-step, step))
        middle = logits.detach()[0, target]
        slope, derivative = (after - before) / (2 * _STEP), gradient.flatten() @ direction
        is_measured = logits.dtype == torch.float64 and (
            (after + before - 2 * middle).abs() <= _AGREEMENT * (after - before).abs() / 2
        )
        if is_measured and (derivative - slope).abs() > _MOST_ERROR * slope.abs():
            return _describe_causes(model, name)
    return ""


def _describe_causes(model: nn.Module, name: str) -> str:
    modules = model.named_modules()
    hooked = [path for path, module in modules if module._backward_hooks or module._backward_pre_hooks]
    cause = (
        f"backward hooks of '{hooked[0]}'" if hooked else "a hook, detach, or an operation with a backward of its own"
    )
    seen = f"the gradient of {name} is not the derivative of its logits because of {cause}"
    return f"{seen}; remove this, unless maps are meant to explain with the changed gradient"
