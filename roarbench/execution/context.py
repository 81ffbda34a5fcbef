"""What the jobs of one suite have in common: where its data, reference and rankings lie, and how they are opened."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from roarbench.datasets.decoded import ImageData, Images, open_decoded
from roarbench.estimators import Estimator
from roarbench.execution.given_weights import load_start
from roarbench.kernels.inputs import Normalisation
from roarbench.models.build import build
from roarbench.plan.common import CommonNetwork, common_network
from roarbench.plan.keys import ranked_splits, reference_of
from roarbench.plan.recipe import Recipe
from roarbench.plan.runs import Reference, Run
from roarbench.plan.suite import Suite
from roarbench.store.checkpoints import CheckpointFile
from roarbench.store.layout import Workspace
from roarbench.store.network_files import NetworkStore
from roarbench.store.ranking_spec import RankingSpec
from roarbench.store.rankings import RankingsStore
from roarbench.store.references import ReferenceStore
from roarbench.store.specs import ranking_spec
from roarbench.terms import Split, Unit


@dataclass(frozen=True)
class RunContext:
    """The workplace of one suite; small enough to send to a worker with every job.

    Attributes:
        workspace: The store's folders.
        decoded: Folder of the decoded data set.
        suite: What is asked for.
        given: Where each reference's weights are: a file, or the name of published ones; empty if they are trained.
        number: Which of the suite's references is explained.
    """

    workspace: Workspace
    decoded: Path
    suite: Suite
    given: tuple[str, ...] = ()
    number: int = 0

    def explaining(self, number: int) -> Self:
        """Return the same for another of the suite's references."""
        return replace(self, number=number)

    def of(self, run: Run) -> Self:
        """Return the same for the reference that a run depends on, or the first one."""
        return self.explaining(self.suite.reference_number(run.seed, run.cell.estimator) if run.reference else 0)

    def ranking(self, spec: RankingSpec) -> Self:
        """Return the same for the reference that a ranking explains, or the first one where it explains none."""
        numbers = range(self.suite.references if spec.reference else 1)
        contexts = map(self.explaining, numbers)
        return next(each for each in contexts if spec.reference in ("", each.reference.key))

    @property
    def reference(self) -> Reference:
        """Return the record of the model that is explained."""
        return reference_of(self.suite, self.data.fingerprint, self.number)

    @property
    def splits(self) -> tuple[Split, ...]:
        """Return whose images are ranked, and predicted by the reference."""
        return ranked_splits(self.suite)

    @property
    def data(self) -> ImageData:
        """Return the decoded images; opened once in each process."""
        return _open(self.decoded)

    @property
    def references(self) -> ReferenceStore:
        """Return the store of the explained models."""
        return ReferenceStore(self.workspace.references)

    @property
    def rankings(self) -> RankingsStore:
        """Return the store of the rankings."""
        return RankingsStore(self.workspace.rankings)

    @property
    def networks(self) -> NetworkStore:
        """Return the store of the networks that score many runs."""
        return NetworkStore(self.workspace.networks)

    def common_network(self, run: Run) -> CommonNetwork:
        """Return the record of the network that scores a run, before it is tuned on the run's row."""
        cell = run.cell
        return common_network(self.suite, self.data.fingerprint, cell.order, cell.unit, run.seed, cell.fill)

    def checkpoint(self, key: str, rankings: str = "") -> CheckpointFile:
        """Return the checkpoint of the training of a run or a reference of this key, on these rankings."""
        return CheckpointFile(self.workspace.checkpoints / f"{key}.pt", rankings)

    @property
    def norm(self) -> Normalisation:
        """Return what images are normalised with, for all networks that are trained here and for controls."""
        return Normalisation(self.data.mean, self.data.std)

    @property
    def reference_norm(self) -> Normalisation:
        """Return what images are normalised with for the reference, which may have been trained elsewhere."""
        return self.references.norm(self.reference) or self.norm

    @property
    def fill(self) -> Tensor:
        """Return what replaces a removed feature: the training mean, float32 (c,), in [0, 255]."""
        return torch.tensor(self.data.mean)

    def black(self, norm: Normalisation) -> Tensor:
        """Return the black pixel, normalised, float32 (c, 1, 1)."""
        return (-torch.tensor(norm.mean) / torch.tensor(norm.std))[:, None, None]

    def images(self, split: Split) -> Images:
        """Return the images of one split."""
        return self.data.train if split is Split.TRAIN else self.data.test

    def pixels(self, split: Split) -> Tensor:
        """Return its pixels, uint8 (n, c, h, w)."""
        return torch.from_numpy(self.images(split).pixels)

    def network(self, model: str, seed: int) -> nn.Module:
        """Build a network of this name for this data set, with the random weights of a seed."""
        record = self.data.record
        generator, source = torch.Generator().manual_seed(seed), self.suite.network_source
        return build(model, record.classes, record.channels, record.size, generator, source)

    def start(self, model: str, recipe: Recipe, seed: int) -> nn.Module:
        """Return the network that a training begins with: random weights of a seed, or the recipe's published ones.

        Raises:
            CallerError: They cannot be fetched or read, or belong to another network.
        """
        network = self.network(model, seed)
        if recipe.start:
            load_start(recipe.start, network, self.data.record.channels)
        return network

    def trained_reference(self) -> nn.Module:
        """Return the explained model, in eval mode."""
        model = self.network(self.reference.model, self.reference.seed)
        model.load_state_dict(self.references.weights(self.reference))
        return model.eval()

    def untrained_reference(self) -> nn.Module:
        """Return the reference's network with random weights, in eval mode: its architecture alone.

        Batch-norm gammas that start at 0 would leave the residual blocks out; here all are 1.
        """
        model = self.network(self.reference.model, self.reference.seed + 1)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.ones_(module.weight)
        return model.eval()

    def ranking_spec(self, estimator: Estimator, unit: Unit) -> RankingSpec:
        """Return under what identity the ranking of an estimator is stored."""
        return ranking_spec(self.suite, self.data, estimator, unit, self.number)


@lru_cache(maxsize=2)
def _open(folder: Path) -> ImageData:
    return open_decoded(folder)
