"""What jobs are given: where images, stores and networks are, and the network that is explained there."""

from dataclasses import dataclass

import torch
from torch import nn

from roarbench.datasets.decoded import ImageData
from roarbench.execution.given_weights import load_start
from roarbench.kernels.inputs import Normalisation
from roarbench.models.build import build
from roarbench.plan.recipe import Recipe
from roarbench.plan.runs import Reference
from roarbench.store.checkpoints import CheckpointFile
from roarbench.store.layout import Workspace
from roarbench.store.rankings import RankingsStore
from roarbench.store.references import StoredNetwork, StoredReference
from roarbench.terms import Making, Split


@dataclass(frozen=True)
class Workplace:
    """Images and the folders of a store; small enough to send to a worker with every job."""

    workspace: Workspace
    images: ImageData  # what is ranked and learnt from
    source: str = ""  # file of the network, where it is not one of this package; else empty

    @property
    def rankings(self) -> RankingsStore:
        """Return the store of the rankings."""
        return RankingsStore(self.workspace.rankings)

    def stored(self, key: str) -> StoredNetwork:
        """Return where the network of this key, which scores many runs, is kept."""
        return StoredNetwork(self.workspace.networks, key)

    def checkpoint(self, key: str, rankings: str = "") -> CheckpointFile:
        """Return the checkpoint of the training of a run or a reference of this key, on these rankings."""
        return CheckpointFile(self.workspace.checkpoints / f"{key}.pt", rankings)

    def network(self, model: str, seed: int) -> nn.Module:
        """Build a network of this name for the images, with the random weights of a seed."""
        record, generator = self.images.record, torch.Generator().manual_seed(seed)
        return build(model, record.classes, record.channels, record.size, generator, self.source)

    def start(self, model: str, recipe: Recipe, seed: int) -> nn.Module:
        """Return the network that a training begins with: random weights of a seed, or the recipe's published ones.

        CallerError where these cannot be fetched or read, or belong to another network.
        """
        network = self.network(model, seed)
        if recipe.start:
            load_start(recipe.start, network, self.images.record.channels)
        return network


@dataclass(frozen=True)
class ReferenceModel:
    """A network that is explained, and how."""

    place: Workplace  # where its weights and predictions are, or will be
    reference: Reference  # what fixes it
    splits: tuple[Split, ...]  # whose images are ranked, and predicted by it
    given: str  # where its weights are: a file, or the name of published ones; empty if it is trained
    recipe: str  # by which a decoy of it is trained
    maps: Making  # how its maps are made

    @property
    def store(self) -> StoredReference:
        """Return where it is kept."""
        return StoredReference(self.place.workspace.references, self.reference)

    @property
    def made(self) -> bool:
        """Return whether all is there: its weights, and what it predicts."""
        return all(self.store.predicted(split) for split in self.splits)

    @property
    def norm(self) -> Normalisation:
        """Return what images are normalised with for it, which may have been trained elsewhere."""
        return self.store.norm() or Normalisation.of(self.place.images)

    def trained(self) -> nn.Module:
        """Return it in eval mode."""
        model = self.place.network(self.reference.model, self.reference.seed)
        model.load_state_dict(self.store.weights())
        return model.eval()

    def untrained(self) -> nn.Module:
        """Return it with random weights, in eval mode: its architecture alone.

        Batch-norm gammas that start at 0 would leave the residual blocks out; here all are 1.
        """
        model = self.place.network(self.reference.model, self.reference.seed + 1)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.ones_(module.weight)
        return model.eval()
