import copy

import torch

NAME = "good-grad-cam"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    network = copy.deepcopy(model)
    kept = []
    layer = [module for module in network.modules() if isinstance(module, torch.nn.Conv2d)][-1]
    layer.register_forward_hook(lambda module, inputs, output: kept.append(output))
    logits = network(images).gather(1, targets[:, None]).sum()
    (slope,) = torch.autograd.grad(logits, kept[0])
    weights = slope.mean((2, 3), keepdim=True)
    small = torch.relu((weights * kept[0]).sum(1, keepdim=True))
    return torch.nn.functional.interpolate(small, size=images.shape[2:], mode="bilinear")[:, 0]
