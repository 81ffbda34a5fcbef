"""Compare the scores behind own-network gain with Quantus' PixelFlipping and with the forward passes alone.

Each network is scored under the masks of each network's maps, at two levels. Quantus removes features in equal steps,
and has to pass through all of them to reach the second level.
"""

import importlib
import warnings
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers.paired_timing import Figure, PairedTimer, measure_core_seconds

from roarbench.common.enums import Order, Unit
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.map_ranking import rank_to_bit_planes
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import (
    Normalisation,
    NormalisedNetwork,
    choose_scoring_batch_size,
    normalise,
    predict_logits_of_networks,
)
from roarbench.compute.ranking import Layout, find_removed_bits
from roarbench.execution.job_context import make_inference_copy
from tests.helpers.networks import randomise_weights

IMAGES, SHAPE, NETWORKS = 128, (3, 64, 64), 3
STEPS = 24  # Quantus' steps must divide the pixels of a channel, which 20 steps of 5 % do not
LEVELS = (1 / STEPS, 0.5)
NORM = Normalisation((120.0, 115.0, 100.0), (60.0, 60.0, 60.0))


def test_scores_of_own_network_gain(timer: PairedTimer) -> None:
    rng, layout = np.random.default_rng(0), Layout(SHAPE, Unit.SCALAR, LEVELS)
    pixels = torch.from_numpy(rng.integers(256, size=(IMAGES, *SHAPE), dtype=np.uint8))
    maps = [rng.standard_normal((IMAGES, *SHAPE), np.float32) for _ in range(NETWORKS)]
    generators = [torch.Generator().manual_seed(number) for number in range(NETWORKS)]
    models = [randomise_weights(build_network("resnet-quick", 10, 3, 64, each), each) for each in generators]
    targets, fill, batch = torch.arange(IMAGES) % 10, torch.tensor(NORM.mean), choose_scoring_batch_size(SHAPE[1])
    images = normalise(pixels, NORM)
    quantus: Any = importlib.import_module("quantus")
    options = {"abs": False, "normalise": False, "perturb_baseline": 0.0, "disable_warnings": True}
    flipping = quantus.PixelFlipping(features_in_step=layout.features // STEPS, **options)

    networks = [NormalisedNetwork(make_inference_copy(model), NORM) for model in models]

    def rank() -> list[NDArray[np.uint8]]:
        return [rank_to_bit_planes(torch.from_numpy(each), np.arange(IMAGES), layout).planes for each in maps]

    def score(rankings: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return the probabilities of the targets, (maps, levels, networks, n)."""
        probabilities = []
        for planes in rankings:
            for t in LEVELS:
                removed = torch.from_numpy(find_removed_bits(planes, t, Order.MORF, layout))
                inputs = DegradedImages(pixels, removed, fill, Unit.SCALAR)
                for logits in predict_logits_of_networks(networks, inputs, batch):
                    probabilities.append(logits.softmax(1).gather(1, targets[:, None])[:, 0])
        return torch.stack(probabilities).view(NETWORKS, len(LEVELS), NETWORKS, IMAGES).numpy()

    def score_by_quantus() -> NDArray[np.float32]:
        curves = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for importance, model in product(maps, models):
                arrays = images.contiguous().numpy(), targets.numpy(), importance
                curves.append(flipping(model, *arrays, channel_first=True, softmax=True, batch_size=batch))
        steps = [round(t * STEPS) - 1 for t in LEVELS]
        return np.array(curves).reshape(NETWORKS, NETWORKS, IMAGES, -1)[..., steps].transpose(0, 3, 1, 2)

    def pass_alone() -> None:
        with torch.inference_mode():
            for _, _, model in product(maps, LEVELS, models):
                model(images)

    rankings = rank()
    scores = score(rankings)
    assert scores.std() > 0.1
    np.testing.assert_allclose(scores, score_by_quantus(), rtol=1e-4, atol=1e-5)
    count = NETWORKS**2 * len(LEVELS)
    mine, other = timer.time_in_turns(lambda: score(rank()), score_by_quantus)
    detail = f"{mine:.2f} against {other:.2f} core-s, {IMAGES} images, {count} scores"
    timer.add_figure(Figure("scores of own-network gain", "Quantus' PixelFlipping", other / mine, 20, detail))
    scored = min(measure_core_seconds(lambda: score(rankings)) for _ in range(5))
    passes = min(measure_core_seconds(pass_alone) for _ in range(5))
    detail = f"{scored:.2f} against {passes:.2f} core-s, batch norms not folded"
    timer.add_figure(Figure("the same, ranked before", "the forward passes alone", passes / scored, 1 / 1.15, detail))
