import torch

NAME = "changes-images-behind-autograd"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    images.numpy()[0, 0, 0, 0] += 1
    return gradient(model, images, targets)
