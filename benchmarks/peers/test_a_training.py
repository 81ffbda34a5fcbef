"""Compare a training run on degraded images with a plain PyTorch loop.

The loop follows public code of ROAR and ROAD (Rong et al. 2022): a Dataset reads an image's map from disk, sorts it and
replaces the most important features; a DataLoader with workers feeds a float32 training loop. The maps are in one
memory-mapped float32 array, which is faster than a file per map, and networks use the channels-last format.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from peers.paired_timing import Figure, PairedTimer
from torch import Tensor
from torch.nn.functional import cross_entropy, interpolate, pad
from torch.utils.data import DataLoader, Dataset

from roarbench.common.enums import Order, Unit
from roarbench.compute.augment import find_largest_shift
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.map_ranking import rank_to_bit_planes
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import Normalisation
from roarbench.compute.ranking import Layout, count_removed, find_removed_bits
from roarbench.compute.recipe import Recipe, compute_image_side, compute_learning_rate
from roarbench.compute.train import fit, group_by_weight_decay
from roarbench.plan.recipes import find_recipe

IMAGES, SIDE, CLASSES, T = 1024, 64, 10, 0.9
SHAPE = (3, SIDE, SIDE)
NORM = Normalisation((120.0, 115.0, 100.0), (60.0, 60.0, 60.0))
RECIPE = find_recipe("quick@2")
WORKERS = 2
FEW = 8  # images compared after preprocessing


class RoarDataset(Dataset[tuple[Tensor, int]]):
    """Images without their most important features; each map is read and sorted when its image is requested."""

    def __init__(self, folder: Path, labels: Tensor, t: float = T) -> None:
        self._t = t
        self._pixels = np.load(folder / "pixels.npy", mmap_mode="r")
        self._maps = np.load(folder / "maps.npy", mmap_mode="r")
        self._labels = labels.tolist()
        self._fill = np.array(NORM.mean, np.float32)[:, None].repeat(SIDE * SIDE, 1).ravel()
        self._mean, self._std = (torch.tensor(part)[:, None, None] for part in NORM)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        """Return a degraded image, shifted by up to 1/16, flipped at random and normalised, and its class."""
        largest = find_largest_shift(SIDE)
        padded = pad(self.degrade(number)[None], (largest,) * 4, mode="reflect")[0]
        y, x = torch.randint(2 * largest + 1, (2,)).tolist()
        shifted = padded[:, y : y + SIDE, x : x + SIDE]
        if torch.rand(()) < 0.5:
            shifted = shifted.flip(2)
        return self.normalise(shifted), self._labels[number]

    def normalise(self, image: Tensor) -> Tensor:
        return (image - self._mean) / self._std

    def degrade(self, number: int) -> Tensor:
        """Return an image without its most important features, float32 (c, h, w); untouched at t = 0."""
        image = self._pixels[number].astype(np.float32).ravel()
        if self._t:
            removed = self.find_removed_features(number)
            image[removed] = self._fill[removed]
        return torch.from_numpy(image).view(SHAPE)

    def find_removed_features(self, number: int) -> NDArray[np.int64]:
        flat = self._maps[number].ravel()
        return np.argsort(-flat)[: count_removed(self._t, flat.size)]


def train_by_plain_loop(folder: Path, labels: Tensor, recipe: Recipe, t: float = T) -> float:
    """Train by the recipe on images degraded at level t; return the final loss."""
    torch.manual_seed(0)
    model = build_network("resnet-quick", CLASSES, 3, SIDE, torch.Generator().manual_seed(0))
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    options = {"num_workers": WORKERS, "persistent_workers": True, "shuffle": True, "drop_last": True}
    loader = DataLoader(RoarDataset(folder, labels, t), recipe.batch, **options)  # type: ignore[arg-type]
    groups = group_by_weight_decay(model, recipe.weight_decay)
    optimiser = torch.optim.SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=True)
    epochs = int(recipe.epochs)
    step, steps, loss = 0, epochs * len(loader), torch.zeros(())
    for _ in range(epochs):
        for images, classes in loader:
            for group in optimiser.param_groups:
                group["lr"] = compute_learning_rate(recipe, step, len(loader))
            if (size := compute_image_side(recipe, step, steps, SIDE)) != SIDE:
                images = interpolate(images, size=(size, size), mode="area")
            optimiser.zero_grad()
            logits = model(images.contiguous(memory_format=torch.channels_last))
            loss = cross_entropy(logits, classes, label_smoothing=recipe.smoothing)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            step += 1
    return loss.item()


def read_degraded_images(folder: Path, layout: Layout, t: float = T) -> DegradedImages:
    """Return the same images, degraded by bit-planes; untouched at t = 0."""
    planes = np.load(folder / "planes.npy", mmap_mode="r")
    removed = torch.from_numpy(find_removed_bits(planes, t, Order.MORF, layout)) if t else None
    pixels = torch.from_numpy(np.load(folder / "pixels.npy", mmap_mode="c"))
    return DegradedImages(pixels, removed, torch.tensor(NORM.mean), Unit.SCALAR)


def train_by_roarbench(folder: Path, labels: Tensor, layout: Layout, recipe: Recipe, t: float = T) -> float:
    model = build_network("resnet-quick", CLASSES, 3, SIDE, torch.Generator().manual_seed(0))
    return fit(model, read_degraded_images(folder, layout, t), labels, NORM, recipe, seed=0)


def write_images_and_maps(folder: Path) -> tuple[Tensor, Layout]:
    """Write random images, maps and the maps' rankings; return labels, int64 (n,), and the layout of the bit-planes."""
    rng, layout = np.random.default_rng(0), Layout(SHAPE, Unit.SCALAR, (0.1, 0.5, 0.9))
    maps = rng.standard_normal((IMAGES, *SHAPE), np.float32)
    np.save(folder / "pixels.npy", rng.integers(256, size=(IMAGES, *SHAPE), dtype=np.uint8))
    np.save(folder / "maps.npy", maps)
    np.save(folder / "planes.npy", rank_to_bit_planes(torch.from_numpy(maps), np.arange(IMAGES), layout).planes)
    return torch.from_numpy(rng.integers(CLASSES, size=IMAGES)), layout


def test_a_training(timer: PairedTimer, tmp_path: Path) -> None:
    labels, layout = write_images_and_maps(tmp_path)
    dataset = RoarDataset(tmp_path, labels)
    degraded = torch.stack([dataset.degrade(number) for number in range(FEW)])
    expected = read_degraded_images(tmp_path, layout).batch(torch.arange(FEW))
    torch.testing.assert_close(degraded, expected, rtol=0, atol=0)
    short = replace(RECIPE, epochs=1, warmup=0.5)
    losses = [train_by_roarbench(tmp_path, labels, layout, short), train_by_plain_loop(tmp_path, labels, short)]
    assert np.isfinite(losses).all()
    mine, plain = timer.time_in_turns(
        lambda: train_by_roarbench(tmp_path, labels, layout, RECIPE),
        lambda: train_by_plain_loop(tmp_path, labels, RECIPE),
    )
    detail = f"{mine:.1f} against {plain:.1f} core-s, {IMAGES:,} images, {RECIPE.epochs:g} epochs"
    against = f"plain PyTorch loop, DataLoader with {WORKERS} workers, maps from disk"
    timer.add_figure(Figure("a training run of quick's network", against, plain / mine, 4, detail))
