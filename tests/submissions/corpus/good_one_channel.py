import torch

NAME = "good-one-channel"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    return gradient(model, images, targets).sum(1, keepdim=True)
