"""Numpy inside: local contrast of the image, which never looks at the model; validation says so."""

import numpy as np
import torch

NAME = "local-contrast"
DESCRIPTION = "distance of each number of the image from the mean of its 5 x 5 neighbourhood"


def estimate(model, images, targets, generator):
    pixels = images.numpy().astype(np.float64)
    padded = np.pad(pixels, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(2, 3))
    return torch.from_numpy(np.abs(pixels - windows.mean((-2, -1))).astype(np.float32))
