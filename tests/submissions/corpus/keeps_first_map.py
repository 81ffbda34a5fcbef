import torch

NAME = "keeps-first-map"
DESCRIPTION = "of the corpus"
KEPT = {}


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    KEPT.setdefault("first", gradient(model, images, targets)[:1])
    return gradient(model, images, targets) + KEPT["first"]
