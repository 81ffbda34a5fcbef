"""Small networks, many at once: trainings per minute with 1, 2, 4, 8 processes on one device.

Each worker of the engine is a process of its own that trains the network of the suite `cifar10` by its recipe, on
made-up images. On a GPU the processes share it; with NVIDIA's MPS (`nvidia-cuda-mps-control -d` beforehand) their
kernels run side by side. There each number is taken with networks as they are, and compiled, as `--compile` has it; all
are given as times one process that does not compile. On a processor --images and --epochs make it small.

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
    """Make random images, half of the features removed, once in each worker."""
    return draw_random_degraded_images((3, 32, 32), images, choose_device())


def train_once(images: int, epochs: float, seed: int, compiling: bool) -> None:
    if compiling:
        os.environ[COMPILING] = "default"
    model = build_network("resnet8", 10, 3, 32, torch.Generator().manual_seed(seed)).to(choose_device())
    recipe = replace(find_recipe("cifar10@1"), epochs=epochs, warmup=min(2, epochs / 2))
    fit(model, make_images(images), torch.arange(images) % 10, NORM, recipe, seed)


def measure_trainings_per_minute(at_once: int, trainings: int, images: int, epochs: float, compiling: bool) -> float:
    """Measure the trainings in a minute, when each worker has done one that warms up."""
    with LocalEngine(at_once, list_gpu_ids()[:1]) as engine:
        run_trainings(engine, [(images, 1.0, 0, compiling)] * at_once)
        start = time.perf_counter()
        run_trainings(engine, [(images, epochs, seed, compiling) for seed in range(trainings)])
        return 60 * trainings / (time.perf_counter() - start)


def run_trainings(engine: LocalEngine, todo: list[tuple[int, float, int, bool]]) -> None:
    left, running = list(todo), 0
    while left or running:
        while left and engine.idle:
            engine.start_job(Job(f"training {len(left)}", train_once, left.pop()))
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
            how = ", compiled" if compiling else ""
            print(f"  {at_once} at once{how}: {rate:.2f} trainings per minute, {rate / first:.2f} times", flush=True)


if __name__ == "__main__":
    import bench_many  # workers unpickle jobs by module name, and the running program is `__main__`

    bench_many.main()
