"""Wraps captum: any of its attributions that takes a model, inputs and targets fits in the same way."""

import copy

from captum.attr import Saliency

NAME = "captum-saliency"
DESCRIPTION = "captum's Saliency: absolute gradient of the explained logit"
PAPER = "https://arxiv.org/abs/1312.6034"


def estimate(model, images, targets, generator):
    # A copy, because some captum methods add hooks to the model.
    attribution = Saliency(copy.deepcopy(model))
    return attribution.attribute(images.clone().requires_grad_(), target=targets).detach()
