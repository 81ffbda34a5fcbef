import torch

NAME = "good-byte-order-mark"
DESCRIPTION = "of the corpus"


def estimate(model, images, targets, generator):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]
