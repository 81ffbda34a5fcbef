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
from torch import Tensor, nn

from roarbench.common.device_settings import choose_device, choose_precision, list_gpu_library_versions, name_device
from roarbench.common.enums import PAPER_LEVELS, Precision, ScoredNetwork, Split
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


def train_common_network(work: JobContext, common: CommonNetworkSpec, tuned_for: RankingSpec | None = None) -> None:
    """Train a common network on the controls' exchanged masks at all levels, unless it is stored.

    With `tuned_for`, tune a copy of the stored common network on the masks of this ranking instead.
    """
    specs = [tuned_for] if tuned_for else work.list_control_ranking_specs(common.unit)
    rankings, images, split = [work.rankings.open(spec) for spec in specs], work.images, Split.TRAIN
    key, recipe, seed = common.key, find_recipe(common.recipe), common.seed
    record: dict[str, Any] = {"network": make_json_record(common)}
    checkpoint: CheckpointFile | None = work.get_checkpoint(key)
    if tuned_for:  # in one epoch, so without a checkpoint
        checkpoint, split, record["rankings"] = None, work.suite.tuned_on, rankings[0].checksum
        key, recipe = hash_fine_tuned_network(key, rankings[0].checksum), make_fine_tuning_recipe(recipe)
        seed += _FINE_TUNING_SEED
    store = work.get_stored_network(key)
    with store.lock():
        if store.has_weights():
            return
        if tuned_for:
            model = load_stored_common_network(work, common.key, None)
        else:
            model = build_starting_network(work.suite, recipe, seed).to(choose_device())
        levels = 0.0, *PAPER_LEVELS  # training uses each level equally often
        masks = [RankingMask(each.splits[split], each.layout, t, common.order) for each in rankings for t in levels]
        inputs = make_images_with_exchanged_masks(images, masks, common.unit, seed, common.fill, split)
        labels, start = torch.from_numpy(images.train.labels), time.perf_counter()
        fit(model, inputs, labels, Normalisation.of(images), recipe, seed, checkpoint)
        seconds = time.perf_counter() - start + (checkpoint.seconds_before if checkpoint else 0)
        store.save(model, record | {"seconds": seconds})
        if checkpoint:
            checkpoint.remove()


def load_stored_common_network(work: JobContext, key: str, rankings: Rankings | None) -> nn.Module:
    """Load the common network with this key, or its copy that was tuned on `rankings`."""
    network = work.build_untrained_network(0)
    stored = work.get_stored_network(hash_fine_tuned_network(key, rankings.checksum) if rankings else key)
    network.load_state_dict(stored.load_weights())
    return network.to(choose_device())


class ScoredRuns(NamedTuple):
    """Results of the runs of one job."""

    results: Sequence[RunResult]
    # hashes of masks (`AnnotationKind.MASKS`) of the runs that score an explained network under its own maps, and what
    # was measured of rankings and images
    annotations: Mapping[str, Any]


def execute_runs(work: JobContext, runs: tuple[Run, ...]) -> ScoredRuns:
    """Do the runs of a job, which use one map: train a network, or load common or explained networks, and test them.

    The images of a level are degraded once for all networks. If explained networks are compared with each other, a
    prediction counts as correct if it is the class that the maps explain, which the explained network predicts on the
    untouched image.
    """
    cell, images, device = runs[0].cell, work.images, choose_device()
    # raises before hours of training if the rankings were made with other weights
    rankings, weights = _open_rankings_and_check_weights(work, runs[0])
    checksum, start = rankings.checksum if rankings else "", time.perf_counter()
    checkpoint = work.get_checkpoint(runs[0].key, checksum)
    networks = dict[ReferenceModel, tuple[NormalisedNetwork, float | None]]()
    for run in runs:
        if (network := work.find_scored_network(run)) not in networks:
            networks[network] = _train_or_load_scored_network(work, run, rankings, checkpoint)
    trained_in = runs[0].recipe_record.precision if cell.retrain.trains else Precision.FLOAT32
    precision, libraries = choose_precision(trained_in, device), list_gpu_library_versions(device)
    provenance = read_provenance(name_device(device), precision, libraries)
    results, annotations = list[RunResult](), _annotate(images, runs[0].data, rankings)
    get_level, siblings = attrgetter("cell.t"), cell.retrain is ScoredNetwork.SIBLINGS
    for _, level_runs in groupby(sorted(runs, key=get_level), key=get_level):
        level, logits, expected = tuple(level_runs), list[Tensor](), images.test.labels
        masks, smoothness = None, None
        scored = [work.find_scored_network(run) for run in level]
        if siblings:
            expected = work.find_explained_network(runs[0]).store.load_predictions(Split.TEST).targets
        if siblings and cell.estimator == CLEAN:  # predictions on untouched images are stored
            predicted = [network.store.load_predictions(Split.TEST).targets for network in scored]
        else:
            inputs, masks = make_test_inputs(images, level[0], rankings)
            loaded, batch = [networks[network][0] for network in scored], choose_scoring_batch_size(images.record.size)
            logits = predict_logits_of_networks(loaded, inputs, batch)
            del inputs  # with most fills, a copy of all images; those of the next level need as much memory
            predicted = [network_logits.argmax(1).numpy() for network_logits in logits]
        if masks is not None:
            smoothness = compute_smoothness_vs_random(masks, images.record.shape, cell.unit)
        seconds = (time.perf_counter() - start) / len(level) + checkpoint.seconds_before  # before an interruption
        for number, (run, classes) in enumerate(zip(level, predicted, strict=True)):
            correct = classes == expected
            result = RunResult(
                run=run,
                correct=int(correct.sum()),
                total=len(correct),
                bits=pack_correctness(correct),
                seconds=seconds,
                provenance=provenance,
                rankings=checksum,
                smoothness=smoothness,
                weights=weights,
                loss=networks[scored[number]][1],
            )
            if cell.retrain is ScoredNetwork.NONE:
                targets = torch.from_numpy(scored[number].store.load_predictions(Split.TEST).targets)
                probabilities = logits[number].softmax(1).gather(1, targets[:, None])[:, 0]
                result = replace(result, probability=pack_probabilities(probabilities.numpy()))
            results.append(result)
            own_number, scored_number = decode_network_pair_seed(run.seed)
            if siblings and masks is not None and own_number == scored_number:
                annotations[f"{AnnotationKind.MASKS} {run.key}"] = hash_masks(masks)
        start = time.perf_counter()
    return ScoredRuns(results, annotations)


