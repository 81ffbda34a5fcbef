"""Train and score networks, as jobs of a worker.

A job reads its inputs from the store's folder and returns its results, so every worker can do it, and an interrupted
job is repeated. Several runs share the explained networks, common networks, and copies of common networks that are
tuned on the masks of one estimator's ranking.
"""

import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.common.device_settings import choose_device, choose_precision, list_gpu_library_versions, name_device
from roarbench.common.enums import PAPER_LEVELS, Order, Precision, ScoredNetwork, Split
from roarbench.common.errors import StoreError
from roarbench.common.identity import make_json_record
from roarbench.compute.degraded_images import RankingMask
from roarbench.compute.masks import compute_smoothness_vs_random
from roarbench.compute.prediction import (
    Normalisation,
    NormalisedNetwork,
    choose_scoring_batch_size,
    predict_logits,
    predict_logits_of_networks,
)
from roarbench.compute.train import fit
from roarbench.datasets.open_decoded import ImageData
from roarbench.execution.job_context import JobContext, ReferenceModel, make_inference_copy
from roarbench.execution.network_weights import build_starting_network, load_given_weights
from roarbench.execution.ranking_jobs import MAX_LOADED_NETWORKS
from roarbench.execution.run_inputs import (
    exchange_rankings_if_twin,
    extract_packed_test_masks,
    make_images_with_exchanged_masks,
    make_run_inputs,
    make_test_inputs,
    make_untouched_inputs,
)
from roarbench.plan.cells_and_runs import CLEAN, CommonNetworkSpec, Run, hash_fine_tuned_network
from roarbench.plan.recipes import find_recipe, make_fine_tuning_recipe
from roarbench.plan.suite import decode_network_pair_seed, refuse_unusable_fill
from roarbench.stats.chance import compute_largest_class_share
from roarbench.store.annotations_and_scores import AnnotationKind
from roarbench.store.networks import CheckpointFile, Predictions
from roarbench.store.ranking_files import RankingSpec
from roarbench.store.rankings import Rankings
from roarbench.store.run_result import RunResult, pack_correctness, pack_probabilities, read_provenance

_MASK_HASH_BYTES = 2  # stored bytes of the hash of an image's mask
_FINE_TUNING_SEED = 1_000_000  # difference between the seeds of a common network's tuning and of its training


def train_or_read_reference(explained: ReferenceModel) -> None:
    """Train or read an explained network and store it with its predictions, unless stored."""
    store, work, reference, images = explained.store, explained.work, explained.reference, explained.work.images
    with store.lock():
        if not store.has_weights():
            start, norm, checkpoint = time.perf_counter(), None, work.get_checkpoint(reference.key)
            if reference.given:
                model = explained.build_untrained_network(reference.seed).to(choose_device())
                norm = load_given_weights(work.given[explained.number], model, images.record.channels, reference.model)
            else:
                recipe = find_recipe(reference.recipe)
                model = build_starting_network(work.suite, recipe, reference.seed).to(choose_device())
                inputs, labels = make_untouched_inputs(images, Split.TRAIN), torch.from_numpy(images.train.labels)
                fit(model, inputs, labels, Normalisation.of(images), recipe, reference.seed, checkpoint)
            store.save_trained(model, time.perf_counter() - start + checkpoint.seconds_before, norm)
            checkpoint.remove()
        for split in (split for split in explained.ranked_splits if not store.has_predictions(split)):
            model, batch = explained.load_trained().to(choose_device()), choose_scoring_batch_size(images.record.size)
            logits = predict_logits(model, make_untouched_inputs(images, split), explained.norm, batch)
            largest = logits.softmax(1).max(1)
            store.save_predictions(split, Predictions(largest.indices.numpy(), largest.values.numpy()))


def train_common_network(work: JobContext, common: CommonNetworkSpec) -> None:
    """Train a common network on the controls' exchanged masks at all levels, unless it is stored."""
    store, checkpoint, images = work.get_stored_network(common.key), work.get_checkpoint(common.key), work.images
    with store.lock():
        if store.has_weights():
            return
        controls = map(work.rankings.open, work.list_control_ranking_specs(common.unit))
        masks = [mask for each in controls for mask in _list_masks_at_all_levels(each, common.order, Split.TRAIN)]
        recipe = find_recipe(common.recipe)
        model = build_starting_network(work.suite, recipe, common.seed).to(choose_device())
        inputs = make_images_with_exchanged_masks(images, masks, common.unit, common.seed, common.fill)
        labels, start = torch.from_numpy(images.train.labels), time.perf_counter()
        fit(model, inputs, labels, Normalisation.of(images), recipe, common.seed, checkpoint)
        seconds = time.perf_counter() - start + checkpoint.seconds_before
        store.save(model, {"network": make_json_record(common), "seconds": seconds})
        checkpoint.remove()


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


