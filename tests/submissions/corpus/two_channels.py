import torch

NAME = "two-channels"
DESCRIPTION = "of the corpus"


def estimate(model, images, targets, generator):
    return images[:, :2].clone()
