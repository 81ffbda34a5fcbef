"""Compare the paper's 18 maps with captum, one estimator after the other, and with the necessary passes alone."""

import resource
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from multiprocessing import get_context
from multiprocessing.connection import Connection
from operator import itemgetter
from time import process_time
from typing import Any

import pytest
import torch
from captum.attr import GuidedBackprop, IntegratedGradients, NoiseTunnel, Saliency
from peers.paired_timing import Figure, PairedTimer, measure_core_seconds
from torch import Tensor, nn

from roarbench.common.device_settings import can_use_bf16
from roarbench.common.enums import Precision
from roarbench.compute.networks import build_network, count_network_cost
from roarbench.estimators.catalogue import PAPER_IDS, count_passes, find_estimator
from roarbench.estimators.compute_maps import (
    IMAGES_PER_PASS,
    MapTask,
    compute_importance_maps,
    compute_maps_of_tasks,
)
from roarbench.estimators.estimator import IG_STEPS, SAMPLES, SEED, Batch, Estimator
from roarbench.estimators.image_gradient import StridedConvolution, speed_up_image_gradient
from roarbench.estimators.network_copies import SplitStem, fold_batchnorm, split_after_first_convolution
from roarbench.estimators.random_draws import draw_normal_noise
from tests.helpers.networks import CountingPasses

ALL = [find_estimator(name) for name in PAPER_IDS]
BLACK = torch.full((3, 1, 1), -2.0)
BY_CAPTUM = 8  # images for captum
TUNNELS = {
    "smooth": "smoothgrad",
    "smooth-squared": "smoothgrad",
    "smoothed-square": "smoothgrad_sq",
    "variance": "vargrad",
}
SQUARED = {"squared", "smooth-squared"}
LARGE = 224  # pixels per side
LARGE_NETWORK = ("torchvision:mobilenet_v2", 1000, 3, LARGE)  # name, classes, channels and side of its images
AT_ONCE = (1, 4, 8)  # images per batch
COPIES = (1, 5, 15)  # noisy copies per batch


def build_small_network() -> nn.Module:
    return build_network("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(0)).eval()


def build_short_network() -> nn.Module:
    """Build the same network as for the maps `float32-stem` and `bf16-stem`: split, and with fast image gradients."""
    short = speed_up_image_gradient(split_after_first_convolution(fold_batchnorm(build_small_network())))
    assert isinstance(short, SplitStem)
    return short


def make_batch(n: int, side: int = 64) -> Batch:
    images = torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(0))
    return Batch(images, torch.arange(n) % 10, torch.arange(n))


def compute_captum_map(row: Estimator, model: nn.Module, batch: Batch, at_once: int, copies: int) -> Tensor:
    """Compute maps as in captum's tutorials: an attribution, in a NoiseTunnel if it averages over noisy copies.

    `at_once` images and `copies` noisy copies are computed at once. All images have the same standard deviation of the
    noise, because captum allows no other.
    """
    kinds: dict[str, Callable[[nn.Module], Any]] = {"grad": Saliency, "gb": GuidedBackprop, "ig": IntegratedGradients}
    attribution, parts = kinds[row.base](model), []
    options: dict[str, Any] = {"abs": False} if row.base == "grad" else {}
    if row.base == "ig":
        options = {
            "baselines": -2.0,
            "method": "riemann_right",
            "n_steps": IG_STEPS,
            "internal_batch_size": IMAGES_PER_PASS,
        }
    if row.form in TUNNELS:
        attribution = NoiseTunnel(attribution)
        options |= {"nt_samples": SAMPLES, "nt_samples_batch_size": copies}
        options |= {"stdevs": 1.0, "nt_type": TUNNELS[row.form]}
    for start in range(0, len(batch.ids), at_once):
        images, targets = batch.images[start : start + at_once], batch.targets[start : start + at_once]
        parts.append(attribution.attribute(images, target=targets, **options).detach())
    maps = torch.cat(parts)
    return maps**2 if row.form in SQUARED else maps


def make_captum_call(rows: Sequence[Estimator], model: nn.Module) -> Callable[[], object]:
    """Return a function that computes these maps for a few images, each with its fastest batch size."""
    batch = make_batch(BY_CAPTUM)

    def measure_map(row: Estimator, size: tuple[int, int]) -> float:
        compute_captum_map(row, model, batch, *size)
        return measure_core_seconds(lambda: compute_captum_map(row, model, batch, *size))

    best: dict[tuple[str, bool], tuple[int, int]] = {}  # fastest images and copies at once, by base and whether noisy
    for row in rows:
        noisy = row.form in TUNNELS
        if (row.base, noisy) not in best:
            sizes = product(AT_ONCE, COPIES if noisy and row.base != "ig" else (1,))
            best[row.base, noisy] = min(sizes, key=partial(measure_map, row))
    return lambda: [compute_captum_map(row, model, batch, *best[row.base, row.form in TUNNELS]) for row in rows]