class ScoredRuns(NamedTuple):
    """Results of the runs of one job."""

    results: Sequence[RunResult]
    # hashes of masks (`AnnotationKind.MASKS`) of the runs that score an explained network under its own maps, and what
    # was measured of rankings and images. The default is a dict, which nothing changes, because a read-only view
    # cannot be sent between processes
    annotations: Mapping[str, Any] = {}


def execute_runs(work: JobContext, runs: tuple[Run, ...]) -> ScoredRuns:
    """Do a single run, or several runs that score one map at different levels."""
    parts = [execute_run(work, run) for run in runs]
    annotations = {key: value for part in parts for key, value in part.annotations.items()}
    return ScoredRuns([result for part in parts for result in part.results], annotations)


def execute_run(work: JobContext, run: Run) -> ScoredRuns:
    """Do one run: train a network, or load a common or an explained network, and test it."""
    refuse_unusable_fill(run.cell.fill, run.cell.retrain)
    images, spec = work.images, work.make_ranking_spec_of_run(run)
    rankings = exchange_rankings_if_twin(images, run, work.rankings.open(spec)) if spec else None
    # raises before hours of training if the rankings were made with other weights
    weights = _find_explained_weights_checksum(work, run, rankings)
    checkpoint, start = work.get_checkpoint(run.key, rankings.checksum if rankings else ""), time.perf_counter()
    model, norm, loss = _train_or_load_scored_network(work, run, rankings, checkpoint)
    masks, batch = extract_packed_test_masks(images, run, rankings), choose_scoring_batch_size(images.record.size)
    logits = predict_logits(model, make_test_inputs(images, run, rankings, masks), norm, batch)
    correct, seconds = logits.argmax(1).numpy() == images.test.labels, time.perf_counter() - start
    seconds += checkpoint.seconds_before  # of a training run that was interrupted
    result = _make_result(run, correct, seconds, rankings, weights, _compute_smoothness(images, run, masks), loss)
    if run.cell.retrain is ScoredNetwork.NONE:
        targets = torch.from_numpy(work.find_scored_network(run).store.load_predictions(Split.TEST).targets)
        probabilities = logits.softmax(1).gather(1, targets[:, None])[:, 0]
        result = replace(result, probability=pack_probabilities(probabilities.numpy()))
    return ScoredRuns([result], _annotate(images, run.data, rankings))


def _annotate(images: ImageData, data: str, rankings: Rankings | None) -> dict[str, Any]:
    """Return what doubts need to know of images and maps, since a database is also read without its store's folder."""
    of_images = {f"{AnnotationKind.LARGEST_CLASS} {data}": compute_largest_class_share(images.test.labels)}
    if rankings is None:
        return of_images
    measured = {
        AnnotationKind.STABILITY: rankings.prediction_stability,
        AnnotationKind.TIES: rankings.tied_share,
        AnnotationKind.PASSES: rankings.passes and list(rankings.passes),
    }
    known = {f"{kind} {rankings.checksum}": value for kind, value in measured.items() if value is not None}
    return of_images | known


def _compute_smoothness(images: ImageData, run: Run, masks: NDArray[np.uint8] | None) -> float | None:
    return None if masks is None else compute_smoothness_vs_random(masks, images.record.shape, run.cell.unit)


def _make_result(
    run: Run,
    correct: NDArray[np.bool_],
    seconds: float,
    rankings: Rankings | None,
    weights: str,
    smoothness: float | None,
    loss: float | None = None,
) -> RunResult:
    device = choose_device()
    trained_in = run.recipe_record.precision if run.cell.retrain.trains else Precision.FLOAT32
    precision, libraries = choose_precision(trained_in, device), list_gpu_library_versions(device)
    return RunResult(
        run=run,
        correct=int(correct.sum()),
        total=len(correct),
        bits=pack_correctness(correct),
        seconds=seconds,
        provenance=read_provenance(name_device(device), precision, libraries),
        rankings=rankings.checksum if rankings else "",
        smoothness=smoothness,
        weights=weights,
        loss=loss,
    )


