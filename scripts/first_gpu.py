"""Test roarbench on a GPU for the first time in ten steps, each with its expected result and advice.

    make first-gpu                                # all steps, at most 40 minutes
    python scripts/first_gpu.py --out FOLDER      # the same; the report is FOLDER/report.md
    python scripts/first_gpu.py --step NAME       # print the result of one step

Each step runs in its own process with a time limit, so that a step that fails or hangs does not stop the others. The
expected results were measured on one H100 (docs/gpu.md), or come from a plan or a published source.
"""

import argparse
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
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from roarbench.cli.doctor import examine_machine
from roarbench.common.device_settings import choose_device, choose_processor_or_gpu_clock, name_device
from roarbench.common.enums import Unit
from roarbench.common.text import format_duration, format_markdown_table
from roarbench.compute.networks import build_network
from roarbench.compute.normalised_inputs import Inputs, Normalisation
from roarbench.compute.recipe import Recipe
from roarbench.compute.streamed_degraded_images import StreamedImages
from roarbench.compute.train import Training, use_fastest_exact_kernels
from roarbench.execution.rate_measurement import draw_random_degraded_images, measure_mean_seconds
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_builtin_suite

NORM = Normalisation((120.0, 115.0, 100.0), (60.0, 60.0, 60.0))
FILL = torch.tensor(NORM.mean)
DEVICE = choose_device()
GPU = DEVICE.type == "cuda"
read_clock = choose_processor_or_gpu_clock(DEVICE)


class Step(NamedTuple):
    """A test of the machine."""

    name: str
    limit: int  # seconds
    work: Callable[[], str] | tuple[str, ...]  # a function of this file, or a command of roarbench; empty for pytest
    expected: str  # expected result
    missed: str  # advice if the result is worse


class Size(NamedTuple):
    """Size of a timed training run."""

    network: str
    recipe: str
    side: int
    classes: int
    images: int
    steps: int  # maximum number of steps; only the second half is timed


TINY = Size("resnet-quick", "quick@2", 32, 10, 256, 4)  # tests the steps themselves on machines without a GPU
LARGE = Size("resnet50", "imagenet@1", 224, 1000, 20_000, 100) if GPU else TINY
WHOLE, WHOLE_SECONDS = "imagenet-100-64", 380  # suite of the complete training run, and maximum seconds
_WAIT_EVERY = 50  # optimiser steps between synchronisations with the GPU


def wait_for_gpu() -> None:
    if GPU:
        torch.cuda.synchronize()


def describe_machine_faults() -> str:
    """Examine the machine as `roarbench doctor` does, and return the lines that begin with !."""
    faults = [diagnosis for diagnosis in examine_machine(find_report_folder()) if not diagnosis.ok]
    lines = [f"! {diagnosis.subject}: {diagnosis.found} ({diagnosis.advice})" for diagnosis in faults]
    return "; ".join(lines) or "no line that begins with !"


def find_report_folder() -> Path:
    """Return the folder of the report, which is also the store of all steps."""
    return Path(os.environ.get("ROARBENCH_STORE", "."))


def time_convolution() -> str:
    """Time the forward and backward pass of a convolution in bfloat16 with channels last."""
    count, side = (256, 56) if GPU else (2, 14)
    layer = nn.Conv2d(64, 64, 3, padding=1, device=DEVICE)
    images = torch.randn(count, 64, side, side, device=DEVICE).contiguous(memory_format=torch.channels_last)
    layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images.requires_grad_()

    def run_both_passes() -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16):
            layer(images).sum().backward()

    with use_fastest_exact_kernels():
        rate = 3 * 2 * count * side**2 * 64 * 64 * 9 / measure_mean_seconds(run_both_passes, 20)
    return f"{rate / 1e12:.3g} TFLOP/s"


def time_pinned_copy() -> str:
    data = torch.ones(2**30 if GPU else 2**24, dtype=torch.uint8, pin_memory=GPU)
    seconds = measure_mean_seconds(lambda: data.to(DEVICE, non_blocking=True, copy=True), 5)
    return f"{data.nbytes / seconds / 1e9:.3g} GB/s"


def time_random_reads() -> str:
    """Time reading images of 224 pixels in random order from a file that is not in memory, as for ImageNet."""
    with map_random_pixels(224, 10_000 if GPU else 200) as (pixels, forget):
        forget()
        images = StreamedImages(pixels, None, FILL, Unit.SCALAR, torch.device("cpu"))
        index, start = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0)), time.perf_counter()
        for _ in images.read(torch.split(index, 256)):
            pass
        return f"{len(pixels) / (time.perf_counter() - start):,.0f} images/s"


