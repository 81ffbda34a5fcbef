"""The context of every job: a suite with its images, its store and its explained networks."""

from dataclasses import dataclass

import torch
from torch import nn

from roarbench.compute.inputs import Normalisation
from roarbench.compute.networks import set_batch_norm_scales_to_one
from roarbench.compute.recipe import Recipe
from roarbench.datasets.decoded import ImageData
from roarbench.enums import Split, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import Estimator
from roarbench.execution.pretrained_weights import load_starting_weights
from roarbench.execution.workload import build_suite_network
from roarbench.plan.planned_runs import (
    CommonNetworkSpec,
    list_ranked_splits,
    make_common_network_spec,
    make_reference_spec,
)
from roarbench.plan.runs import ReferenceSpec, Run
from roarbench.plan.suite import SuiteSpec
from roarbench.store.networks import CheckpointFile, StoredNetwork, StoredReference
from roarbench.store.ranking_files import RankingSpec, make_ranking_spec
from roarbench.store.rankings import RankingsStore
from roarbench.store.workspace import Workspace


@dataclass(frozen=True)
class JobContext:
    """A suite, its images and its store; small enough to send with a job."""

    workspace: Workspace
    images: ImageData
    suite: SuiteSpec
    # weights of each reference: a file or a published name; empty for trained references
    given: tuple[str, ...] = ()

    @property
    def rankings(self) -> RankingsStore:
        """Return the store of the rankings."""
        return RankingsStore(self.workspace.rankings)

    def get_stored_network(self, key: str) -> StoredNetwork:
        """Return the stored scoring network with this key."""
        return StoredNetwork(self.workspace.networks, key)

    def get_checkpoint(self, key: str, rankings_checksum: str = "") -> CheckpointFile:
        """Return the checkpoint of a training with these rankings, by the key of its run or network."""
        return CheckpointFile(self.workspace.checkpoints / f"{key}.pt", rankings_checksum)

    def build_network(self, seed: int) -> nn.Module:
        """Build the suite's network with random weights from a seed."""
        return build_suite_network(self.suite, torch.Generator().manual_seed(seed))

    def build_starting_network(self, recipe: Recipe, seed: int) -> nn.Module:
        """Return the network at the start of a training, random or published; CallerError for unusable weights."""
        network = self.build_network(seed)
        if recipe.start:
            load_starting_weights(recipe.start, network, self.images.record.channels, self.suite.model)
        return network

    @property
    def explained(self) -> tuple["ReferenceModel", ...]:
        """Return the explained networks."""
        return tuple(ReferenceModel(self, number) for number in range(self.suite.references))

    def find_network_of_ranking(self, spec: RankingSpec) -> "ReferenceModel":
        """Return the explained network of a ranking; for controls, which use none, the first one."""
        explained = self.explained
        return next((network for network in explained if network.reference.key == spec.reference), explained[0])

    def find_explained_network(self, run: Run) -> "ReferenceModel":
        """Return the explained network that a run depends on; the first one if it depends on none."""
        return ReferenceModel(self, self.suite.find_explained_number(run.cell, run.seed) if run.reference else 0)

    def find_scored_network(self, run: Run) -> "ReferenceModel":
        """Return the explained network that a run scores, which may differ from the one that its map explains."""
        return ReferenceModel(self, self.suite.find_scored_number(run.cell, run.seed))

    def make_ranking_spec(self, estimator: Estimator, unit: Unit, number: int = 0) -> RankingSpec:
        """Return the identity of an estimator's rankings for the explained network with this number."""
        images = self.images
        return make_ranking_spec(self.suite, images.fingerprint, images.record.shape, estimator, unit, number)

    def list_control_ranking_specs(self, unit: Unit) -> list[RankingSpec]:
        """Return the identities of the controls' rankings, whose masks train common networks."""
        return [self.make_ranking_spec(find_estimator(name), unit) for name in self.suite.controls]

    def make_ranking_spec_of_run(self, run: Run) -> RankingSpec | None:
        """Return the identity of a run's rankings before an exchange; None if it has none or they are not stored."""
        estimator, number = run.cell.estimator_of_stored_ranking, self.find_explained_network(run).number
        return self.make_ranking_spec(estimator, run.cell.unit, number) if estimator else None

    def make_common_network_spec(self, run: Run) -> CommonNetworkSpec:
        """Return the common network of a run, before it is tuned on the run's row."""
        cell = run.cell
        return make_common_network_spec(self.suite, self.images.fingerprint, cell.order, cell.unit, run.seed, cell.fill)


@dataclass(frozen=True)
class ReferenceModel:
    """The explained network of a suite with this number."""

    work: JobContext
    number: int

    @property
    def number_suffix(self) -> str:
        """Return the number for names of steps, counted from 1; empty if the suite has one explained network."""
        return f" {self.number + 1}" if self.work.suite.references > 1 else ""

    @property
    def step_name(self) -> str:
        """Return the name of the step that makes the network."""
        return f"reference{self.number_suffix}"

    @property
    def reference(self) -> ReferenceSpec:
        """Return the identity of the network."""
        return make_reference_spec(self.work.suite, self.work.images.fingerprint, self.number)

    @property
    def ranked_splits(self) -> tuple[Split, ...]:
        """Return the splits whose images the network predicts: those that are ranked."""
        return list_ranked_splits(self.work.suite)

    @property
    def store(self) -> StoredReference:
        """Return the network's folder in the store."""
        return StoredReference(self.work.workspace.references, self.reference)

    @property
    def has_weights_and_predictions(self) -> bool:
        """Return whether the weights and predictions exist."""
        return all(self.store.has_predictions(split) for split in self.ranked_splits)

    @property
    def norm(self) -> Normalisation:
        """Return the normalisation of the network's images, which given weights may define."""
        return self.store.read_normalisation() or Normalisation.of(self.work.images)

    def build_network(self, seed: int) -> nn.Module:
        """Build the network with random weights from a seed."""
        return build_suite_network(self.work.suite, torch.Generator().manual_seed(seed), self.number)

    def load_trained(self) -> nn.Module:
        """Return the network with its weights, in eval mode."""
        model = self.build_network(self.reference.seed)
        model.load_state_dict(self.store.load_weights())
        return model.eval()

    def build_untrained(self) -> nn.Module:
        """Return the network with random weights, in eval mode, with batch-norm scales of 1."""
        return set_batch_norm_scales_to_one(self.build_network(self.reference.seed + 1)).eval()
