"""One shared pass for all 18 estimators against the 18 one by one, and peak memory against the length of the loops.

Run: OMP_NUM_THREADS=1 pytest benchmarks/test_attribution.py --benchmark-only
"""

import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from roarbench.estimators import ensembles, gradients
from roarbench.estimators.base import Batch
from roarbench.estimators.catalogue import PAPER, find_estimator
from roarbench.estimators.engine import Maps, Subject, importance_maps, maps_together
from roarbench.models.build import build

ALL = [find_estimator(name) for name in PAPER]
BLACK = torch.full((3, 1, 1), -2.0)


def network() -> nn.Module:
    return build("resnet8", 10, 3, 32, torch.Generator().manual_seed(0)).eval()


def drawn(n: int) -> Batch:
    images = torch.randn(n, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return Batch(images, torch.arange(n) % 10, torch.arange(n))


def shared(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    return importance_maps(ALL, model, batch, BLACK)


def one_by_one(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    maps: dict[str, Tensor] = {}
    for estimator in ALL:
        maps |= importance_maps([estimator], model, batch, BLACK)
    return maps


@pytest.mark.parametrize("way", [shared, one_by_one])
def test_the_18(benchmark: Any, way: Callable[[nn.Module, Batch], dict[str, Tensor]]) -> None:
    """Time 1,674 forward and 1,674 backward passes one by one, 400 and 416 shared: the ratio should be near 4.1."""
    benchmark.group = "the 18 of the paper, CPU seconds per batch of 8"
    benchmark._timer = time.process_time
    maps = benchmark.pedantic(way, (network(), drawn(8)), rounds=3)
    assert set(maps) == set(PAPER)


def together(subjects: Sequence[Subject]) -> list[Maps]:
    return maps_together(subjects)


def apart(subjects: Sequence[Subject]) -> list[Maps]:
    return [importance_maps(*subject) for subject in subjects]


@pytest.mark.parametrize("way", [together, apart])
def test_three_networks(benchmark: Any, way: Callable[[Sequence[Subject]], list[Maps]]) -> None:
    """Time the estimators of `quick` on three references: together the noise of their copies is drawn once."""
    benchmark.group = "five estimators on three networks of quick, CPU seconds per batch of 64"
    benchmark._timer = time.process_time
    models = [build("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(seed)).eval() for seed in range(3)]
    images = torch.randn(64, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    batch = Batch(images, torch.arange(64) % 10, torch.arange(64))
    asked = [find_estimator(name) for name in ("grad", "sgsq-grad", "var-grad", "ig", "gb")]
    subjects = [Subject(asked, model, batch, BLACK) for model in models]
    found = benchmark.pedantic(way, (subjects,), rounds=2)
    for one, other in zip(found, (together if way is apart else apart)(subjects), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def peak_mebibytes(samples: int, steps: int) -> float:
    """Return the peak memory of this process after it explained 64 images by loops of these lengths."""
    ensembles.SAMPLES, gradients.IG_STEPS = samples, steps  # type: ignore[attr-defined]
    importance_maps([find_estimator("var-grad"), find_estimator("ig")], network(), drawn(64), BLACK)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def alone(samples: int, steps: int) -> float:
    """Return the same of a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(peak_mebibytes, samples, steps).result()


@pytest.fixture(scope="module")
def shortest() -> float:
    return alone(2, 2)


@pytest.mark.parametrize(("samples", "steps"), [(2, 2), (15, 2), (2, 25), (15, 25)])
def test_peak_memory(benchmark: Any, shortest: float, samples: int, steps: int) -> None:
    """Print peak memory (-s) and keep it in `extra_info`: it does not grow with the number of samples or steps."""
    benchmark.group = "peak memory"
    peak = benchmark.pedantic(alone, (samples, steps), rounds=1)
    benchmark.extra_info["peak MiB"] = round(peak)
    print(f"\n{samples} samples, {steps} steps: {peak:.0f} MiB")
    assert peak < shortest + 32  # one pass more at once is 64 MiB of activations; equal calls differ by 14
