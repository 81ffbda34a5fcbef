"""Measure how fast the shared pass computes maps, as pairs of a forward and a backward pass per second.

On a GPU, the network is ResNet-50 at 224 pixels, with as many images at once as fit. On a CPU, it is the network of the
suite `cifar10`, with 64 images at once on one core. Seconds are wall time on a GPU and processor time on a CPU. Compare
the rates with the limits of the device, which `bench_training.py` measures.

Run: OMP_NUM_THREADS=1 python benchmarks/bench_attribution.py
"""

import argparse
from functools import partial

import torch

from roarbench.common.device_settings import choose_device, count_available_gpu_bytes, name_device
from roarbench.common.enums import PAPER_LEVELS, Unit
from roarbench.compute.bit_planes import Layout
from roarbench.compute.device_ranking import rank_to_bit_planes
from roarbench.compute.networks import build_network, count_network_cost
from roarbench.compute.ranking import draw_tie_order
from roarbench.estimators.catalogue import PAPER_IDS, count_passes, find_estimator
from roarbench.estimators.compute_maps import IMAGES_PER_PASS, compute_importance_maps, count_fitting_images
from roarbench.estimators.estimator import NOISE, SEED
from roarbench.estimators.map_input import Batch
from roarbench.estimators.random_draws import make_noisy_copies
from roarbench.execution.rate_measurement import measure_mean_seconds

DEVICE = choose_device()
GPU = DEVICE.type == "cuda"
NETWORK, CLASSES, SIZE = ("resnet50", 1000, 224) if GPU else ("resnet8", 10, 32)
SHAPE = (3, SIZE, SIZE)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    cost = count_network_cost(NETWORK, CLASSES, 3, SIZE)
    n = (
        count_fitting_images(count_available_gpu_bytes(), cost.activations, SHAPE, len(PAPER_IDS))
        if GPU
        else IMAGES_PER_PASS
    )
    model = build_network(NETWORK, CLASSES, 3, SIZE, torch.Generator().manual_seed(0)).eval().to(DEVICE)
    images = torch.randn(n, *SHAPE, generator=torch.Generator().manual_seed(0))
    batch = Batch(images, torch.arange(n) % CLASSES, torch.arange(n)).to(DEVICE)
    black = torch.full((3, 1, 1), -2.0)
    print(f"{name_device(DEVICE) if GPU else 'one core'}: {NETWORK} at {SIZE} pixels, {n} images at once, float32")
    for name, ids in (("gradient", ["grad"]), ("gradient and guided backprop", ["grad", "gb"]), ("the 18", PAPER_IDS)):
        estimators = [find_estimator(id_) for id_ in ids]
        seconds = measure_mean_seconds(partial(compute_importance_maps, estimators, model, batch, black))
        rate = n * count_passes(estimators).forward / seconds
        flops = rate * 2 * cost.flops  # a pair costs two forward passes
        print(f"  {name}: {rate:,.0f} pairs/s, {flops / 1e12:.3g} TFLOP/s, {n / seconds:,.3g} images/s")
    noise = measure_mean_seconds(lambda: make_noisy_copies(batch.images, batch.ids, 0, SEED, NOISE)) / n
    layout = Layout(SHAPE, Unit.SCALAR, PAPER_LEVELS)
    maps, ties = torch.rand(8, *SHAPE), draw_tie_order(torch.arange(8).numpy(), layout.features)
    rank = measure_mean_seconds(partial(rank_to_bit_planes, maps.to(DEVICE), ties.__getitem__, layout)) / 8
    print(f"  per image: {1e3 * noise:.2f} ms for a noisy copy, {1e3 * rank:.2f} ms for a ranking")
    if GPU:
        print(f"  peak memory: {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")


if __name__ == "__main__":
    main()
