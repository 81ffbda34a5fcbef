"""Define the context of every job: a suite with its images, its store, and its explained networks with variants."""

import operator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from roarbench.common.enums import Split, Unit
from roarbench.common.errors import StoreError
from roarbench.compute.networks import SmallResNet, set_batch_norm_scales_to_one
from roarbench.compute.prediction import Normalisation, normalise
from roarbench.datasets.open_decoded import ImageData
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.network_copies import fold_batchnorm
from roarbench.execution.network_weights import build_suite_network
from roarbench.plan.cells_and_runs import CommonNetworkSpec, ReferenceSpec, Run
from roarbench.plan.planned_runs import list_ranked_splits, make_common_network_spec, make_reference_spec
from roarbench.plan.suite import SuiteSpec
from roarbench.store.networks import CheckpointFile, StoredNetwork, StoredReference
from roarbench.store.published_networks import read_network_file
from roarbench.store.ranking_files import RankingSpec, make_ranking_spec
from roarbench.store.rankings import RankingsStore
from roarbench.store.workspace import Workspace

_BATCH_NORM_IMAGES = 2048  # maximum training images from which new batch norm statistics are computed


@dataclass(frozen=True)
class JobContext:
    """A suite, its images and its store; the record only refers to files, so every job carries a copy."""

    workspace: Workspace
    images: ImageData
    suite: SuiteSpec
    # path or published name of each explained network's given weights; empty for networks that the suite trains
    given: tuple[str, ...] = ()

    @property
    def rankings(self) -> RankingsStore:
        return RankingsStore(self.workspace.rankings)

    def get_stored_network(self, key: str) -> StoredNetwork:
        return StoredNetwork(self.workspace.networks, key)

    def get_checkpoint(self, key: str, rankings_checksum: str = "") -> CheckpointFile:
        """Return the checkpoint of the training run of a run or network with this key, on masks of these rankings."""
        return CheckpointFile(self.workspace.checkpoints / f"{key}.pt", rankings_checksum)

    def build_untrained_network(self, seed: int) -> nn.Module:
        return build_suite_network(self.suite, torch.Generator().manual_seed(seed))

    @property
    def explained(self) -> tuple["ReferenceModel", ...]:
        return tuple(ReferenceModel(self, number) for number in range(self.suite.references))

    def find_network_of_ranking(self, spec: RankingSpec) -> "ReferenceModel":
        """Return the explained network of a ranking, or the first network for controls, which use no network."""
        explained = self.explained
        return next((network for network in explained if network.reference.key == spec.reference), explained[0])

    def find_explained_network(self, run: Run) -> "ReferenceModel":
        """Return the explained network that a run depends on, or the first network if the run depends on none."""
        return ReferenceModel(self, self.suite.find_explained_number(run.cell, run.seed) if run.reference else 0)

    def find_scored_network(self, run: Run) -> "ReferenceModel":
        """Return the explained network that a run scores; the run's map may explain a different network."""
        return ReferenceModel(self, self.suite.find_scored_number(run.cell, run.seed))

    def make_ranking_spec(self, estimator: Estimator, unit: Unit, number: int = 0) -> RankingSpec:
        """Return the identity of an estimator's rankings for the explained network with this number."""
        images = self.images
        return make_ranking_spec(self.suite, images.fingerprint, images.record.shape, estimator, unit, number)

    def list_control_ranking_specs(self, unit: Unit) -> list[RankingSpec]:
        """Return the identities of the controls' rankings, with whose masks common networks are trained."""
        return [self.make_ranking_spec(find_estimator(name), unit) for name in self.suite.controls]

    def make_ranking_spec_of_run(self, run: Run) -> RankingSpec | None:
        """Return the identity of the stored rankings that a run uses, or None; `other-image` twins exchange them."""
        estimator, number = run.cell.estimator_of_stored_ranking, self.find_explained_network(run).number
        return self.make_ranking_spec(estimator, run.cell.unit, number) if estimator else None

    def make_common_network_spec(self, run: Run) -> CommonNetworkSpec:
        """Return the identity of a run's common network, not yet tuned for the run's estimator."""
        cell = run.cell
        return make_common_network_spec(self.suite, self.images.fingerprint, cell.order, cell.unit, run.seed, cell.fill)


