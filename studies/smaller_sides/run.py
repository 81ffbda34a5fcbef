"""Train networks on images that are shrunk, or cropped and stretched, after or before the removal of features.

`python -m studies.smaller_sides.run OUT.csv --rows random,grad --seeds 0,1` appends a line for each training.
plan.md has the rules.
"""

import argparse
import csv
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from roarbench.common.enums import Split, Unit
from roarbench.compute import training_batches
from roarbench.compute.augment import augment, shrink_images
from roarbench.compute.degraded_images import DegradedImages, degrade
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import Normalisation, normalise, predict_logits
from roarbench.compute.ranking import count_removed, draw_tie_order, rank
from roarbench.compute.recipe import Augmentation
from roarbench.compute.train import fit
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Batch
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_builtin_suite
from studies.search.run import load_networks

ROWS = ("random", "random-blurred", "sobel", "grad", "sgsq-grad", "var-grad")
WAYS = ("full", "today", "shrunk first")
CROPS = ("cropped last", "cropped first")  # ways of the second part of the plan
LEVEL = 0.9


def remove_first(images: Tensor, ranks: Tensor, fill: Tensor) -> Tensor:
    """Fill the share LEVEL of each image's features, (b, c, h, w), that have the lowest ranks."""
    flat = ranks.flatten(1)
    count = count_removed(LEVEL, flat.shape[1])
    first = torch.from_numpy(np.argpartition(flat.numpy(), count, axis=1)[:, :count])
    removed = torch.zeros_like(flat, dtype=torch.bool).scatter_(1, first, True).view_as(images)
    return degrade(images, removed, fill)


@dataclass(frozen=True)
class ShrunkFirst(DegradedImages):
    """Degraded images at any side: the share LEVEL of each shrunken image's features is removed."""

    ranks: Tensor  # float32 (n, c, h, w); 0 is the most important feature of an image

    def batch(self, index: Tensor) -> Tensor:
        return self.batch_at(index, self.shape[1])

    def batch_at(self, index: Tensor, side: int) -> Tensor:
        """Return images (b, c, side, side), shrunk and then degraded."""
        images, ranks = shrink_images(self.pixels[index].float(), side), shrink_images(self.ranks[index], side)
        return remove_first(images, ranks, self.fill)


@dataclass(frozen=True)
class WithRanks(DegradedImages):
    """Images beside the ranks of their features, (b, 2 c, h, w), so that one crop moves both."""

    ranks: Tensor  # as in ShrunkFirst

    def batch(self, index: Tensor) -> Tensor:
        return torch.cat([self.pixels[index].float(), self.ranks[index]], dim=1)

    def augment(self, images: Tensor, kind: Augmentation, generator: torch.Generator) -> Tensor:
        """Augment images and ranks alike, and remove features then."""
        moved, ranks = augment(images, kind, generator).chunk(2, dim=1)
        return remove_first(moved, ranks, self.fill)


class CacheOfShrunkFirst(training_batches.InputCache):
    """A cache that asks the inputs for a side instead of shrinking what they return."""

    def _prepare_all(self, size: int) -> Tensor:
        inputs = self._inputs
        assert isinstance(inputs, ShrunkFirst)
        parts = torch.split(torch.arange(len(inputs)), training_batches.INPUTS_PER_PART)
        return torch.cat([self._prepare(inputs.batch_at(index, size)) for index in parts])


class Experiment:
    """The data set, an explained network, and the rankings of one row at a time."""

    def __init__(self, folder: Path) -> None:
        self.suite = find_builtin_suite("quick")
        self.data = decode_dataset(self.suite.dataset_record, folder)
        self.norm = Normalisation.of(self.data)
        self.network, *_ = load_networks(self.suite, self.data.fingerprint)

    def build(self, seed: int) -> torch.nn.Module:
        return build_network(**self.suite.find_network()._asdict(), generator=torch.Generator().manual_seed(seed))

    def rank(self, row: str, split: Split) -> Tensor:
        """Return the rank of each feature, float32 (n, c, h, w), 0 first."""
        estimator, pixels = find_estimator(row), torch.from_numpy(np.array(self.data[split].pixels))
        offset = 0 if split is Split.TRAIN else len(self.data.train.labels)
        ranks = torch.empty(pixels.shape, dtype=torch.float32)
        for rows in torch.split(torch.arange(len(pixels)), 64):
            images, ids = normalise(pixels[rows].float(), self.norm), rows + offset
            with torch.no_grad():
                targets = self.network(images).argmax(1)
            model = None if estimator.control else self.network
            batch = Batch(images.contiguous(), targets, ids)
            maps = compute_importance_maps([estimator], model, batch, self.norm.black)[row]
            flat = maps.flatten(1).numpy()
            order = rank(flat, draw_tie_order(ids.numpy(), flat.shape[1]))
            places = np.empty(order.shape, np.float32)
            np.put_along_axis(places, order, np.arange(flat.shape[1], dtype=np.float32)[None], 1)
            ranks[rows] = torch.from_numpy(places).view(ranks[rows].shape)
        return ranks

    def train_and_score(self, ranks: dict[Split, Tensor], way: str, seed: int) -> float:
        """Return the accuracy of a new network on degraded test images, degraded at the full side."""
        fill = torch.tensor(self.data.mean)
        trained: DegradedImages
        pixels = {split: torch.from_numpy(np.array(self.data[split].pixels)) for split in Split}
        test = ShrunkFirst(pixels[Split.TEST], None, fill, Unit.SCALAR, ranks[Split.TEST])
        recipe = find_recipe("quick@2")
        if way in CROPS:
            recipe = replace(recipe, augmentation=Augmentation.CROP_FLIP)
        if way == "full" or way in CROPS:
            recipe = replace(recipe, sides=(1.0,))
        patches = ExitStack()
        if way == "shrunk first":
            trained = ShrunkFirst(pixels[Split.TRAIN], None, fill, Unit.SCALAR, ranks[Split.TRAIN])
            patches.enter_context(patch.object(training_batches, "InputCache", CacheOfShrunkFirst))
        elif way == "cropped first":
            trained = WithRanks(pixels[Split.TRAIN], None, fill, Unit.SCALAR, ranks[Split.TRAIN])
            patches.enter_context(patch.object(training_batches, "augment", trained.augment))
        else:
            removed = (ranks[Split.TRAIN].flatten(1) < count_removed(LEVEL, ranks[Split.TRAIN][0].numel())).numpy()
            packed = torch.from_numpy(np.packbits(removed, axis=1))
            trained = DegradedImages(pixels[Split.TRAIN], packed, fill, Unit.SCALAR)
        model = self.build(seed)
        with patches:
            fit(model, trained, torch.from_numpy(np.array(self.data.train.labels)), self.norm, recipe, seed)
        predicted = predict_logits(model.eval(), test, self.norm, 250).argmax(1).numpy()
        return float((predicted == self.data.test.labels).mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        experiment = Experiment(Path(folder))
        for row in options.rows.split(","):
            ranks = {split: experiment.rank(row, split) for split in Split}
            for seed in map(int, options.seeds.split(",")):
                for way in options.ways.split(","):
                    started = time.process_time()
                    accuracy = experiment.train_and_score(ranks, way, seed)
                    with options.out.open("a", newline="") as file:
                        spent = round(time.process_time() - started, 1)
                        csv.writer(file).writerow([row, way, seed, accuracy, spent])


if __name__ == "__main__":
    main()
