"""Train the networks that several runs share, as jobs of a worker, and store these networks.

They are the explained networks, unless their weights are given; common networks; and copies of common networks that are
tuned on the masks of one estimator's ranking.
"""

import time

import torch
from torch import nn

from roarbench.common.device_settings import choose_device
from roarbench.common.enums import PAPER_LEVELS, Order, Split
from roarbench.common.identity import make_json_record
from roarbench.compute.degraded_images import RankingMask
from roarbench.compute.normalisation import Normalisation
from roarbench.compute.prediction import choose_scoring_batch_size, predict_logits
from roarbench.compute.train import fit
from roarbench.execution.job_context import JobContext, ReferenceModel
from roarbench.execution.run_images_and_masks import make_images_with_exchanged_masks, make_untouched_inputs
from roarbench.execution.suite_networks import build_starting_network, load_given_weights
from roarbench.plan.cells_and_runs import CommonNetworkSpec, Run, hash_fine_tuned_network
from roarbench.plan.recipes import find_recipe, make_fine_tuning_recipe
from roarbench.store.networks import Predictions
from roarbench.store.ranking_files import RankingSpec
from roarbench.store.rankings import Rankings

_FINE_TUNING_SEED = 1_000_000  # difference between the seeds of a common network's tuning and of its training


def train_or_read_reference(explained: ReferenceModel) -> str:
    """Train or read an explained network and store it with its predictions, unless stored; return a message."""
    store, note = explained.store, ""
    with store.lock():
        if not store.has_weights():
            note = _train_or_read_weights(explained)
        for split in explained.ranked_splits:
            if not store.has_predictions(split):
                store.save_predictions(split, _compute_predictions(explained, split))
    return note


def _train_or_read_weights(explained: ReferenceModel) -> str:
    """Train an explained network, or read its given weights, and store it; return the checkpoint's message."""
    start, work, reference, norm = time.perf_counter(), explained.work, explained.reference, None
    checkpoint, images = work.get_checkpoint(reference.key), work.images
    if reference.given:
        model = explained.build_untrained_network(reference.seed).to(choose_device())
        norm = load_given_weights(work.given[explained.number], model, images.record.channels, reference.model)
    else:
        recipe = find_recipe(reference.recipe)
        model = build_starting_network(work.suite, recipe, reference.seed).to(choose_device())
        inputs, labels = make_untouched_inputs(images, Split.TRAIN), torch.from_numpy(images.train.labels)
        fit(model, inputs, labels, Normalisation.of(images), recipe, reference.seed, checkpoint)
    explained.store.save_trained(model, time.perf_counter() - start, norm)
    checkpoint.remove()
    return checkpoint.note


def _compute_predictions(explained: ReferenceModel, split: Split) -> Predictions:
    images = explained.work.images
    model, batch = explained.load_trained().to(choose_device()), choose_scoring_batch_size(images.record.size)
    largest = predict_logits(model, make_untouched_inputs(images, split), explained.norm, batch).softmax(1).max(1)
    return Predictions(largest.indices.numpy(), largest.values.numpy())


def train_common_network(work: JobContext, common: CommonNetworkSpec) -> str:
    """Train a common network on the controls' exchanged masks at all levels, unless it is stored; return a message."""
    store, checkpoint, images = work.get_stored_network(common.key), work.get_checkpoint(common.key), work.images
    with store.lock():
        if store.has_weights():
            return ""
        controls = map(work.rankings.open, work.list_control_ranking_specs(common.unit))
        masks = [mask for each in controls for mask in _list_masks_at_all_levels(each, common.order, Split.TRAIN)]
        recipe = find_recipe(common.recipe)
        model = build_starting_network(work.suite, recipe, common.seed).to(choose_device())
        inputs = make_images_with_exchanged_masks(images, masks, common.unit, common.seed, common.fill)
        labels, start = torch.from_numpy(images.train.labels), time.perf_counter()
        fit(model, inputs, labels, Normalisation.of(images), recipe, common.seed, checkpoint)
        store.save(model, {"network": make_json_record(common), "seconds": time.perf_counter() - start})
        checkpoint.remove()
    return checkpoint.note


def fine_tune_common_network(work: JobContext, common: CommonNetworkSpec, spec: RankingSpec) -> None:
    """Fine-tune a copy of a common network on exchanged masks of a ranking at all levels, unless it is stored."""
    rankings, images, split = work.rankings.open(spec), work.images, work.suite.tuned_on
    store = work.get_stored_network(hash_fine_tuned_network(common.key, rankings.checksum))
    with store.lock():
        if store.has_weights():
            return
        model = _load_stored_network(work, common.key)
        masks, seed = _list_masks_at_all_levels(rankings, common.order, split), _FINE_TUNING_SEED + common.seed
        inputs = make_images_with_exchanged_masks(images, masks, common.unit, seed, common.fill, split)
        labels, start = torch.from_numpy(images.train.labels), time.perf_counter()
        recipe = make_fine_tuning_recipe(find_recipe(common.recipe))
        fit(model, inputs, labels, Normalisation.of(images), recipe, seed)
        seconds = time.perf_counter() - start
        store.save(model, {"network": make_json_record(common), "rankings": rankings.checksum, "seconds": seconds})


def load_stored_common_network(work: JobContext, run: Run, rankings: Rankings | None) -> nn.Module:
    """Load the common network that scores a run: the network tuned on `rankings`, or the untuned network for None."""
    key = hash_fine_tuned_network(run.network, rankings.checksum) if rankings else run.network
    return _load_stored_network(work, key)


def _list_masks_at_all_levels(rankings: Rankings, order: Order, split: Split) -> list[RankingMask]:
    """Return a split's masks at level 0 and at the paper's levels; training uses each level equally often."""
    return [RankingMask(rankings.splits[split], rankings.layout, t, order) for t in (0.0, *PAPER_LEVELS)]


def _load_stored_network(work: JobContext, key: str) -> nn.Module:
    network = work.build_untrained_network(0)
    network.load_state_dict(work.get_stored_network(key).load_weights())
    return network.to(choose_device())
