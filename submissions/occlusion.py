"""Occlusion: how much the explained logit falls when a square of the image becomes grey."""

import torch

NAME = "grey-squares"
DESCRIPTION = "fall of the explained logit when a square of an eighth of the side is set to the mean"
PAPER = "https://arxiv.org/abs/1311.2901"


@torch.no_grad()
def estimate(model, images, targets, generator):
    n, _, h, w = images.shape
    side = max(1, h // 8)
    whole = model(images).gather(1, targets[:, None])[:, 0]
    fall = torch.zeros(n, h, w)  # one number for all channels of a pixel
    for top in range(0, h, side):
        for left in range(0, w, side):
            covered = images.clone()
            covered[:, :, top : top + side, left : left + side] = 0  # 0 is the mean of normalised images
            logits = model(covered).gather(1, targets[:, None])[:, 0]
            fall[:, top : top + side, left : left + side] = (whole - logits)[:, None, None]
    return fall
