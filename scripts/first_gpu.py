"""Run roarbench on a GPU for the first time in ten steps, each with its expected result and advice.

    python scripts/first_gpu.py [--out FOLDER]      # at most 40 minutes; the report is FOLDER/report.md
    python scripts/first_gpu.py --only quick,modes  # these steps alone
    python scripts/first_gpu.py --step NAME         # print the result of one measurement

Each step is a process with a time limit, so that a step that fails or hangs does not stop the others. The expected
results were measured on one H100 (docs/gpu.md), or come from plans.
"""

import argparse
import math
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from roarbench.common.device_settings import (
    choose_device,
    choose_processor_or_gpu_clock,
    name_device,
    use_exact_float32,
)
from roarbench.common.enums import Unit
from roarbench.common.errors import NoRoom
from roarbench.common.text import fit_on_one_line, format_markdown_table
from roarbench.compute.augment import augment
from roarbench.compute.degraded_images import Inputs, StreamedImages
from roarbench.compute.gpu_training import describe_compilation_failure
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import Normalisation, normalise
from roarbench.compute.recipe import Recipe
from roarbench.compute.train import Training
from roarbench.execution.rate_measurement import draw_random_degraded_images, measure_mean_seconds
from roarbench.plan.recipes import find_recipe

DEVICE = choose_device()
GPU = DEVICE.type == "cuda"  # without a GPU, tests run small versions of the measurements
NORM = Normalisation((120.0, 115.0, 100.0), (60.0, 60.0, 60.0))


class Step(NamedTuple):
    """A test of the machine."""

    name: str
    limit: int  # seconds
    # words after `roarbench`, or after `python` for pytest; or a measurement, which gets the folder of the report
    command: tuple[str, ...] | Callable[[Path], str]
    expected: str  # expected result
    advice: str  # what to do if the result is worse


def time_convolution(folder: Path) -> str:
    """Time the forward and backward pass of a convolution in bfloat16 with channels last."""
    count, side, rounds = (256, 56, 20) if GPU else (2, 14, 1)
    layer = nn.Conv2d(64, 64, 3, padding=1).to(DEVICE, memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(count, 64, side, side, device=DEVICE).contiguous(memory_format=torch.channels_last)
    images.requires_grad_()

    def run_both_passes() -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16):
            layer(images).sum().backward()

    with use_exact_float32(benchmark=True):
        seconds = measure_mean_seconds(run_both_passes, rounds)
    return f"{3 * 2 * count * side**2 * 64 * 64 * 9 / seconds / 1e12:.3g} TFLOP/s"


def time_pinned_copy(folder: Path) -> str:
    """Time the copy of pinned memory to the GPU."""
    data = torch.ones(2**30 if GPU else 2**20, dtype=torch.uint8, pin_memory=GPU)
    seconds = measure_mean_seconds(lambda: data.to(DEVICE, non_blocking=True, copy=True), 5)
    return f"{data.nbytes / seconds / 1e9:.3g} GB/s"


def time_random_reads(folder: Path) -> str:
    """Time reading images of 224 pixels in random order from a file that is not in memory, as for ImageNet."""
    with map_random_pixels(folder, 224, 10_000 if GPU else 20) as (pixels, forget):
        images = StreamedImages(pixels, None, torch.tensor(NORM.mean), Unit.SCALAR, torch.device("cpu"))
        order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))
        forget()
        start = time.perf_counter()
        for _ in images.read(torch.split(order, 256)):
            pass
        return f"{len(pixels) / (time.perf_counter() - start):,.0f} images/s"


