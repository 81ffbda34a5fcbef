import torch

NAME = "exits-at-import"
DESCRIPTION = "of the corpus"

raise SystemExit(0)


def estimate(model, images, targets, generator):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]