@dataclass(frozen=True)
class ReferenceModel:
    """An explained network of a suite, identified by its number."""

    work: JobContext
    number: int

    @property
    def number_suffix(self) -> str:
        """Return the suffix of step names: the network's number, from 1, or empty if the suite explains one network."""
        return f" {self.number + 1}" if self.work.suite.references > 1 else ""

    @property
    def step_name(self) -> str:
        return f"explained network{self.number_suffix}"

    @property
    def title(self) -> str:
        return f"{self.step_name} of {self.work.suite.title}"

    @property
    def reference(self) -> ReferenceSpec:
        return make_reference_spec(self.work.suite, self.work.images.fingerprint, self.number)

    @property
    def ranked_splits(self) -> tuple[Split, ...]:
        """Return the splits whose images are ranked; the network's predictions on them are stored."""
        return list_ranked_splits(self.work.suite)

    @property
    def store(self) -> StoredReference:
        return StoredReference(self.work.workspace.references, self.reference)

    def has_weights_and_predictions(self) -> bool:
        return all(self.store.has_predictions(split) for split in self.ranked_splits)

    @property
    def norm(self) -> Normalisation:
        """Return the normalisation of the network's images, from the file of given weights if it defines one."""
        return self.store.read_normalisation() or Normalisation.of(self.work.images)

    def build_untrained_network(self, seed: int) -> nn.Module:
        return build_suite_network(self.work.suite, torch.Generator().manual_seed(seed), self.number)

    def install_published_weights(self, path: Path) -> bool:
        """Store the weights in a published network's file, or return False if another process has stored weights."""
        weights = {name: torch.from_numpy(array) for name, array in read_network_file(path).weights.items()}
        model = self.build_untrained_network(self.reference.seed)
        try:
            model.load_state_dict(weights)
        except RuntimeError:
            raise StoreError(f"{path} does not fit {self.work.suite.title}; delete the file") from None
        with self.store.lock():
            if self.store.has_weights():
                return False
            self.store.save_published(model)
        return True

    def load_trained(self) -> nn.Module:
        """Return the network with its weights, in eval mode."""
        model = self.build_untrained_network(self.reference.seed)
        model.load_state_dict(self.store.load_weights())
        return model.eval()

    def load_variant(self, variant: str) -> nn.Module:
        """Return the `untrained` or `shuffled` variant of the network, or the trained network, in eval mode."""
        if variant == "untrained":
            return set_batch_norm_scales_to_one(self.build_untrained_network(self.reference.seed + 1)).eval()
        model, generator = self.load_trained(), torch.Generator().manual_seed(self.reference.seed)
        if variant != "shuffled":
            return model
        with torch.no_grad():  # permute the entries of each parameter, and compute batch norm statistics again
            for parameter in model.parameters():
                order = torch.randperm(parameter.numel(), generator=generator)
                parameter.copy_(parameter.flatten()[order].view_as(parameter))
            norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # cumulative mean over all batches
            model.train()
            pixels = torch.from_numpy(self.work.images.train.pixels[:_BATCH_NORM_IMAGES])
            for part in torch.split(pixels, 128) if norms else ():
                model(normalise(part, self.norm))
        return model.eval()


def make_inference_copy(network: nn.Module) -> nn.Module:
    """Copy a small residual network, in eval mode, for forward passes; other networks are returned as they are.

    Batch norms are folded into convolutions, and ReLUs and sums work in place. A pass takes a sixth less time, and its
    logits are equal up to rounding.
    """
    if type(network) is not SmallResNet:
        return network
    folded = fold_batchnorm(network)
    for node in folded.graph.nodes:  # the sum's first term, a convolution's output, has no other use
        if node.target is operator.add:
            node.target = operator.iadd
    for module in folded.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = True
    folded.recompile()
    return folded
