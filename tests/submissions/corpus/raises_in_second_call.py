import torch

NAME = "raises-in-second-call"
DESCRIPTION = "of the corpus"
CALLS = []


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    CALLS.append(1)
    assert len(CALLS) < 2, "second call"
    return gradient(model, images, targets)
