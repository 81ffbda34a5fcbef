"""Measure the speed of this process on generated images, for each kind of work and each training mode."""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from roarbench.compute.bit_planes import Layout
from roarbench.compute.degrade import DegradedImages, apply_non_mean_fill
from roarbench.compute.device_ranking import rank_to_bit_planes
from roarbench.compute.inputs import Normalisation
from roarbench.compute.prediction import choose_scoring_batch_size, predict_logits
from roarbench.compute.ranking import draw_tie_order
from roarbench.compute.recipe import Recipe
from roarbench.compute.train import Training, fit, let_cudnn_choose_kernels
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.decode_image import decode_image
from roarbench.devices import (
    COMPILING,
    choose_clock,
    choose_device,
    choose_precision,
    describe_compilation_failure,
    find_device,
    keep_freed_cpu_memory,
)
from roarbench.enums import PLAIN_FILLS, Unit
from roarbench.errors import NoRoom
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import compute_importance_maps
from roarbench.estimators.estimator import Batch
from roarbench.estimators.noise_and_random_draws import draw_normal_noise
from roarbench.execution.device_inputs import check_fill_fits
from roarbench.execution.rates import PHOTO, Rates
from roarbench.execution.workload import (
    EXPLAIN,
    TRAIN,
    Work,
    build_suite_network,
    choose_explanation_batch_size,
    compute_micro_batch_size,
    count_cost_per_image,
)
from roarbench.plan.planned_runs import list_stored_levels
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import SuiteSpec
from roarbench.store.training_speeds import COMPILED, GRAPHS, UNCOMPILED, Speeds
from roarbench.text import fit_on_one_line

_STEPS = {"cpu": 8, "cuda": 80}  # maximum timed training steps, over all image sizes
_LEAST = {"cpu": 1, "cuda": 3}  # minimum timed steps per image size: a GPU chooses kernels in the first ones
_BUDGET = {"cpu": 1e10, "cuda": 4e13}  # maximum operations per measurement: a fraction of a second
_FEW = 2  # minimum measured images
_MODES = {UNCOMPILED: "", COMPILED: "default", GRAPHS: "reduce-overhead"}  # modes of torch.compile
_LETTERS = 80  # characters shown of an error


def measure_worker_rates(suite: SuiteSpec, work: Work | None = None) -> Rates:
    """Time each kind of work in this process, on a few random images with the shape of the suite's images.

    Of training, scoring, explaining and slow fills, only those in `work` are timed; None stands for all.
    """
    record, recipe, where = suite.dataset_record, suite.recipe_record, choose_device()
    _refuse_fills(suite, work)
    keep_freed_cpu_memory()  # workers do the same
    too_large = _find_too_large_recipes(suite, work) if where.type == "cuda" else ()
    flops = count_cost_per_image(suite).flops
    batch = _count_affordable(TRAIN * flops, compute_micro_batch_size(recipe, record.train_images), where)
    explained = _count_affordable(EXPLAIN * flops, choose_explanation_batch_size(suite), where)
    n = max(batch, explained)
    inputs = draw_random_degraded_images(record.shape, n, where)
    generator, norm = torch.Generator().manual_seed(0), _find_normalisation(record)
    model = build_suite_network(suite, generator).to(where)
    labels = torch.randint(record.classes, (n,), generator=generator)
    images = inputs.batch(torch.arange(explained)) / 64 - 2
    precision = choose_precision(suite.maps.precision, where)
    grad = [find_estimator("grad")]
    some = Batch(images, labels[:explained].to(where), torch.arange(explained))
    black = torch.full((record.channels, 1, 1), -2.0, device=where)
    layout = Layout(record.shape, Unit.SCALAR, list_stored_levels(suite))
    importance = torch.rand(explained, *layout.shape, generator=generator).to(where)
    ties = draw_tie_order(some.ids.numpy(), layout.features)
    photo, scored = _make_photograph(record), choose_scoring_batch_size(record.size)
    trains, scores, explains = _find_kinds_of_work(work)
    trains = trains and suite.recipe not in [recipe for recipe, _ in too_large]
    clock, processor = time.perf_counter(), time.process_time()
    rates = Rates(
        device="one core" if where.type == "cpu" else torch.cuda.get_device_name(),
        gpus=torch.cuda.device_count(),
        basis="",
        decode=_time_second_call(lambda: decode_image(photo, record)),
        train=_time_training(replace(recipe, batch=batch), model, record, flops) if trains else 0.0,
        predict=_time_second_call(lambda: predict_logits(model, inputs, norm, min(n, scored)), scores)
        / n,  # per image, not per padded batch
        explain=_time_second_call(lambda: compute_importance_maps(grad, model.eval(), some, black, precision), explains)
        / explained,
        draw=_time_second_call(lambda: draw_normal_noise(images.cpu(), some.ids, 0, 0)) / explained,
        rank=_time_second_call(lambda: rank_to_bit_planes(importance, ties.__getitem__, layout)) / explained,
        fill=_time_fills(suite, work),
    )
    if where.type == "cuda":  # a GPU's rates are wall times, so `load` does not apply
        torch.cuda.empty_cache()  # frees the measurement's memory for jobs
        return replace(rates, lacks=tuple(filter(None, [describe_compilation_failure()])), too_large=too_large)
    return replace(rates, load=max(1.0, (time.perf_counter() - clock) / (time.process_time() - processor)))


