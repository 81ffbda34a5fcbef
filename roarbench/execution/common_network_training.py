"""Train the networks that score many runs: common networks, and copies of them tuned on an estimator's masks."""

import time
from collections.abc import Iterable

import torch
from torch import nn

from roarbench.common.device_settings import choose_device
from roarbench.common.enums import PAPER_LEVELS, Order, Split, Unit
from roarbench.common.identity import make_json_record
from roarbench.compute.images_with_exchanged_masks import ImagesWithExchangedMasks, RankingMask
from roarbench.compute.normalised_inputs import Inputs, Normalisation
from roarbench.compute.train import fit
from roarbench.datasets.open_decoded import ImageData
from roarbench.execution.device_inputs import get_device_mean, get_device_or_mapped_pixels, stream_unless_on_device
from roarbench.execution.job_context import JobContext
from roarbench.plan.cells_and_runs import Run
from roarbench.plan.planned_runs import CommonNetworkSpec, hash_fine_tuned_network, make_fine_tuning_recipe
from roarbench.plan.recipes import find_recipe
from roarbench.store.ranking_files import RankingSpec
from roarbench.store.rankings import Rankings

EXCHANGE = 4_000_000  # base seed of mask exchanges; distinct from the seeds of training runs
_FINE_TUNING = 1_000_000  # difference between the seeds of a common network's tuning and of its training


def make_images_with_exchanged_masks(
    images: ImageData, masks: Iterable[RankingMask], unit: Unit, seed: int, fill: str, mask_split: Split = Split.TRAIN
) -> Inputs:
    """Return training images that are degraded with the removal masks of other images, which a seed selects.

    The masks are those of images of `mask_split`.
    """
    generator, is_other_split = torch.Generator().manual_seed(EXCHANGE + seed), mask_split is not Split.TRAIN
    pixels, mean = get_device_or_mapped_pixels(images, Split.TRAIN), get_device_mean(images)
    exchanged = ImagesWithExchangedMasks(pixels, tuple(masks), mean, unit, generator, is_other_split, fill)
    return stream_unless_on_device(exchanged, images, Split.TRAIN)


def train_common_network(work: JobContext, common: CommonNetworkSpec) -> str:
    """Train and store a common network, unless it is stored; return a message.

    The network is trained on images with the controls' exchanged masks of all levels.
    """
    store, checkpoint, images = work.get_stored_network(common.key), work.get_checkpoint(common.key), work.images
    with store.lock():
        if store.has_weights():
            return ""
        masks: list[RankingMask] = []
        for spec in work.list_control_ranking_specs(common.unit):
            masks += _list_masks_at_all_levels(work.rankings.open(spec), common.order, Split.TRAIN)
        recipe = find_recipe(common.recipe)
        model = work.build_starting_network(recipe, common.seed).to(choose_device())
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
        masks, seed = _list_masks_at_all_levels(rankings, common.order, split), _FINE_TUNING + common.seed
        inputs = make_images_with_exchanged_masks(images, masks, common.unit, seed, common.fill, split)
        labels, start = torch.from_numpy(images.train.labels), time.perf_counter()
        recipe = make_fine_tuning_recipe(find_recipe(common.recipe))
        fit(model, inputs, labels, Normalisation.of(images), recipe, seed)
        seconds = time.perf_counter() - start
        store.save(model, {"network": make_json_record(common), "rankings": rankings.checksum, "seconds": seconds})


def load_stored_common_network(work: JobContext, run: Run, rankings: Rankings | None) -> nn.Module:
    """Load the common network that scores a run: the network tuned on `rankings`, or the untuned network for None."""
    return _load_stored_network(
        work, hash_fine_tuned_network(run.network, rankings.checksum) if rankings else run.network
    )


def _list_masks_at_all_levels(rankings: Rankings, order: Order, split: Split) -> list[RankingMask]:
    """Return the masks of a split's images at the paper's levels and at 0; training uses each level equally often."""
    return [RankingMask(rankings.splits[split], rankings.layout, t, order) for t in (0.0, *PAPER_LEVELS)]


def _load_stored_network(work: JobContext, key: str) -> nn.Module:
    network = work.build_untrained_network(0)
    network.load_state_dict(work.get_stored_network(key).load_weights())
    return network.to(choose_device())
