import torch

NAME = "raises-at-import"
DESCRIPTION = "of the corpus"

raise ValueError("\x1b]0;title\x07 no \u202e line\nbreaks" + "!" * 1000)


def estimate(model, images, targets, generator):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]
