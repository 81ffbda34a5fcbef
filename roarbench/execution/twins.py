"""Networks and classes that twins explain instead of the reference and what it predicts."""

import torch
from torch import Tensor, nn

from roarbench.devices import device
from roarbench.estimators import SEED
from roarbench.estimators.base import Batch
from roarbench.estimators.noise import other_targets
from roarbench.execution.context import RunContext
from roarbench.identity import fingerprint, record
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import normalise
from roarbench.kernels.train import fit
from roarbench.plan.recipes import find_recipe
from roarbench.terms import Split, Unit

_FITTED = 2048  # training images at most that batch norms are fitted on again
_TURNS = 4  # quarter turns that a decoy tells apart


def twin_network(context: RunContext, variant: str) -> nn.Module:
    """Return the network that estimators of a variant explain, in eval mode.

    Args:
        context: For the reference.
        variant: As `Estimator.variant`.
    """
    if variant == "untrained":
        return context.untrained_reference()
    if variant == "shuffled":
        return _shuffled(context)
    return _decoy(context) if variant == "decoy" else context.trained_reference()


def twin_targets(context: RunContext, variant: str, batch: Batch) -> Tensor:
    """Return the classes that estimators of a variant explain, int64 (n,)."""
    if variant == "other-target":
        return other_targets(batch.targets, batch.ids, context.data.record.classes, SEED)
    if variant == "constant-target":
        return torch.zeros_like(batch.targets)
    if variant == "decoy":
        model = _decoy(context)
        with torch.no_grad():
            said: Tensor = model(batch.images).argmax(1)
        return said
    return batch.targets


def _shuffled(context: RunContext) -> nn.Module:
    """Return the reference with the entries of each parameter permuted, its batch norms fitted again."""
    model, generator = context.trained_reference(), torch.Generator().manual_seed(context.reference.seed)
    with torch.no_grad():
        for parameter in model.parameters():
            order = torch.randperm(parameter.numel(), generator=generator)
            parameter.copy_(parameter.flatten()[order].view_as(parameter))
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches
        model.train()
        for part in torch.split(context.pixels(Split.TRAIN)[:_FITTED], 128) if norms else ():
            model(normalise(part, context.reference_norm))
    return model.eval()


def _decoy(context: RunContext) -> nn.Module:
    """Return a network of the reference's kind that learnt by how many quarter turns its images were turned."""
    fixed = {"decoy": record(context.reference), "recipe": context.suite.recipe, "turns": _TURNS}
    key, store, seed = fingerprint(fixed), context.networks, context.reference.seed
    model = context.network(context.reference.model, seed)
    with store.lock(key):
        if not store.has(key):
            pixels = context.pixels(Split.TRAIN)
            labels = torch.randint(min(_TURNS, context.data.record.classes), (len(pixels),), generator=_chance(seed))
            turned = torch.stack([image.rot90(int(turns), (1, 2)) for image, turns in zip(pixels, labels, strict=True)])
            inputs = DegradedImages(turned.to(device()), None, context.fill.to(device()), Unit.SCALAR)
            fit(model.to(device()), inputs, labels, context.norm, find_recipe(context.suite.recipe), seed)
            store.save(key, model, fixed)
    model = context.network(context.reference.model, seed)
    model.load_state_dict(store.weights(key))
    return model.eval()


def _chance(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
