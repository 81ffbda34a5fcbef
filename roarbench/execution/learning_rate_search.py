"""Finds a peak learning rate that trains a network: three short trials on training images alone."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from roarbench.analysis.chance_test import is_near_chance
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.decoded import ImageData
from roarbench.datasets.subsets import choose_balanced, mark_held_out_images
from roarbench.devices import choose_device
from roarbench.enums import Unit
from roarbench.errors import CallerError, RunError
from roarbench.execution.device_inputs import get_device_mean
from roarbench.execution.network_check import drop_inapplicable_estimators
from roarbench.execution.pretrained_weights import load_start
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation
from roarbench.kernels.scoring import count_scored_at_once, predict
from roarbench.kernels.train import fit
from roarbench.models.build import build_network
from roarbench.plan.recipe import Recipe
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_file import parse_suite

SHARES = (1.0, 0.25, 0.0625)  # of the recipe's peak, one for each trial
STEPS, IMAGES, HELD_OUT = 100, 1024, 0.25  # at most, of a trial; share of these images that tests it
ENOUGH = 0.9  # of the correct answers of the best trial: a peak with as many is nearly as good
FULL_SIDES = "sides = [1.0]  # the network takes no smaller images, so each epoch trains at full size"
_PEAK = re.compile(r"^peak = \S+", re.MULTILINE)
_SEED = 0


class PeakTrials(NamedTuple):
    """Outcome of the trials."""

    peak: float  # the one to write; the recipe's own where no trial trains the network
    trained: bool  # whether that one is told from guessing, by the rule for references
    line: str


def find_peak(suite: SuiteSpec, images: ImageData) -> PeakTrials:
    """Find the second largest peak whose short training is nearly as good as the best of three, or the only one.

    A longer training stays longer at its peak, and may diverge at one that a short training survives.
    The same suite and images give the same answer: draws are those of one seed. No test image is read.

    Raises:
        CallerError: The network cannot be built, or its published weights cannot be read.
    """
    recipe = find_recipe(suite.reference_recipe)
    chosen = torch.from_numpy(choose_balanced(images.train.labels, IMAGES)).nonzero().flatten()
    test = torch.from_numpy(mark_held_out_images(images.train.labels[chosen.numpy()], HELD_OUT, _SEED))
    peaks = [float(f"{recipe.peak * share:.2g}") for share in SHARES]
    correct = [_count_correct(suite, images, replace(recipe, peak=peak), chosen, test) for peak in peaks]
    best = max(correct)
    place = [number for number, count in enumerate(correct) if count >= ENOUGH * best][:2][-1]
    total, classes = int(test.sum()), images.record.classes
    trained = not is_near_chance(correct[place], total, classes)
    each = ", ".join(f"{count / total:.1%} at {peak:g}" for count, peak in zip(correct, peaks, strict=True))
    line = f"three trials of {STEPS} steps at most on {len(chosen) - total} training images: {each} correct on {total}"
    found = f"peak = {peaks[place]:g}" if trained else "no peak tried trains the network"
    return PeakTrials(peaks[place] if trained else recipe.peak, trained, f"{found} ({line} others)")


def tune_recipe(text: str, path: Path, say: Callable[[str], object]) -> str:
    """Return the text of one's own suite with a peak that trains its network, and full sides where it takes no others.

    Some of the images are decoded. The text stays as it is where the network cannot be tried. `say` is told what is
    done and what was found.
    """
    say(f"trying three peak learning rates: {len(SHARES) * STEPS} steps at most")
    try:
        text, suite = _try_sides(text, path)
        record = suite.dataset_record
        limit = min(max(IMAGES, record.classes), max(record.images.values()))
        with TemporaryDirectory() as folder:
            found = find_peak(suite, decode_dataset(record, Path(folder), limit=limit))
    except CallerError as error:
        say(f"warning: no peak was tried: {error}")
        return text
    say(found.line if found.trained else f"warning: {found.line}")
    return _PEAK.sub(f"peak = {found.peak:g}", text)


def _try_sides(text: str, path: Path) -> tuple[str, SuiteSpec]:
    """Return the text, with full sides where the network takes no smaller images, and its suite, tried."""
    try:
        return text, drop_inapplicable_estimators(parse_suite(text, path)).suite
    except CallerError:
        full = _PEAK.sub(rf"{FULL_SIDES}\n\g<0>", text)
        with suppress(CallerError):
            return full, drop_inapplicable_estimators(parse_suite(full, path)).suite
        raise


def _count_correct(
    suite: SuiteSpec, images: ImageData, recipe: Recipe, chosen: torch.Tensor, test: torch.Tensor
) -> int:
    """Train a network for a few steps on the chosen images but those of the test, and count its correct answers."""
    record, norm, labels = images.record, Normalisation.of(images), torch.from_numpy(images.train.labels)
    generator = torch.Generator().manual_seed(_SEED)
    model = build_network(suite.model, record.classes, record.channels, record.size, generator, suite.network_source)
    if recipe.start:
        load_start(recipe.start, model, record.channels, suite.model)
    used = [chosen[~test], chosen[test]]
    train, others = (
        DegradedImages(torch.from_numpy(images.train.pixels[rows.numpy()]), None, get_device_mean(images), Unit.SCALAR)
        for rows in used
    )
    epochs = min(recipe.epochs, STEPS * min(recipe.batch, len(train)) / len(train))
    short = replace(recipe, epochs=epochs, warmup=recipe.warmup * epochs / recipe.epochs)
    try:
        fit(model.to(choose_device()), train, labels[used[0]], norm, short, _SEED)
    except RunError:  # the loss is not finite
        return 0
    answers = predict(model, others, norm, count_scored_at_once(record.size)).argmax(1)
    return int((answers == labels[used[1]]).sum())
