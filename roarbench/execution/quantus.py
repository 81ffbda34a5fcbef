"""Score a suite's maps with Quantus' metrics, and store the scores in a table of their own (extra `quantus`)."""

import time
import warnings
from collections import defaultdict
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn

from roarbench.analysis.faithfulness_scores import PATCHES, REGIONS, RUNS, SEED, STEPS, list_score_specs
from roarbench.common.enums import Split
from roarbench.common.errors import CallerError
from roarbench.common.text import format_duration
from roarbench.execution import ranking_jobs
from roarbench.execution.job_context import ReferenceModel
from roarbench.execution.job_graph import verify_images_and_rankings
from roarbench.execution.run_suite import FinishedSuite, collect_stored_results
from roarbench.execution.training_and_scoring import train_or_read_reference
from roarbench.store.annotations_and_scores import Score, ScoreSpec, read_scores, store_scores
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import read_code_version, read_package_version, read_provenance


class QuantusInput(NamedTuple):
    """Input for a metric of Quantus."""

    model: nn.Module  # the explained network, in eval mode, which returns logits
    images: NDArray[np.float32]  # float32 (n, c, h, w), normalised: the fill value is 0
    targets: NDArray[np.int64]  # int64 (n,), the network's predicted classes
    maps: NDArray[Any]  # floats (n, c, h, w), (n, 1, h, w) or (n, h, w), larger = more important


def read_quantus_version() -> str:
    """Return the version of Quantus; raise CallerError if it is not installed."""
    if not (version := read_package_version("quantus")):
        raise CallerError("Quantus is not installed; run pip install 'roarbench[quantus]'")
    return version


def add_quantus_scores(finished: FinishedSuite, store: ResultsStore, console: Console) -> FinishedSuite:
    """Score the maps of a suite with Quantus, estimator by estimator, unless the scores are stored."""
    (results, _, work), start = finished, time.monotonic()
    specs = list_score_specs(results.suite, results.data)
    versions = read_provenance().versions | {"roarbench": read_code_version(), "quantus": read_quantus_version()}
    done = read_scores(store.database, specs)
    todo: defaultdict[str, list[ScoreSpec]] = defaultdict(list)
    for cell, spec in specs.items():
        if cell not in done:
            todo[cell[0]].append(spec)
    if todo:
        verify_images_and_rankings(work, [])
    for estimator, missing in todo.items():
        inputs = _make_quantus_input(work.explained[0], estimator, missing[0].images)
        scores = [_make_score(spec, estimator, score_maps(spec.metric, inputs), versions) for spec in missing]
        store_scores(store.database, scores)
        console.print(f"Quantus: {estimator} ({format_duration(time.monotonic() - start)})", soft_wrap=True)
    return finished._replace(suite_results=collect_stored_results(results.suite, store, work.images))


def score_maps(metric: str, inputs: QuantusInput) -> NDArray[np.float64]:
    """Score each map by one metric of Quantus, float64 (n,); NaN if the metric is undefined for a map.

    Constant maps are undefined, one by one. The maps of the other images may have any sign and scale: pixel flipping
    sees ranks, and the other metrics see each map minus its mean, because Quantus refuses maps below 0 and pads with 0.
    """
    _, channels, height, width = inputs.images.shape
    maps = inputs.maps if inputs.maps.ndim == 4 else inputs.maps[:, None]
    flat = np.broadcast_to(maps, inputs.images.shape).reshape(len(maps), -1)
    constant = (flat == flat[:, :1]).all(axis=1)
    if constant.all() or (metric == "region-perturbation" and height * width == 1):
        return np.full(len(maps), np.nan)
    quantus: Any = import_module("quantus")  # the import takes seconds, and mypy does not find Quantus' names
    common: dict[str, Any] = {"abs": False, "normalise": False, "perturb_baseline": 0.0, "disable_warnings": True}
    shown = flat - flat.mean(axis=1, keepdims=True, dtype=np.float64)
    if metric == "pixel-flipping":
        pixels = height * width
        # the largest divisor of the pixels up to an eighth of them, because Quantus refuses other steps
        step = next(step for step in range(max(1, pixels // STEPS), 0, -1) if pixels % step == 0)
        function = quantus.PixelFlipping(features_in_step=step, **common)
        shown = np.empty(flat.shape)  # ranks, larger = more important; of equal features, the first has the largest
        np.put_along_axis(shown, np.argsort(-flat, axis=1, kind="stable"), np.arange(flat.shape[1])[None, ::-1], 1)
    elif metric == "region-perturbation":
        patch = max(1, height // PATCHES)
        function = quantus.RegionPerturbation(patch_size=patch, regions_evaluation=REGIONS, **common)
    else:
        if (maps[~constant] == maps[~constant, :1]).all():  # one value per pixel: subsets are sets of pixels
            channels, shown = 1, shown[:, : height * width]
        # Quantus refuses subsets larger than a channel, so a mask is one line
        masks = np.ones((len(maps), 1, 1, shown.shape[1]), np.float32)
        inputs = inputs._replace(model=_NetworkOfMasks(inputs.model, torch.from_numpy(inputs.images)), images=masks)
        subset = max(1, channels * height * width // 8)
        function = quantus.FaithfulnessCorrelation(nr_runs=RUNS, subset_size=subset, return_aggregate=False, **common)
    model, images, targets, _ = inputs
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(SEED)  # noqa: NPY002  # Quantus draws from NumPy's global generator alone
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Quantus warns of images equal to the fill value, and of equal predictions
            maps = shown.reshape(images.shape)
            listed = function(model, images, targets, maps, channel_first=True, softmax=True, batch_size=len(images))
    finally:
        np.random.set_state(state)  # noqa: NPY002
    scores = np.array(listed, dtype=np.float64)
    means = scores.mean(axis=1) if scores.ndim == 2 else scores  # (n, steps) or (n,)
    return np.where(constant, np.nan, means)


class _NetworkOfMasks(nn.Module):
    """A network whose input is a mask of scalars (n, 1, 1, c * h * w) or pixels: 1 keeps values, 0 fills them."""

    def __init__(self, model: nn.Module, images: Tensor) -> None:
        super().__init__()
        self.model, self.images = model, images
        self.eval()

    def forward(self, masks: Tensor) -> Tensor:
        kept = masks.reshape(len(masks), -1, *self.images.shape[2:])
        logits: Tensor = self.model(self.images.to(masks) * kept)
        return logits


def _make_quantus_input(explained: ReferenceModel, estimator: str, images: int) -> QuantusInput:
    train_or_read_reference(explained)
    count = min(images, len(explained.work.images.test.labels))
    batch = ranking_jobs.load_batch(explained, Split.TEST, 0, count, explained.norm)
    (maps,) = ranking_jobs.make_maps_for_networks([(explained, estimator)], Split.TEST, 0, count).values()
    pixels, values = (np.ascontiguousarray(tensor.cpu().numpy()) for tensor in (batch.images, maps.importance))
    return QuantusInput(explained.load_trained(), pixels, batch.targets.numpy(), values)


def _make_score(spec: ScoreSpec, estimator: str, values: NDArray[np.float64], versions: dict[str, str]) -> Score:
    defined = values[np.isfinite(values)]
    return Score(spec, estimator, float(defined.mean()) if len(defined) else None, len(defined), versions)