def time_training_from_file(folder: Path) -> str:
    """Time 200 steps by ImageNet's recipe on random pixels, half from a file in memory and half from a file on disk."""
    network, title, side, count, steps = ("resnet50", "imagenet@1", 224, 20_000, 100)
    if not GPU:
        network, title, side, count, steps = ("resnet-quick", "quick@2", 32, 64, 2)
    recipe, rates = find_recipe(title), []
    batch = min(recipe.batch, count)
    recipe = replace(recipe, sides=(1.0,), batch=batch, epochs=steps * batch / count, warmup=0.0)
    with map_random_pixels(folder, side, count) as (pixels, forget):
        width = -(-3 * side**2 // 8)
        removed = np.random.default_rng(1).integers(256, size=(count, width), dtype=np.uint8)
        images = StreamedImages(pixels, removed, torch.tensor(NORM.mean), Unit.SCALAR, DEVICE)
        for where, before_step in (("in memory", lambda: None), ("not in memory", forget)):
            training = begin_training(network, 1000, images, recipe)
            rate = batch / measure_step_seconds(training, 120, before_step)
            rates.append(f"{rate:,.0f} images/s {where} ({training.step} of {training.steps} steps)")
            print(rates[-1], flush=True)  # keeps this result if the next measurement exceeds its time
    return ", ".join(rates)


MODES: tuple[tuple[str, dict[str, Any]], ...] = (  # names, and changes of a recipe with 16 passes of 256 images a step
    ("uncompiled", {}),
    ("512 images a pass", {"micro_batch": 512}),
    ("one pass a step, replayed", {"batch": 256, "micro_batch": 0}),
    ("compiled", {"compile": True}),
    ("compiled, one pass a step, replayed", {"compile": True, "batch": 256, "micro_batch": 0}),
    ("compiled, 512 images a step, replayed", {"compile": True, "batch": 512, "micro_batch": 0}),
)


def time_modes(folder: Path) -> str:
    """Time ImageNet's training of ResNet-50 in several modes, on random pixels that stay on the device."""
    network, title, side, count = ("resnet50", "imagenet@1", 224, 4096)
    if not GPU:
        network, title, side, count = ("resnet-quick", "quick@2(batch=512,micro_batch=256)", 32, 512)
    recipe, rates = replace(find_recipe(title), sides=(1.0,), warmup=0.0), dict[str, float]()
    inputs = draw_random_degraded_images((3, side, side), count, DEVICE)
    index, generator = torch.arange(256), torch.Generator().manual_seed(0)

    def load_one_pass() -> None:
        normalise(augment(inputs.batch(index), recipe.augmentation, generator), NORM)

    print(f"loading a pass {1000 * measure_mean_seconds(load_one_pass, 5):.1f} ms", flush=True)
    for name, changes in MODES:
        # all modes train on as many images, and the second half is timed; replayed steps begin in the first half
        changed = replace(recipe, **changes, epochs=6.0)
        start = time.perf_counter()
        try:
            training = begin_training(network, 1000, inputs, changed)
            training.do_optimiser_step()
            first = training.losses[-1].item() and time.perf_counter() - start
            rates[name] = changed.batch / measure_step_seconds(training, 60)
        except (RuntimeError, NoRoom) as error:
            print(f"{name} fails ({fit_on_one_line(str(error), 80)})", flush=True)
            continue
        failure = describe_compilation_failure() if changed.compile else ""
        times = rates[name] / rates.get(MODES[0][0], math.nan)
        notes = filter(None, (f"{times:.2f} x uncompiled", f"first step {first:.0f} s", failure))
        print(f"{name} {rates[name]:,.0f} images/s ({', '.join(notes)})", flush=True)
    fastest = max(rates, key=lambda name: rates[name], default="none")
    return f"fastest: {fastest}"


def begin_training(network: str, classes: int, inputs: Inputs, recipe: Recipe) -> Training:
    """Begin a training run by a recipe; the labels are unrelated to the images."""
    side = inputs.batch(torch.arange(1)).shape[-1]
    model = build_network(network, classes, 3, side, torch.Generator().manual_seed(0)).to(DEVICE)
    return Training(model, inputs, torch.arange(len(inputs)) % classes, NORM, recipe, 0)


def measure_step_seconds(
    training: Training,
    seconds_at_most: float,
    before_step: Callable[[], object] = lambda: None,
    steps_per_measurement: int = 1,
) -> float:
    """Train until the end or the time limit; return the mean seconds of a step in the second half of the steps."""
    read_clock, end = choose_processor_or_gpu_clock(DEVICE), time.perf_counter() + seconds_at_most
    seconds: list[float] = []  # per step, of each measurement
    with use_exact_float32(benchmark=True):
        while training.step < training.steps and (time.perf_counter() < end or len(seconds) < 2):
            before_step()
            start, count = read_clock(), min(steps_per_measurement, training.steps - training.step)
            for _ in range(count):
                training.do_optimiser_step()
            seconds.append((read_clock() - start) / count)
    late = seconds[len(seconds) // 2 :]
    return sum(late) / len(late)


@contextmanager
def map_random_pixels(folder: Path, side: int, count: int) -> Iterator[tuple[np.ndarray, Callable[[], None]]]:
    """Write random pixels to a file, map it, and yield the array and a function that drops the file from memory."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".first-gpu-") as file:
        generator = np.random.default_rng(0)
        for _ in range(count):
            file.write(generator.bytes(3 * side * side))
        file.flush()
        os.fsync(file.fileno())
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

        def forget() -> None:
            mapped.madvise(mmap.MADV_DONTNEED)  # else the system would keep the pages that this process has mapped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        yield np.frombuffer(mapped, np.uint8).reshape(count, 3, side, side), forget


TESTS = ("-m", "pytest", "-q", "-n", "0", "-m", "gpu")
CIFAR10 = ("--max-images", "10000", "--seeds", "1", "--protocol", "roar", "--estimators", "grad")
NETWORKS = ("--protocol", "own-network", "--estimators", "grad,sgsq-grad,input-x-grad,gradcam")
STEPS = (
    Step("doctor", 50, ("doctor",), "no line that begins with !", "do what the last column says"),
    Step("convolution", 40, time_convolution, "81 TFLOP/s, as plans assume (H100: 115)",
        "nvidia-smi: another process, a low clock?"),
    Step("pinned copy", 40, time_pinned_copy, "20 to 55 GB/s by PCIe 4 or 5 (H100: 54.8)",
        "nvidia-smi topo: the slot, the NUMA node"),
    Step("random reads", 90, time_random_reads, "3,700 images/s for an H100 with ResNet-50 (virtual disk: 3,356)",
        "a local NVMe disk for --store; enough memory for the images, see docs/gpu.md"),
    Step("tests", 320, TESTS, "no failure", "report the failing test with `roarbench doctor`"),
    Step("quick", 240, ("run", "--suite", "quick", "--seeds", "1", "--protocol", "roar"),
        "within a factor of two of the printed plan", "--workers 1, then 8; nvidia-smi dmon while it runs"),
    Step("cifar10", 420, ("run", "--suite", "cifar10", *CIFAR10), "within a factor of two of the printed plan",
        "the data set comes from the hub, or from --data; else as for quick"),
    Step("networks", 300, ("run", "--suite", "imagenet-networks", "--max-images", "1000", *NETWORKS),
        "within 2 minutes (plan)", "ImageNet is gated: hf auth login, or --data; pip install timm"),
    Step("training", 300, time_training_from_file, "3,655 images/s in memory, 3,607 not in memory (H100, 16 steps)",
        "in memory: clocks, other processes; from disk: the disk and the node's memory"),
    Step("modes", 180, time_modes, "uncompiled 3,655 images/s (H100); the others are not measured",
        "a mode that is 1.3 times as fast as uncompiled: `compile = true`, `batch` or `micro_batch` in a recipe"),
)  # fmt: skip
# beginnings of the printed lines that the report repeats
_SHOWN = ("time about", "! ", "loading a pass", *(name for name, _ in MODES))


def run_step(step: Step, store: Path) -> tuple[str, float]:
    """Run a step in its own process; return its result or a description of its failure, and its seconds."""
    if callable(step.command):
        words = [sys.executable, __file__, "--step", step.name, "--out", str(store)]
    else:
        program = sys.executable if step.command is TESTS else str(Path(sys.executable).with_name("roarbench"))
        words = [program, *step.command]
    environment = os.environ | {"ROARBENCH_STORE": str(store), "ROARBENCH_DB": ""}  # the store's own database
    environment["COLUMNS"] = "1000"  # tables are not wrapped, so that the report has whole lines
    start, path = time.monotonic(), store / f"{step.name}.txt"
    with path.open("wb") as output:  # a file keeps what was printed if this program is stopped, too
        try:
            done = subprocess.run(words, stdout=output, stderr=subprocess.STDOUT, timeout=step.limit, env=environment)
        except subprocess.TimeoutExpired:
            code = None
        else:
            code = done.returncode
    seconds, printed = time.monotonic() - start, path.read_text("utf-8", errors="replace")
    return describe_result(step, code, printed), seconds


def describe_result(step: Step, code: int | None, output: str) -> str:
    """Describe a step's result from its exit code (None if it was stopped) and what it printed."""
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()] or ["no output"]
    shown = [line for line in lines if line.startswith(_SHOWN)]
    if code is None:
        return "; ".join([f"not done after {step.limit} s", *(shown or lines[-1:])])
    if code:
        return f"failed ({code}): {lines[-1]}"
    return "; ".join(["done", *(shown or lines[-1:])])


def write_report(results: list[tuple[Step, str, float]], path: Path) -> None:
    rows = [(step.name, result, step.expected, step.advice, f"{seconds:.0f}") for step, result, seconds in results]
    table = format_markdown_table(("step", "result", "expected", "if worse", "s"), rows)
    path.write_text(f"# First run on {name_device(choose_device())}\n\n{table}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measurements = {step.name: step.command for step in STEPS if callable(step.command)}
    parser.add_argument("--step", choices=measurements)
    parser.add_argument("--only", help="names of steps, separated by commas, in the order to run them")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"))
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    if arguments.step:
        print(measurements[arguments.step](out))
        return
    if not GPU:
        sys.exit("torch finds no GPU on this machine; `roarbench doctor` explains why")
    by_name = {step.name: step for step in STEPS}
    names = arguments.only.split(",") if arguments.only else list(by_name)
    if unknown := [name for name in names if name not in by_name]:
        parser.error(f"--only names no step '{unknown[0]}'; expected some of {', '.join(by_name)}")
    results: list[tuple[Step, str, float]] = []
    for step in map(by_name.__getitem__, names):
        results.append((step, *run_step(step, out)))
        print(f"{step.name}: {results[-1][1]} (expected: {step.expected})", flush=True)
        write_report(results, out / "report.md")
    sys.exit(any(result.startswith(("failed", "not done")) for _, result, _ in results))


if __name__ == "__main__":
    main()
