import torch

NAME = "good-state-that-is-a-constant"
DESCRIPTION = "of the corpus"
WINDOW = torch.hann_window(64)[:, None] * torch.hann_window(64)


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    return gradient(model, images, targets) * WINDOW