def run_bare_passes(model: nn.Module, images: Tensor, targets: Tensor, forward: int, backward: int) -> None:
    """Run these numbers of passes: gradients of the targets' logits for a batch in channels-last format."""
    images = images.contiguous(memory_format=torch.channels_last)
    for number in range(forward):
        inputs = images.detach().requires_grad_()
        total = model(inputs).gather(1, targets[:, None]).sum()
        twice = number < backward - forward
        torch.autograd.grad(total, inputs, retain_graph=twice)
        if twice:
            torch.autograd.grad(total, inputs)


def measure_largest_distance_to_captum(model: nn.Module, short: nn.Module, batch: Batch) -> float:
    """Return the largest difference between captum's and our maps without noise, divided by the map's largest value."""
    plain = [estimator for estimator in ALL if estimator.form not in TUNNELS]
    distances = []
    for name, mine in compute_importance_maps(plain, short, batch, BLACK).items():
        theirs = compute_captum_map(find_estimator(name), model, batch, BY_CAPTUM, 1)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        distances.append((mine - theirs).abs().max() / theirs.abs().max())
    return torch.stack(distances).max().item()  # NaN if any distance is NaN


def test_the_18_maps(timer: PairedTimer) -> None:
    model, short, ours = build_small_network(), build_short_network(), make_batch(IMAGES_PER_PASS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum warns at each guided backprop
        for network in (model, short):
            distance = measure_largest_distance_to_captum(model, network, make_batch(2))
            assert distance <= 1e-5  # rounding of float32 sums over 25 points
        one_by_one = make_captum_call(ALL, model)
        mine, theirs = timer.time_in_turns(
            lambda: compute_importance_maps(ALL, short, ours, BLACK), one_by_one, rounds=1
        )
    add_figure_of_maps(timer, "18 maps, float32, folded, stem once", mine, theirs, 6)
    others = [("18 maps, float32, unchanged network", model, Precision.FLOAT32, 1)]
    if can_use_bf16(Precision.BF16, torch.device("cpu")):
        others += [("18 maps, bfloat16, folded", fold_batchnorm(model), Precision.BF16, 1)]
        others += [("18 maps, bfloat16, folded, stem once", short, Precision.BF16, 8)]
    for name, network, precision, bar in others:
        add_figure_of_maps(timer, name, time_all_maps(network, ours, precision), theirs, bar)


def time_all_maps(model: nn.Module, batch: Batch, precision: Precision) -> float:
    compute_importance_maps(ALL[:1], model, batch, BLACK, precision)
    return measure_core_seconds(lambda: compute_importance_maps(ALL, model, batch, BLACK, precision))


def add_figure_of_maps(timer: PairedTimer, name: str, mine: float, captum: float, bar: float) -> None:
    """Add a row to the table; `mine` are core-seconds for `IMAGES_PER_PASS` images, `captum` for `BY_CAPTUM` images."""
    ours, theirs = mine / IMAGES_PER_PASS, captum / BY_CAPTUM
    detail = f"{1000 * ours:.0f} against {1000 * theirs:.0f} core-ms per image"
    timer.add_figure(Figure(name, "captum in float32, one by one at its best batch", theirs / ours, bar, detail))


def test_the_floor_of_the_18_maps(timer: PairedTimer) -> None:
    """Our maps, apart from drawing noise, take at most 1.15 times as long as the necessary passes alone."""
    model, batch, count = build_small_network(), make_batch(IMAGES_PER_PASS), count_passes(ALL)
    counting = CountingPasses(model).eval()
    compute_importance_maps(ALL, counting, make_batch(2), BLACK)
    assert (counting.forwards, counting.backwards) == (2 * count.forward, 2 * count.backward)
    mine, passed = timer.time_in_turns(
        lambda: compute_importance_maps(ALL, model, batch, BLACK),
        lambda: run_bare_passes(model, batch.images, batch.targets, *count),
        rounds=1,
    )
    noise = measure_core_seconds(lambda: [draw_normal_noise(batch.images, batch.ids, j, SEED) for j in range(SAMPLES)])
    detail = f"{mine:.1f} core-s of which {noise:.1f} draw noise, against {passed:.1f}, for {IMAGES_PER_PASS} images"
    name = f"18 maps without noise, {(mine - noise) / passed:.2f} times"
    against = f"{count.forward} forward and {count.backward} backward passes alone"
    timer.add_figure(Figure(name, against, passed / (mine - noise), 1 / 1.15, detail))


@pytest.mark.parametrize(("precision", "tolerance"), [(Precision.FLOAT32, 1e-6), (Precision.BF16, 1e-3)])
def test_maps_of_the_papers_claim(timer: PairedTimer, precision: Precision, tolerance: float) -> None:
    """Compare the maps that `make run` needs of training images, of three networks, with torch's image gradient."""
    if not can_use_bf16(precision, torch.device("cpu")) and precision is Precision.BF16:
        pytest.skip("the processor has no bfloat16")
    plain, fast = fold_batchnorm(build_small_network()), speed_up_image_gradient(fold_batchnorm(build_small_network()))
    rows, batch = [find_estimator(name) for name in ("grad", "sgsq-grad", "var-grad")], make_batch(IMAGES_PER_PASS)

    def compute(model: nn.Module, batch: Batch = batch) -> list[dict[str, Tensor]]:
        return compute_maps_of_tasks([MapTask(rows, model, batch, BLACK)] * 3, precision)

    assert any(isinstance(module, StridedConvolution) for module in fast.modules())
    few = make_batch(2)
    for found, expected in zip(compute(fast, few), compute(plain, few), strict=True):
        for row in rows:
            largest = expected[row.id].abs().max().item()
            torch.testing.assert_close(found[row.id], expected[row.id], rtol=0, atol=tolerance * largest)
    mine, torchs = timer.time_in_turns(lambda: compute(fast), lambda: compute(plain), rounds=3)
    images = 3 * IMAGES_PER_PASS
    detail = f"{1000 * mine / images:.1f} against {1000 * torchs / images:.1f} core-ms per image and network"
    name = f"gradient, SmoothGrad-Squared, VarGrad, {precision}, folded"
    timer.add_figure(Figure(name, "the same with torch's gradient of images", torchs / mine, 1.1, detail))


def compute_ig_by_roarbench(model: nn.Module, batch: Batch, at_once: int) -> list[Tensor]:
    ig, starts = [find_estimator("ig")], range(0, len(batch.ids), at_once)
    return [compute_importance_maps(ig, model, batch.select_rows(slice(s, s + at_once)), BLACK)["ig"] for s in starts]


def compute_ig_by_captum(model: nn.Module, batch: Batch, at_once: int) -> list[Tensor]:
    return [compute_captum_map(find_estimator("ig"), model, batch, 1, at_once)]


def send_measurements(connection: Connection, make: Callable[..., list[Tensor]], n: int, at_once: int) -> None:
    """Send core-seconds per image, peak memory of this process in GB, and the first map."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model = build_network(*LARGE_NETWORK, torch.Generator().manual_seed(0)).eval().requires_grad_(False)
    make(model, make_batch(1, LARGE), at_once)
    start = process_time()
    maps = make(model, make_batch(n, LARGE), at_once)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    connection.send(((process_time() - start) / n, peak, maps[0][:1].numpy()))


def measure_in_own_process(make: Callable[..., list[Tensor]], n: int, at_once: int) -> tuple[float, float, Any]:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=send_measurements, args=(there, make, n, at_once))
    process.start()
    measured: tuple[float, float, Any] = here.recv()
    process.join()
    return measured


def test_integrated_gradients_at_224_pixels(timer: PairedTimer) -> None:
    """Captum uses its best number of points at once; each tool runs in its own process, so memory is not shared."""
    # same rule as `choose_cpu_explanation_batch_size`
    at_once = 2**30 // (4 * count_network_cost(*LARGE_NETWORK).activations)
    measured: list[tuple[float, float, Any]] = []
    timer.time_in_turns(
        lambda: measured.append(measure_in_own_process(compute_ig_by_roarbench, at_once, at_once)),
        lambda: measured.append(
            min(
                (measure_in_own_process(compute_ig_by_captum, 2, points) for points in (5, IG_STEPS)), key=itemgetter(0)
            )
        ),
        rounds=1,
    )
    theirs, mine = measured
    assert abs(mine[2] - theirs[2]).max() <= 0.01 * abs(theirs[2]).max()  # rounding, and ReLU6 near its kinks
    detail = f"{mine[0]:.2f} against {theirs[0]:.2f} core-s per image; {mine[1]:.2f} against {theirs[1]:.2f} GB"
    timer.add_figure(
        Figure("integrated gradients at 224 pixels", "captum at its best batch", theirs[0] / mine[0], 1, detail)
    )
