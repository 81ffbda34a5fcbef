"""What the matched control earns on planted data, where it is known how much lies in position alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.planted import GREY, draw_centres, draw_strengths, generate
from roarbench.estimators.pairing import other_images
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation
from roarbench.kernels.scoring import predict
from roarbench.kernels.train import fit
from roarbench.models.build import build
from roarbench.plan.recipes import find_recipe
from roarbench.terms import Split, Unit

RECORD = replace(find_dataset("planted"), train_images=1000, test_images=600)
T = 0.3
RECIPE = find_recipe("planted@1")


def without(images: NDArray[np.uint8], importance: NDArray[np.floating]) -> DegradedImages:
    """Take from each image the share T that is most important, and put grey in its place."""
    flat = importance.reshape(len(images), -1)
    place = (-flat).argsort(axis=1).argsort(axis=1)
    removed = torch.from_numpy(np.packbits(place < round(T * flat.shape[1]), axis=1))
    return DegradedImages(torch.from_numpy(images), removed, torch.full((images.shape[1],), float(GREY)), Unit.SCALAR)


def maps(split: Split, truth: NDArray[np.floating]) -> dict[str, NDArray[np.floating]]:
    generator = np.random.default_rng([7, list(Split).index(split)])
    handed = other_images(len(truth), 0, 0)
    nobody = np.zeros(len(truth), np.int64)  # places hang on no class here
    centres = draw_centres(RECORD.config, nobody, RECORD.size, generator)
    return {
        "random": generator.random(truth.shape),
        "truth": truth,
        "truth~other-image": truth[handed],
        "position alone": draw_strengths(centres, RECORD.channels, RECORD.size, generator),
    }


@pytest.mark.slow
def test_the_matched_control_of_the_truth_earns_what_position_alone_gives() -> None:
    """Spots of the same shape and places, drawn without looking at any image, remove as much of the class."""
    made = {split: generate(RECORD, split) for split in Split}
    importance = {split: maps(split, made[split][2]) for split in Split}
    norm = Normalisation((128.0,) * RECORD.channels, (40.0,) * RECORD.channels)
    labels = {split: torch.from_numpy(made[split][1]) for split in Split}
    accuracies = {}
    for name in importance[Split.TRAIN]:
        train, test = (without(made[split][0], importance[split][name]) for split in Split)
        model = build("resnet-planted", RECORD.classes, RECORD.channels, RECORD.size, torch.Generator().manual_seed(0))
        fit(model, train, labels[Split.TRAIN], norm, RECIPE, 0)
        answers = predict(model, test, norm, batch=200).argmax(1)
        accuracies[name] = float((answers == labels[Split.TEST]).float().mean())
    error = np.sqrt(2 * 0.25 / RECORD.test_images)
    gains = {name: accuracies["random"] - accuracy for name, accuracy in accuracies.items()}
    assert abs(gains["truth~other-image"] - gains["position alone"]) < 4 * error
    assert gains["truth"] > gains["truth~other-image"] + 4 * error