def _refuse_fills(suite: SuiteSpec, work: Work | None) -> None:
    """Refuse fills whose filled images do not fit in memory, before maps are computed for them."""
    record = suite.dataset_record
    size = work.images if work else (record.train_images + record.test_images) * math.prod(record.shape)
    for fill in sorted({block.fill for block in suite.blocks}):
        check_fill_fits(fill, size)


def time_training_per_image(suite: SuiteSpec, recipe: Recipe) -> float:
    """Return the mean seconds per training image of the suite's network with a recipe, on generated images."""
    record, flops = suite.dataset_record, count_cost_per_image(suite).flops
    batch = _count_affordable(TRAIN * flops, compute_micro_batch_size(recipe, record.train_images), choose_device())
    model = build_suite_network(suite, torch.Generator().manual_seed(0)).to(choose_device())
    return _time_training(replace(recipe, batch=batch), model, record, flops)


def _find_normalisation(record: DatasetRecord) -> Normalisation:
    return Normalisation((128.0,) * record.channels, (64.0,) * record.channels)


def _time_training(recipe: Recipe, model: nn.Module, record: DatasetRecord, flops: int) -> float:
    """Return the mean seconds per training image; at each image size, the second half of the steps is timed.

    All sizes are in one short training on random images, which sees each size as often as a complete training does. The
    first half of the steps includes one-time work, such as preparing shared images and choosing kernels.
    """
    where, sizes, batch = find_device(model), len(recipe.sides), recipe.batch
    half = _count_timed_steps(flops, batch, sizes, where)
    steps = 2 * half * sizes
    images = max(batch, math.ceil(steps * batch / recipe.epochs))
    short, labels = replace(recipe, epochs=steps * batch / images), torch.arange(images) % record.classes
    inputs, seconds = draw_random_degraded_images(record.shape, images, where), 0.0
    training = Training(model, inputs, labels, _find_normalisation(record), short, 0)
    clock = choose_clock(where)
    with let_cudnn_choose_kernels():
        for _ in range(sizes):
            for _ in range(half):
                training.advance()
            start = clock()
            for _ in range(half):
                training.advance()
            seconds += clock() - start
    return seconds / (sizes * half * batch)


