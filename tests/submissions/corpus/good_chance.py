import torch

NAME = "good-chance"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    copies = [images + 0.1 * torch.randn(images.shape, generator=generator) for _ in range(3)]
    return sum(gradient(model, copy, targets) for copy in copies)
