"""Networks and classes that twins explain instead of the reference and what it predicts."""

import torch
from torch import Tensor, nn

from roarbench.devices import choose_device
from roarbench.enums import Unit
from roarbench.estimators.estimator import SEED
from roarbench.estimators.inputs import Batch
from roarbench.estimators.noise import draw_other_targets
from roarbench.execution.suite_work import ReferenceModel
from roarbench.identity import hash_value, record
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation, normalise
from roarbench.kernels.train import fit
from roarbench.plan.recipes import find_recipe

_FITTED = 2048  # training images at most that batch norms are fitted on again
_TURNS = 4  # quarter turns that a decoy tells apart


def make_twin_network(explained: ReferenceModel, variant: str) -> nn.Module:
    """Return the network that estimators of a variant explain, in eval mode."""
    if variant == "untrained":
        return explained.untrained()
    if variant == "shuffled":
        return _shuffle_weights(explained)
    return _decoy(explained) if variant == "decoy" else explained.trained()


def choose_twin_targets(explained: ReferenceModel, variant: str, batch: Batch) -> Tensor:
    """Return the classes that estimators of a variant explain, int64 (n,)."""
    if variant == "other-target":
        return draw_other_targets(batch.targets, batch.ids, explained.work.images.record.classes, SEED)
    if variant == "constant-target":
        return torch.zeros_like(batch.targets)
    if variant == "decoy":
        model = _decoy(explained)
        with torch.no_grad():
            said: Tensor = model(batch.images).argmax(1)
        return said
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


def _decoy(explained: ReferenceModel) -> nn.Module:
    """Return a network of the reference's kind that learnt by how many quarter turns its images were turned."""
    work, reference = explained.work, explained.reference
    fixed = {"decoy": record(reference), "recipe": work.suite.recipe, "turns": _TURNS}
    store, images = work.stored(hash_value(fixed)), work.images
    model = explained.network(reference.seed)
    with store.lock():
        if not store.has():
            pixels, chance = torch.from_numpy(images.train.pixels), torch.Generator().manual_seed(reference.seed)
            labels = torch.randint(min(_TURNS, images.record.classes), (len(pixels),), generator=chance)
            turned = torch.stack([image.rot90(int(turns), (1, 2)) for image, turns in zip(pixels, labels, strict=True)])
            inputs = DegradedImages(
                turned.to(choose_device()), None, torch.tensor(images.mean, device=choose_device()), Unit.SCALAR
            )
            norm, recipe = Normalisation.of(images), find_recipe(work.suite.recipe)
            fit(model.to(choose_device()), inputs, labels, norm, recipe, reference.seed)
            store.save(model, fixed)
    model = explained.network(reference.seed)
    model.load_state_dict(store.weights())
    return model.eval()