def time_training_from_files() -> str:
    """Time training steps by ImageNet's recipe on random pixels, from a file in memory and from a file on disk."""
    size, rates = LARGE, []
    with map_random_pixels(size.side, size.images) as (pixels, forget):
        width = -(-3 * size.side**2 // 8)
        removed = np.random.default_rng(1).integers(256, size=(size.images, width), dtype=np.uint8)
        images = StreamedImages(pixels, removed, FILL, Unit.SCALAR, DEVICE)
        for name, before_step in (("in memory", lambda: None), ("not in memory", forget)):
            training = begin_timed_training(size, images)
            rate, done = measure_images_per_second(training, seconds_at_most=120, before_step=before_step)
            rates.append(f"{rate:,.0f} images/s {name} ({done} of {training.steps} steps)")
            print(rates[-1], file=sys.stderr, flush=True)  # keeps this result if the next measurement exceeds its time
    return ", ".join(rates)


def time_whole_training() -> str:
    """Train with a suite's image size and recipe on random images for at most `WHOLE_SECONDS`."""
    suite = find_builtin_suite(WHOLE)
    record, recipe = suite.dataset_record, suite.recipe_record
    size = Size(suite.model, suite.recipe, record.size, record.classes, record.train_images, 0) if GPU else TINY
    recipe = recipe if GPU else find_recipe(TINY.recipe)
    inputs = draw_random_degraded_images((3, size.side, size.side), size.images, DEVICE)
    training = begin_training(size, inputs, recipe)
    start = time.perf_counter()
    with use_fastest_exact_kernels():
        while not training.step or (training.step < training.steps and time.perf_counter() - start < WHOLE_SECONDS):
            training.do_optimiser_step()
            if training.step % _WAIT_EVERY == 0:
                wait_for_gpu()
        wait_for_gpu()
    seconds, share = time.perf_counter() - start, training.step / training.steps
    rate, loss = training.step * training._batches.size / seconds, training.losses[-1].item()
    whole = "" if share == 1 else f"; a whole training run would take {format_duration(seconds / share)}"
    epochs = f"{recipe.epochs * share:.1f} of {recipe.epochs:.1f} epochs"
    return f"{epochs} in {format_duration(seconds)}, {rate:,.0f} images/s, loss {loss:.2f}{whole}"


def begin_timed_training(size: Size, inputs: Inputs) -> Training:
    """Begin a training run of at most `size.steps` steps, all with full image size and without warm-up."""
    recipe = find_recipe(size.recipe)
    batch = min(recipe.batch, len(inputs))
    epochs = size.steps * batch / len(inputs)
    return begin_training(size, inputs, replace(recipe, sides=(1.0,), batch=batch, epochs=epochs, warmup=0.0))


def begin_training(size: Size, inputs: Inputs, recipe: Recipe) -> Training:
    """Begin a training run by a recipe; the labels are unrelated to the images."""
    model = build_network(size.network, size.classes, 3, size.side, torch.Generator().manual_seed(0)).to(DEVICE)
    return Training(model, inputs, torch.arange(len(inputs)) % size.classes, NORM, recipe, 0)


def measure_images_per_second(
    training: Training, seconds_at_most: float, before_step: Callable[[], None]
) -> tuple[float, int]:
    """Train until the end or the time limit; return the rate in the second half of the steps, and the steps taken."""
    seconds: list[float] = []
    with use_fastest_exact_kernels():
        while training.step < training.steps and (sum(seconds) < seconds_at_most or len(seconds) < 2):
            before_step()
            start = read_clock()
            training.do_optimiser_step()
            seconds.append(read_clock() - start)
    timed = seconds[len(seconds) // 2 :]
    return len(timed) * training._batches.size / sum(timed), len(seconds)


@contextmanager
def map_random_pixels(side: int, count: int) -> Iterator[tuple[np.ndarray, Callable[[], None]]]:
    """Write random pixels to a file, map it, and yield the array and a function that drops the file from memory."""
    with tempfile.NamedTemporaryFile(dir=find_report_folder(), prefix=".first-gpu-") as file:
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


_HEADS = ("step", "result", "expected", "if worse", "s")
CIFAR10 = ("--max-images", "10000", "--seeds", "1", "--protocol", "roar", "--estimators", "grad")
NETWORKS = ("--protocol", "own-network", "--estimators", "grad,sgsq-grad,input-x-grad,gradcam")
STEPS = (
    Step("doctor", 50, describe_machine_faults, "no line that begins with !", "do what the brackets say"),
    Step("convolution", 40, time_convolution, "81 TFLOP/s, as plans assume (H100: 115)",
        "nvidia-smi: another process, a low clock?"),
    Step("pinned copy", 40, time_pinned_copy, "20 to 55 GB/s by PCIe 4 or 5 (H100: 54.8)",
        "nvidia-smi topo: the slot, the NUMA node"),
    Step("random reads", 90, time_random_reads,
        "3,700 images/s keep an H100 busy with ResNet-50; the virtual disk of the H100's machine gave 3,356",
        "a local NVMe disk for --store; enough memory for the images, see docs/gpu.md"),
    Step("tests", 320, (), "no failure", "report the failing test with `roarbench doctor`"),
    Step("quick", 240, ("run", "--suite", "quick", "--seeds", "1", "--protocol", "roar"),
        "within a factor of two of the printed plan", "--workers 1, then 8; nvidia-smi dmon while it runs"),
    Step("cifar10", 420, ("run", "--suite", "cifar10", *CIFAR10), "within a factor of two of the printed plan",
        "the data set comes from the hub, or from --data; else as for quick"),
    Step("networks", 300, ("run", "--suite", "imagenet-networks", "--max-images", "1000", *NETWORKS),
        "within 2 minutes (plan)", "ImageNet is gated: hf auth login, or --data; pip install timm"),
    Step(WHOLE, WHOLE_SECONDS + 40, time_whole_training,
        "32 % of a training run (plan: 1180 s) in 380 s (H100: 4,348 images/s)",
        "nvidia-smi dmon while it runs: is the GPU busy? --compile"),
    Step("training", 300, time_training_from_files, "3,655 images/s in memory, 3,607 not in memory (H100, 16 steps)",
        "in memory: clocks, other processes, --compile; from disk: the disk and the node's memory"),
)  # fmt: skip


def run_step_in_process(step: Step, store: Path) -> tuple[str, float]:
    """Run a step in its own process; return its result or a description of its failure, and its seconds."""
    if callable(step.work):
        words = [sys.executable, __file__, "--step", step.name, "--out", str(store)]
    elif step.work:
        words = [str(Path(sys.executable).with_name("roarbench")), *step.work]
    else:
        words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "gpu"]
    start = time.monotonic()
    environment = os.environ | {"ROARBENCH_STORE": str(store), "ROARBENCH_DB": ""}  # the store's own database
    try:
        done = subprocess.run(words, capture_output=True, timeout=step.limit, env=environment)
    except subprocess.TimeoutExpired as error:
        code, out, err = None, error.stdout or b"", error.stderr or b""
    else:
        code, out, err = done.returncode, done.stdout, done.stderr
    seconds, (output, errors) = time.monotonic() - start, (part.decode(errors="replace") for part in (out, err))
    (store / f"{step.name}.txt").write_text(output + errors)
    return describe_step_result(step, code, output, errors), seconds


def describe_step_result(step: Step, code: int | None, output: str, errors: str) -> str:
    """Describe a step's result from its exit code (None if it was stopped), standard output and standard error."""
    planned = [f"plan: {line.strip()}" for line in errors.splitlines() if line.startswith("  time about")][:1]
    if code is None:
        return "; ".join([f"not done after {step.limit} s", *(planned or errors.strip().splitlines()[-1:])])
    last_line = (output.strip() or errors.strip() or "no output").splitlines()[-1]
    if code:
        return f"failed ({code}): {last_line}"
    return "; ".join(["done", *planned]) if planned else last_line


def write_report(results: list[tuple[Step, str, float]], path: Path) -> None:
    heading = f"# First run on {name_device(DEVICE)}\n"
    rows = [(step.name, result, step.expected, step.missed, f"{seconds:.0f}") for step, result, seconds in results]
    path.write_text(f"{heading}\n{format_markdown_table(_HEADS, rows)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    functions = {step.name: step.work for step in STEPS if callable(step.work)}
    parser.add_argument("--step", choices=functions)
    parser.add_argument("--out", type=Path, default=Path("build/gpu"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.step:
        os.environ.setdefault("ROARBENCH_STORE", str(arguments.out))
        print(functions[arguments.step]())
        return
    if not GPU:
        sys.exit("torch finds no GPU on this machine; `roarbench doctor` explains why")
    results: list[tuple[Step, str, float]] = []
    for step in STEPS:
        results.append((step, *run_step_in_process(step, arguments.out)))
        print(f"{step.name}: {results[-1][1]} (expected: {step.expected})", flush=True)
        write_report(results, arguments.out / "report.md")
    sys.exit(any(result.startswith(("failed", "not done")) for _, result, _ in results))


if __name__ == "__main__":
    main()
