import numpy as np
import torch

NAME = "global-numpy-chance"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    return torch.from_numpy(np.random.rand(*images.shape).astype("float32"))
