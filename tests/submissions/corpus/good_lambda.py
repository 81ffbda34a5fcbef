import torch

NAME = "good-lambda"
DESCRIPTION = "of the corpus"
estimate = lambda model, images, targets, generator: images.abs()
