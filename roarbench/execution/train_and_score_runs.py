"""Train or load the networks of runs and test them, as jobs of a worker.

A job reads its inputs from the store's folder and returns its results, so every worker can do it, and an interrupted
job is repeated.
"""

import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.common.device_settings import choose_device, choose_precision, list_gpu_libraries, name_device
from roarbench.common.enums import Precision, ScoredNetwork, Split
from roarbench.common.errors import StoreError
from roarbench.compute.mask_smoothness import compute_smoothness_vs_random
from roarbench.compute.normalisation import Normalisation
from roarbench.compute.prediction import (
    NormalisedNetwork,
    choose_scoring_batch_size,
    predict_logits,
    predict_logits_of_networks,
)
from roarbench.compute.train import fit
from roarbench.datasets.open_decoded import ImageData
from roarbench.execution.explained_and_common_networks import load_stored_common_network
from roarbench.execution.importance_maps import MAX_LOADED_NETWORKS
from roarbench.execution.job_context import JobContext, ReferenceModel
from roarbench.execution.run_images_and_masks import (
    exchange_rankings_if_twin,
    extract_packed_test_masks,
    make_run_inputs,
    make_test_inputs,
)
from roarbench.execution.suite_networks import build_starting_network
from roarbench.plan.cells_and_runs import CLEAN, Run
from roarbench.plan.fill_names import refuse_unusable_fill
from roarbench.plan.suite import decode_network_pair_seed
from roarbench.store.annotations import AnnotationKind
from roarbench.store.networks import CheckpointFile
from roarbench.store.rankings import Rankings
from roarbench.store.run_result import RunResult, pack_correctness, pack_probabilities, read_provenance

_MASK_HASH_BYTES = 2  # stored bytes of the hash of an image's mask


class ScoredRuns(NamedTuple):
    """Results of the runs of one job."""

    results: Sequence[RunResult]
    note: str = ""  # message about the job; empty if there is none
    # hashes of masks (`AnnotationKind.MASKS`) of the runs that score an explained network under its own maps. The
    # default is a dict, which nothing changes, because a read-only view cannot be sent between processes
    annotations: Mapping[str, str] = {}


def execute_runs(work: JobContext, runs: tuple[Run, ...]) -> ScoredRuns:
    """Do a single run, or several runs that score one map at different levels."""
    parts = [execute_run(work, run) for run in runs]
    # only runs that train have notes, and a run that trains is always the only run of its job
    return ScoredRuns([result for part in parts for result in part.results], parts[0].note)


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
    result = _make_result(run, correct, seconds, rankings, weights, _compute_smoothness(images, run, masks), loss)
    if run.cell.retrain is ScoredNetwork.NONE:
        targets = torch.from_numpy(work.find_scored_network(run).store.load_predictions(Split.TEST).targets)
        probabilities = logits.softmax(1).gather(1, targets[:, None])[:, 0]
        result = replace(result, probability=pack_probabilities(probabilities.numpy()))
    return ScoredRuns([result], checkpoint.note)


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
    precision, libraries = choose_precision(trained_in, device), list_gpu_libraries(device)
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
    results, annotations = list[RunResult](), dict[str, str]()
    get_level = attrgetter("cell.t")
    for _, level_runs in groupby(sorted(runs, key=get_level), key=get_level):
        start, level = time.perf_counter(), tuple(level_runs)
        masks = extract_packed_test_masks(images, level[0], rankings)
        smoothness = _compute_smoothness(images, first, masks)
        targets = explained.store.load_predictions(Split.TEST).targets
        unchanged = _predict_test_classes(work, level, rankings, masks, networks) == targets
        seconds = (time.perf_counter() - start) / len(level)
        for run, is_unchanged in zip(level, unchanged, strict=True):
            results.append(_make_result(run, is_unchanged, seconds, rankings, weights, smoothness))
            own, scored = decode_network_pair_seed(run.seed)
            if masks is not None and own == scored:
                annotations[f"{AnnotationKind.MASKS} {run.key}"] = join_mask_hashes(masks)
    return ScoredRuns(results, annotations=annotations)


@lru_cache(maxsize=MAX_LOADED_NETWORKS)
def _load_explained_network_for_scoring(explained: ReferenceModel, checksum: str) -> NormalisedNetwork:
    """Load an explained network to the device; each process loads a network once per checksum."""
    return NormalisedNetwork(explained.load_trained().to(choose_device()), explained.norm)


def _predict_test_classes(
    work: JobContext,
    runs: Sequence[Run],
    rankings: Rankings | None,
    masks: NDArray[np.uint8] | None,
    networks: Mapping[ReferenceModel, NormalisedNetwork],
) -> NDArray[np.int64]:
    """Return the classes that the networks of several runs at one level predict for test images, int64 (runs, n)."""
    scored = [work.find_scored_network(run) for run in runs]
    if runs[0].cell.estimator == CLEAN:  # predictions on untouched images are stored
        return np.stack([network.store.load_predictions(Split.TEST).targets for network in scored])
    inputs, models = make_test_inputs(work.images, runs[0], rankings, masks), [networks[network] for network in scored]
    logits = predict_logits_of_networks(models, inputs, choose_scoring_batch_size(work.images.record.size))
    return np.stack([network_logits.argmax(1).numpy() for network_logits in logits])


def join_mask_hashes(masks: NDArray[np.uint8]) -> str:
    """Hash each image's packed mask, uint8 (n, width), to `_MASK_HASH_BYTES` bytes; return all hashes in base 64."""
    digests = (blake2b(mask.tobytes(), digest_size=_MASK_HASH_BYTES).digest() for mask in masks)
    return b64encode(b"".join(digests)).decode()
