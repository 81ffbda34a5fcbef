import mmap

import torch

NAME = "memory-shared"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    kept = []
    while True:
        shared = mmap.mmap(-1, 2**28)
        for place in range(0, 2**28, 4096):
            shared[place] = 1
        kept.append(shared)