def _train_or_load_scored_network(
    work: JobContext, run: Run, rankings: Rankings | None, checkpoint: CheckpointFile
) -> tuple[NormalisedNetwork, float | None]:
    """Return a run's network with the normalisation of its inputs, and the training loss; None if it is loaded."""
    retrain, images = run.cell.retrain, work.images
    if retrain in (ScoredNetwork.NONE, ScoredNetwork.SIBLINGS):
        scored = work.find_scored_network(run)
        return _load_explained_network_for_scoring(scored, scored.store.read_checksum()), None
    norm = Normalisation.of(images)
    if retrain is ScoredNetwork.COMMON:
        return NormalisedNetwork(load_stored_common_network(work, run.network, rankings), norm), None
    if retrain is ScoredNetwork.MASKS:  # a fraction t of each mask is 1
        t, channels = run.cell.t, images.record.channels
        norm = Normalisation((t,) * channels, ((t * (1 - t)) ** 0.5,) * channels)
    model = build_starting_network(work.suite, run.recipe_record, run.seed).to(choose_device())
    inputs, labels = make_run_inputs(images, run, rankings, Split.TRAIN), torch.from_numpy(images.train.labels)
    loss = fit(model, inputs, labels, norm, run.recipe_record, run.seed, checkpoint)
    return NormalisedNetwork(model, norm), loss


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


def _open_rankings_and_check_weights(work: JobContext, run: Run) -> tuple[Rankings | None, str]:
    """Return a run's rankings, and the checksum of the explained weights that it depends on; both may be empty.

    Raises:
        StoreError: The rankings were made with other weights.
    """
    refuse_unusable_fill(run.cell.fill, run.cell.retrain)
    store, spec = work.find_explained_network(run).store, work.make_ranking_spec_of_run(run)
    rankings = exchange_rankings_if_twin(work.images, run, work.rankings.open(spec)) if spec else None
    weights, here = rankings.weights if rankings else "", store.read_checksum()
    if rankings and weights and here and weights != here:
        mismatch = f"{rankings.folder} was made for a different network than that in {store.folder}"
        raise StoreError(f"{mismatch}; delete {rankings.folder.parent}, or use a new --store")
    return rankings, weights if run.cell.retrain.trains else here


@lru_cache(maxsize=MAX_LOADED_NETWORKS)
def _load_explained_network_for_scoring(explained: ReferenceModel, checksum: str) -> NormalisedNetwork:
    """Load an explained network to the device; each process loads a network once per checksum."""
    return NormalisedNetwork(make_inference_copy(explained.load_trained()).to(choose_device()), explained.norm)


def hash_masks(masks: NDArray[np.uint8]) -> str:
    """Hash each image's packed mask, uint8 (n, width), to `_MASK_HASH_BYTES` bytes; return all hashes in base 64."""
    digests = (blake2b(mask.tobytes(), digest_size=_MASK_HASH_BYTES).digest() for mask in masks)
    return b64encode(b"".join(digests)).decode()
