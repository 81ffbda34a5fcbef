import os

import torch

NAME = "other-processes"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    own = {str(os.getpid()), str(os.getppid()), "1"}
    others = [name for name in os.listdir("/proc") if name.isdigit() and name not in own]
    assert len(others) <= 1, others
    return gradient(model, images, targets)
