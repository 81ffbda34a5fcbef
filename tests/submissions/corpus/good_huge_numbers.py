import torch

NAME = "good-huge-numbers"
DESCRIPTION = "of the corpus"


def estimate(model, images, targets, generator):
    return 3e38 * torch.sign(images)
