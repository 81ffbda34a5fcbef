# -*- coding: latin-1 -*-
import torch

NAME = "good-other-coding-line"
DESCRIPTION = "déjà vu"


def estimate(model, images, targets, generator):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]
