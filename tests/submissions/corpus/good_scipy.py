import torch
from scipy.ndimage import gaussian_filter

NAME = "good-scipy"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    smooth = gaussian_filter(gradient(model, images, targets).abs().numpy(), (0, 0, 1, 1))
    return torch.from_numpy(smooth)