def _train_or_load_scored_network(
    work: JobContext, run: Run, rankings: Rankings | None, checkpoint: CheckpointFile
) -> tuple[nn.Module, Normalisation, float | None]:
    """Return a run's network, the normalisation of its inputs, and the training loss; None if nothing is trained."""
    if run.cell.retrain is ScoredNetwork.NONE:
        scored = work.find_scored_network(run)
        return *_load_explained_network_for_scoring(scored, scored.store.read_checksum()), None
    images = work.images
    norm = Normalisation.of(images)
    if run.cell.retrain is ScoredNetwork.MASKS:  # a fraction t of each mask is 1
        t, channels = run.cell.t, images.record.channels
        norm = Normalisation((t,) * channels, ((t * (1 - t)) ** 0.5,) * channels)
    if run.cell.retrain is ScoredNetwork.COMMON:
        return load_stored_common_network(work, run, rankings), norm, None
    model = build_starting_network(work.suite, run.recipe_record, run.seed).to(choose_device())
    inputs, labels = make_run_inputs(images, run, rankings, Split.TRAIN), torch.from_numpy(images.train.labels)
    return model, norm, fit(model, inputs, labels, norm, run.recipe_record, run.seed, checkpoint)


def _find_explained_weights_checksum(work: JobContext, run: Run, rankings: Rankings | None) -> str:
    """Return the checksum of the explained weights that a run depends on, or "" if it depends on none.

    Raises:
        StoreError: The rankings were made with other weights.
    """
    store = work.find_explained_network(run).store
    weights = rankings.weights if rankings else ""
    here = store.read_checksum()
    if rankings and weights and here and weights != here:
        mismatch = f"{rankings.folder} was made for a different network than that in {store.folder}"
        raise StoreError(f"{mismatch}; delete {rankings.folder.parent}, or use a new --store")
    return weights if run.cell.retrain.trains else here


def score_networks_on_maps_of_one_network(work: JobContext, runs: tuple[Run, ...]) -> ScoredRuns:
    """Score several explained networks on images degraded by one estimator's maps of one network, at several levels.

    A prediction counts as correct if it is the class that the maps explain, which the explained network predicts on the
    untouched image. Images are degraded once for all networks.
    """
    first, spec, images = runs[0], work.make_ranking_spec_of_run(runs[0]), work.images
    refuse_unusable_fill(first.cell.fill, first.cell.retrain)
    rankings = exchange_rankings_if_twin(images, first, work.rankings.open(spec)) if spec else None
    weights, explained = _find_explained_weights_checksum(work, first, rankings), work.find_explained_network(first)
    networks = {
        network: _load_explained_network_for_scoring(network, network.store.read_checksum())
        for network in map(work.find_scored_network, runs)
    }
    results, annotations = list[RunResult](), _annotate(images, first.data, rankings)
    get_level, size = attrgetter("cell.t"), images.record.size
    for _, level_runs in groupby(sorted(runs, key=get_level), key=get_level):
        start, level = time.perf_counter(), tuple(level_runs)
        masks = extract_packed_test_masks(images, level[0], rankings)
        smoothness = _compute_smoothness(images, first, masks)
        targets = explained.store.load_predictions(Split.TEST).targets
        scored = [work.find_scored_network(run) for run in level]
        if level[0].cell.estimator == CLEAN:  # predictions on untouched images are stored
            predicted = [network.store.load_predictions(Split.TEST).targets for network in scored]
        else:
            inputs, batch = make_test_inputs(images, level[0], rankings, masks), choose_scoring_batch_size(size)
            logits = predict_logits_of_networks([networks[network] for network in scored], inputs, batch)
            predicted = [network_logits.argmax(1).numpy() for network_logits in logits]
        seconds = (time.perf_counter() - start) / len(level)
        for run, classes in zip(level, predicted, strict=True):
            results.append(_make_result(run, classes == targets, seconds, rankings, weights, smoothness))
            own_number, scored_number = decode_network_pair_seed(run.seed)
            if masks is not None and own_number == scored_number:
                annotations[f"{AnnotationKind.MASKS} {run.key}"] = hash_masks(masks)
    return ScoredRuns(results, annotations=annotations)


@lru_cache(maxsize=MAX_LOADED_NETWORKS)
def _load_explained_network_for_scoring(explained: ReferenceModel, checksum: str) -> NormalisedNetwork:
    """Load an explained network to the device; each process loads a network once per checksum."""
    return NormalisedNetwork(make_inference_copy(explained.load_trained()).to(choose_device()), explained.norm)


def hash_masks(masks: NDArray[np.uint8]) -> str:
    """Hash each image's packed mask, uint8 (n, width), to `_MASK_HASH_BYTES` bytes; return all hashes in base 64."""
    digests = (blake2b(mask.tobytes(), digest_size=_MASK_HASH_BYTES).digest() for mask in masks)
    return b64encode(b"".join(digests)).decode()
