"""Measure training runs of a small network per minute with 1, 2, 4 and 8 processes on one device.

Each worker of the engine is a process that trains the network of the suite `cifar10` by its recipe, on random images.
All processes share the GPU; with NVIDIA's MPS (`nvidia-cuda-mps-control -d` beforehand) their kernels run concurrently.
On a GPU, each number of processes is measured without and with compilation (`--compile`). Speeds are also printed as
multiples of the speed of one process without compilation. On a CPU, use small values of --images and --epochs.

Run: OMP_NUM_THREADS=1 python benchmarks/bench_many.py [--images 50000] [--epochs 15] [--at-once 1 2 4 8]
"""

import argparse
import os
import time
from dataclasses import replace
from functools import lru_cache

import torch

from roarbench.common.device_settings import COMPILING, choose_device, list_gpu_ids
from roarbench.common.job_interface import Job
from roarbench.common.local_workers import LocalEngine
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.networks import build_network
from roarbench.compute.normalised_inputs import Normalisation
from roarbench.compute.train import fit
from roarbench.execution.rate_measurement import draw_random_degraded_images
from roarbench.plan.recipes import find_recipe

NORM = Normalisation((120.0, 115.0, 100.0), (60.0, 60.0, 60.0))


@lru_cache(maxsize=1)
def make_images(images: int) -> DegradedImages:
    """Draw random images with half of the features removed, once in each worker."""
    return draw_random_degraded_images((3, 32, 32), images, choose_device())


def train_once(images: int, epochs: float, seed: int, compiling: bool) -> None:
    if compiling:
        os.environ[COMPILING] = "default"
    model = build_network("resnet8", 10, 3, 32, torch.Generator().manual_seed(seed)).to(choose_device())
    recipe = replace(find_recipe("cifar10@1"), epochs=epochs, warmup=min(2, epochs / 2))
    fit(model, make_images(images), torch.arange(images) % 10, NORM, recipe, seed)


def measure_trainings_per_minute(workers: int, trainings: int, images: int, epochs: float, compiling: bool) -> float:
    """Measure training runs per minute, after a training run in each worker that warms up."""
    with LocalEngine(workers, list_gpu_ids()[:1]) as engine:
        run_trainings(engine, [(images, 1.0, 0, compiling)] * workers)
        start = time.perf_counter()
        run_trainings(engine, [(images, epochs, seed, compiling) for seed in range(trainings)])
        return 60 * trainings / (time.perf_counter() - start)


def run_trainings(engine: LocalEngine, arguments: list[tuple[int, float, int, bool]]) -> None:
    waiting, running = list(arguments), 0
    while waiting or running:
        while waiting and engine.idle:
            engine.start_job(Job(f"training {len(waiting)}", train_once, waiting.pop()))
            running += 1
        for outcome in engine.wait(1.0):
            running -= 1
            if outcome.error:
                raise outcome.error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--epochs", type=float, default=find_recipe("cifar10@1").epochs)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 2, 4, 8])
    arguments = parser.parse_args()
    name = torch.cuda.get_device_name() if list_gpu_ids() else "processor"
    print(f"{name}: resnet8 at 32 pixels, {arguments.images:,} images, {arguments.epochs:g} epochs")
    first = None
    for at_once in arguments.at_once:
        for compiling in (False, True) if list_gpu_ids() else (False,):
            rate = measure_trainings_per_minute(
                at_once, 2 * max(arguments.at_once), arguments.images, arguments.epochs, compiling
            )
            first = first or rate
            mode = ", compiled" if compiling else ""
            print(f"  {at_once} at once{mode}: {rate:.2f} trainings per minute, {rate / first:.2f} times", flush=True)


if __name__ == "__main__":
    import bench_many  # workers import this module by name, because they cannot import `__main__`

    bench_many.main()
