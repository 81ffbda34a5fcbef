from concurrent.futures import ThreadPoolExecutor

import torch

NAME = "good-threads"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda i: gradient(model, images[i : i + 1], targets[i : i + 1]), range(len(images))))
    return torch.cat(parts)
