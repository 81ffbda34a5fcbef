"""Networks and classes that twins explain instead of the reference and what it predicts."""

import torch
from torch import Tensor, nn

from roarbench.estimators.estimator import SEED
from roarbench.estimators.inputs import Batch
from roarbench.estimators.noise import draw_other_targets
from roarbench.execution.suite_work import ReferenceModel
from roarbench.kernels.inputs import normalise

_FITTED = 2048  # training images at most that batch norms are fitted on again


def make_twin_network(explained: ReferenceModel, variant: str) -> nn.Module:
    """Return the network that estimators of a variant explain, in eval mode."""
    if variant == "untrained":
        return explained.untrained()
    return _shuffle_weights(explained) if variant == "shuffled" else explained.trained()


def choose_twin_targets(explained: ReferenceModel, variant: str, batch: Batch) -> Tensor:
    """Return the classes that estimators of a variant explain, int64 (n,)."""
    if variant == "other-target":
        return draw_other_targets(batch.targets, batch.ids, explained.work.images.record.classes, SEED)
    return batch.targets


def _shuffle_weights(explained: ReferenceModel) -> nn.Module:
    """Return the reference with the entries of each parameter permuted, its batch norms fitted again."""
    model, generator = explained.trained(), torch.Generator().manual_seed(explained.reference.seed)
    with torch.no_grad():
        for parameter in model.parameters():
            order = torch.randperm(parameter.numel(), generator=generator)
            parameter.copy_(parameter.flatten()[order].view_as(parameter))
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches
        model.train()
        pixels = torch.from_numpy(explained.work.images.train.pixels[:_FITTED])
        for part in torch.split(pixels, 128) if norms else ():
            model(normalise(part, explained.norm))
    return model.eval()
