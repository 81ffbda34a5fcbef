"""The jobs that train what scores many runs: the common networks, and their tuning on the masks of each row."""

import time
from collections.abc import Iterable

import torch
from torch import nn

from roarbench.devices import device
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution.context import RunContext
from roarbench.execution.placed_inputs import pixels
from roarbench.identity import fingerprint, record
from roarbench.kernels.exchange import ExchangedImages
from roarbench.kernels.streaming import Cut
from roarbench.kernels.train import fit
from roarbench.plan.common import CommonNetwork, tuning_of
from roarbench.plan.recipes import find_recipe
from roarbench.plan.runs import Run
from roarbench.store.ranking_spec import RankingSpec
from roarbench.store.rankings import Rankings
from roarbench.terms import PAPER_LEVELS, Order, Split, Unit

EXCHANGE = 4_000_000  # seed of the exchange of masks, apart from those of the trainings that it is drawn for
_TUNING = 1_000_000  # from the seed of a common network to those of its tuning


def exchanged(
    context: RunContext, cuts: Iterable[Cut], unit: Unit, seed: int, masks: Split = Split.TRAIN, fill: str = "mean"
) -> ExchangedImages:
    """Return training images that carry removal masks of other images of a split by these cuts, drawn from a seed."""
    generator, mean = torch.Generator().manual_seed(EXCHANGE + seed), context.fill.to(device())
    images, lent = pixels(context, Split.TRAIN), masks is not Split.TRAIN
    return ExchangedImages(images, tuple(cuts), mean, unit, generator, lent, fill)


def train_common(context: RunContext, common: CommonNetwork) -> str:
    """Train a network on the exchanged masks of all controls and levels, unless that was done.

    Returns:
        A line for the one who waits; empty if there is nothing to say.
    """
    store, checkpoint = context.networks, context.checkpoint(common.key)
    with store.lock(common.key):
        if store.has(common.key):
            return ""
        first = context.explaining(0)
        specs = [first.ranking_spec(find_estimator(name), common.unit) for name in context.suite.controls]
        controls = [first.rankings.open(spec) for spec in specs]
        cuts = [cut for rankings in controls for cut in cuts_of(rankings, common.order)]
        recipe = find_recipe(common.recipe)
        model = context.start(common.model, recipe, common.seed).to(device())
        inputs = exchanged(context, cuts, common.unit, common.seed, fill=common.fill)
        labels, start = torch.from_numpy(context.data.train.labels), time.perf_counter()
        fit(model, inputs, labels, context.norm, recipe, common.seed, checkpoint)
        about = {"network": record(common), "seconds": time.perf_counter() - start}
        store.save(common.key, model, about)
        checkpoint.remove()
    return checkpoint.note


def tune(context: RunContext, run: Run) -> None:
    """Tune the common network of a run on its row's own exchanged masks, of all levels, unless that was done."""
    common = context.common_network(run)
    rankings = row_rankings(context, run)
    key, store = tuned_key(common, rankings.checksum), context.networks
    with store.lock(key):
        if store.has(key):
            return
        model = _load(context, common, common.key).to(device())
        masks, seed = context.suite.tuned_on, _TUNING + common.seed
        cuts = cuts_of(rankings, common.order, masks)
        inputs = exchanged(context, cuts, common.unit, seed, masks, common.fill)
        labels, start = torch.from_numpy(context.data.train.labels), time.perf_counter()
        recipe = tuning_of(find_recipe(common.recipe))
        fit(model, inputs, labels, context.norm, recipe, seed)
        about = {"network": record(common), "rankings": rankings.checksum, "seconds": time.perf_counter() - start}
        store.save(key, model, about)


def is_tuned(context: RunContext, run: Run) -> bool:
    """Return whether the network that `tune` makes for a run is there; its rankings have to be finished."""
    return context.networks.has(tuned_key(context.common_network(run), row_rankings(context, run).checksum))


def scoring_network(context: RunContext, run: Run, rankings: Rankings | None) -> nn.Module:
    """Return the network that scores a run without a training of its own, on the device.

    Args:
        context: For the reference that the run depends on.
        run: What is scored.
        rankings: Of its row, which the network was tuned on; None for untouched images, which the common network scores
            as it is.
    """
    common = context.common_network(run)
    key = tuned_key(common, rankings.checksum) if rankings else common.key
    return _load(context, common, key).to(device())


def row_rankings(context: RunContext, run: Run) -> Rankings:
    """Return the rankings of a run's row, each image's own, also for a run that hands them to other images.

    Raises:
        StoreError: They are not there, not finished or damaged.
        ValueError: It has none: untouched images, or `random-redrawn`.
    """
    return context.rankings.open(row_spec(context, run))


def row_spec(context: RunContext, run: Run) -> RankingSpec:
    """Return the identity of those rankings.

    Raises:
        ValueError: The run has none.
    """
    estimator = run.cell.ranked_by
    if estimator is None:
        raise ValueError(f"{run.cell.estimator} has no rankings")
    return context.ranking_spec(estimator, run.cell.unit)


def cuts_of(rankings: Rankings, order: Order, masks: Split = Split.TRAIN) -> list[Cut]:
    """Return what a row removes of the images of a split at the paper's levels, and at 0: all are met equally often."""
    return [Cut(rankings.planes(masks), rankings.layout, t, order) for t in (0.0, *PAPER_LEVELS)]


def _load(context: RunContext, common: CommonNetwork, key: str) -> nn.Module:
    model = context.network(common.model, common.seed)
    model.load_state_dict(context.networks.weights(key))
    return model


def tuned_key(common: CommonNetwork, rankings: str) -> str:
    """Return the key of a common network tuned on the rankings of this checksum."""
    return fingerprint({"common": common.key, "rankings": rankings})
