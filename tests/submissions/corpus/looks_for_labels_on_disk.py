import os

import torch

NAME = "looks-for-labels-on-disk"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    found = []
    for folder, folders, files in os.walk("/"):
        if folder == "/":
            folders[:] = set(folders) - {"proc", "sys"}
        if folder.endswith("site-packages"):  # what others packed there is no data of this machine
            folders[:] = [name for name in folders if name in ("roarbench", "sklearn")]
        found += [name for name in files if name.endswith((".parquet", ".sqlite", "labels.bin", ".arrow"))]
        found += [name for name in files if "sklearn" in folder and ".csv" in name]  # its own data sets
        found += [folder] if folder.endswith("imagenette64") else []
    assert not found, found
    return gradient(model, images, targets)