def _count_timed_steps(flops: int, batch: int, sizes: int, where: torch.device) -> int:
    """Return how many steps are timed at each image size; `flops` are the operations of one forward pass."""
    most = _STEPS[where.type]
    affordable = _count_affordable(TRAIN * flops, most * batch, where) // batch
    return max(_LEAST[where.type], min(most, affordable) // sizes)


def _find_too_large_recipes(suite: SuiteSpec, work: Work | None) -> tuple[tuple[str, str], ...]:
    """Try one step of each training; return the recipes that exceed this process's share of memory, with reasons."""
    record, too_large = suite.dataset_record, []
    recipes = [suite.reference_recipe] if not suite.given and (work is None or work.references) else []
    recipes += [suite.recipe] if work is None or work.images_retrained else []
    for name in dict.fromkeys(recipes):
        recipe = find_recipe(name)
        batch = compute_micro_batch_size(recipe, work.train if work else record.train_images)
        inputs = draw_random_degraded_images(record.shape, batch, choose_device())
        model = build_suite_network(suite, torch.Generator().manual_seed(0)).to(choose_device())
        one_step = replace(recipe, batch=batch, micro_batch=0, epochs=1.0, sides=(1.0,))
        try:
            fit(model, inputs, torch.zeros(batch, dtype=torch.int64), _find_normalisation(record), one_step, 0)
        except NoRoom as error:
            too_large.append((name, str(error)))
    return tuple(too_large)


def _find_kinds_of_work(work: Work | None) -> tuple[bool, bool, bool]:
    """Return whether there is work to train, to score and to explain."""
    if work is None:
        return True, True, True
    return work.images_trained > 0, work.images_scored > 0, work.images_explained > 0


def _count_affordable(flops: float, wanted: int, where: torch.device) -> int:
    """Return how many images a measurement may use if each takes this many operations."""
    return max(_FEW, min(wanted, int(_BUDGET[where.type] / flops)))


def _time_second_call(work: Callable[[], object], wanted: bool = True) -> float:
    """Return the seconds of the second of two calls: processor time, or on a GPU the wall time until it is done."""
    if not wanted:
        return 0.0
    work()
    clock = choose_clock(choose_device())
    start = clock()
    work()
    return clock() - start


def draw_random_degraded_images(shape: tuple[int, int, int], n: int, where: torch.device) -> DegradedImages:
    """Draw n random images of shape (c, h, w), with half of their features removed, on a device."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (n, *shape), dtype=torch.uint8, generator=generator)
    width = -(-pixels[0].numel() // 8)
    removed = torch.randint(256, (n, width), dtype=torch.uint8, generator=generator)
    fill = torch.full((shape[0],), 128.0)
    return DegradedImages(pixels.to(where), removed.to(where), fill.to(where), Unit.SCALAR)


def _time_fills(suite: SuiteSpec, work: Work | None) -> float:
    """Time fills that are computed from kept features, in seconds per image, with half removed in squares."""
    record, fills = suite.dataset_record, sorted({block.fill for block in suite.blocks} - set(PLAIN_FILLS))
    if not fills or (work is not None and not work.images_filled):
        return 0.0
    photo = torch.tensor(decode_image(_make_photograph(record), record).pixels, device=choose_device())
    images = photo.expand(_FEW, -1, -1, -1)
    squares = torch.rand(_FEW, record.channels, 8, 8, generator=torch.Generator().manual_seed(0))
    gone = F.interpolate(squares, images.shape[2:]).to(choose_device()) < 0.5
    mean, ids = torch.full((record.channels,), 128.0, device=choose_device()), torch.arange(_FEW)
    return _time_second_call(lambda: [apply_non_mean_fill(images, gone, fill, mean, ids) for fill in fills]) / (
        _FEW * len(fills)
    )


def _make_photograph(record: DatasetRecord) -> bytes:
    """Make a JPEG of smooth colours, which decodes about as fast as a photograph."""
    coarse = np.random.default_rng(0).integers(256, size=(8, 8, 3), dtype=np.uint8)
    side = PHOTO * record.size
    file = BytesIO()
    Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue()


def measure_training_speeds(suite: SuiteSpec) -> Speeds:
    """Return images per second in training the suite's network at full size on this device, by mode of compilation.

    For ResNet-50 this takes minutes, mostly because it is compiled twice.
    """
    return {name: _measure_training_speed(suite, mode) for name, mode in _MODES.items()}


def format_training_speeds(speeds: Speeds) -> str:
    """Format the measured speeds as text."""
    return ", ".join(
        f"{name} {speed:,.0f} images/s" if isinstance(speed, float) else f"{name} {speed}"
        for name, speed in speeds.items()
    )


def _measure_training_speed(suite: SuiteSpec, mode: str) -> float | str:
    with _set_compilation_mode(mode):
        try:
            rate = 1 / time_training_per_image(suite, replace(suite.recipe_record, sides=(1.0,), compile=False))
        except Exception as error:  # a compiler may raise anything, and the error is the measured result
            return f"fails ({type(error).__name__}: {fit_on_one_line(str(error), _LETTERS)})"
    return (mode and describe_compilation_failure()) or rate


@contextmanager
def _set_compilation_mode(mode: str) -> Iterator[None]:
    """Set the mode of torch's compiler for trainings of this process; an empty mode turns compilation off."""
    before = os.environ.pop(COMPILING, None)
    try:
        os.environ |= {COMPILING: mode} if mode else {}
        yield
    finally:
        os.environ.pop(COMPILING, None)
        os.environ |= {} if before is None else {COMPILING: before}
