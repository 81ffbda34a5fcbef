"""Measure the limits of the device, and how fast a network trains, in images per second.

On a GPU, ResNet-50 at 224 pixels is trained by the recipe imagenet@1, whose batches of 4,096 images are read in 16
parts; the small network is also trained without and with CUDA graphs. On a CPU, the network of the suite `quick` is
trained by its recipe at 64 pixels on one core. Seconds are wall time on a GPU and processor time on a CPU.

Run: OMP_NUM_THREADS=1 python benchmarks/bench_training.py
"""

import argparse
import resource
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from roarbench.common.device_settings import choose_device, name_device
from roarbench.common.enums import PAPER_LEVELS, Order, Unit
from roarbench.compute import train
from roarbench.compute.augment import augment
from roarbench.compute.bit_planes import Layout, find_removed_bits
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.networks import build_network
from roarbench.compute.normalised_inputs import Inputs, Normalisation, normalise
from roarbench.compute.streamed_degraded_images import StreamedImages
from roarbench.execution.rate_measurement import draw_random_degraded_images, measure_mean_seconds
from roarbench.plan.recipes import find_recipe

DEVICE = choose_device()
GPU = DEVICE.type == "cuda"
NETWORK, RECIPE, SIZE, CLASSES, IMAGES, STEPS = (
    ("resnet50", find_recipe("imagenet@1"), 224, 1000, 20_000, 8)
    if GPU
    else ("resnet-quick", find_recipe("quick@1"), 64, 10, 1024, 16)
)
LAYOUT = Layout((3, SIZE, SIZE), Unit.SCALAR, PAPER_LEVELS)
NORM = Normalisation((120.0, 115.0, 100.0), (60.0, 60.0, 60.0))
T = 0.5


def measure_device_limits() -> dict[str, float]:
    """Measure the device's limits: bytes read and written by a copy, and products of bfloat16 matrices."""
    data = torch.ones((4 if GPU else 1) * 2**28, dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(data)
    side = 8192 if GPU else 1024
    generator = torch.Generator().manual_seed(0)  # random matrices, because a GPU multiplies equal numbers faster
    one, other = (torch.randn(side, side, generator=generator).to(DEVICE, torch.bfloat16) for _ in range(2))
    return {
        "copy, GB/s read and written": 2 * data.nbytes / measure_mean_seconds(lambda: target.copy_(data), 10) / 1e9,
        "bf16 matrix product, TFLOP/s": 2 * side**3 / measure_mean_seconds(lambda: one @ other, 10) / 1e12,
    }


def draw_random_images() -> tuple[Tensor, np.ndarray]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((IMAGES, *LAYOUT.shape), (IMAGES, LAYOUT.planes, LAYOUT.bytes_per_plane))
    pixels, planes = (torch.randint(256, shape, dtype=torch.uint8, generator=generator) for shape in shapes)
    return pixels, planes.numpy()


def write_and_map(path: Path, array: np.ndarray) -> np.ndarray:
    """Save an array to a file, and return the memory-mapped array."""
    np.save(path, array)
    mapped: np.ndarray = np.load(path, mmap_mode="c")
    return mapped


def measure_training_rate(inputs: Inputs) -> float:
    model = build_network(NETWORK, CLASSES, 3, SIZE, torch.Generator().manual_seed(0)).to(DEVICE)
    labels, short = torch.arange(IMAGES) % CLASSES, replace(RECIPE, epochs=STEPS * RECIPE.batch / IMAGES)
    return STEPS * RECIPE.batch / measure_mean_seconds(lambda: train.fit(model, inputs, labels, NORM, short, 0))


def measure_preparation_share(inputs: Inputs, rate: float) -> dict[str, float]:
    """Measure the time to degrade a batch, and to augment and normalise it, as shares of a training step."""
    generator = torch.Generator().manual_seed(0)
    index = torch.randperm(IMAGES, generator=generator)[: RECIPE.batch]
    images, step = inputs.batch(index), RECIPE.batch / rate
    augmenting = measure_mean_seconds(lambda: normalise(augment(images, RECIPE.augmentation, generator), NORM), 20)
    return {
        "degrade, share of a step": measure_mean_seconds(lambda: inputs.batch(index), 20) / step,
        "augment and normalise, share of a step": augmenting / step,
    }


def measure_replay(steps: int = 200) -> dict[str, float]:
    """Measure the seconds of a training step of `resnet-quick` without and with CUDA graphs; the better of two each."""
    inputs, labels = draw_random_degraded_images((3, 64, 64), 1024, DEVICE), torch.arange(1024) % 10
    recipe = replace(find_recipe("quick@2"), epochs=100, sides=(1.0,))
    seconds: list[float] = []
    with train.use_fastest_exact_kernels():
        for replaying in (False, True, False, True):
            with patch.object(train, "is_replayable", return_value=replaying):
                model = build_network("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(0)).to(DEVICE)
                training = train.Training(model, inputs, labels, NORM, recipe, 0)
            for _ in range(10):  # cuDNN chooses kernels, and a graph is captured
                training.do_optimiser_step()
            seconds.append(measure_mean_seconds(training.do_optimiser_step, steps))
    without, replayed = min(seconds[::2]), min(seconds[1::2])
    return {
        "resnet-quick without CUDA graphs, s per step": without,
        "resnet-quick with CUDA graphs, s per step": replayed,
        "ratio": without / replayed,
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    measured = measure_device_limits()
    pixels, planes = draw_random_images()
    bits = torch.from_numpy(find_removed_bits(planes, T, Order.MORF, LAYOUT))
    fill = torch.tensor(NORM.mean)
    images = DegradedImages(pixels.to(DEVICE), bits.to(DEVICE), fill.to(DEVICE), Unit.SCALAR)
    measured["training from memory, images/s"] = rate = measure_training_rate(images)
    measured |= measure_preparation_share(images, rate)
    with tempfile.TemporaryDirectory() as folder:
        mapped, removed = (write_and_map(Path(folder, f"{part.shape[1]}.npy"), part.numpy()) for part in (pixels, bits))
        streamed = StreamedImages(mapped, removed, fill, Unit.SCALAR, DEVICE)
        measured["training from files, images/s"] = measure_training_rate(streamed)
    measured |= measure_replay() if GPU else {}
    peak = torch.cuda.max_memory_allocated() if GPU else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    measured["peak memory, GB"] = peak / 1e9
    print(f"{name_device(DEVICE) if GPU else 'one core'}: {NETWORK} at {SIZE} pixels, {RECIPE.batch} images per step")
    for name, value in measured.items():
        print(f"  {value:12.4g}  {name}")


if __name__ == "__main__":
    main()
