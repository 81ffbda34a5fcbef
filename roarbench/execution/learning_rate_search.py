"""Search for a peak learning rate by three short training runs."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from roarbench.analysis.networks_at_chance import compute_largest_class_share, describe_chance, is_at_or_near_chance
from roarbench.common.device_settings import choose_device
from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError, RunError
from roarbench.common.text import name_item
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.normalisation import Normalisation
from roarbench.compute.prediction import choose_scoring_batch_size, predict_logits
from roarbench.compute.recipe import Recipe
from roarbench.compute.train import fit
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.open_decoded import ImageData
from roarbench.datasets.select_images import mark_balanced_subset, mark_held_out_images
from roarbench.execution.network_trials import check_network_and_drop_estimators
from roarbench.execution.run_images_and_masks import get_device_mean
from roarbench.execution.suite_networks import build_starting_network
from roarbench.plan.read_suite_file import parse_suite
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import SuiteSpec

SHARES = (1.0, 0.25, 0.0625)  # shares of the recipe's peak learning rate that the trials use
STEPS, IMAGES, HELD_OUT = 100, 1024, 0.25  # maximum steps and maximum images of a trial, and share of held-out images
ENOUGH = 0.9  # trials with this share of the best trial's correct predictions count as nearly best
FULL_SIDES = "sides = [1.0]  # the network takes no smaller images, so each epoch trains at full size"
_PEAK = re.compile(r"^peak = \S+", re.MULTILINE)
_SEED = 0


class PeakTrials(NamedTuple):
    """Result of three trials of peak learning rates."""

    peak: float  # peak learning rate for the suite; the recipe's own if no trial trains the network
    trained: bool  # whether the network trained at this peak is better than chance, by the rule for explained networks
    line: str  # report for the user
    reason: str = ""  # why this rate was chosen although a larger one is nearly as good; empty if there is none


def tune_peak_learning_rate(suite: SuiteSpec, images: ImageData) -> PeakTrials:
    """Find a peak learning rate by three short training runs: the second largest of the nearly best rates.

    If only one rate is nearly best, this rate is chosen. The largest rate is avoided because a full training run stays
    longer at its peak, so the full run may diverge even if the short run does not. All draws use one seed, so the same
    suite and images give the same peak. The trials read no test image.
    """
    recipe = find_recipe(suite.reference_recipe)
    chosen = torch.from_numpy(mark_balanced_subset(images.train.labels, IMAGES)).nonzero().flatten()
    is_held_out = torch.from_numpy(mark_held_out_images(images.train.labels[chosen.numpy()], HELD_OUT, _SEED))
    train, test = chosen[~is_held_out], chosen[is_held_out]
    peaks = [float(f"{recipe.peak * share:.2g}") for share in SHARES]
    correct = [_train_and_count_correct(suite, images, replace(recipe, peak=peak), train, test) for peak in peaks]
    nearly_best = [number for number, count in enumerate(correct) if count >= ENOUGH * max(correct)]
    chosen_trial = nearly_best[:2][-1]
    chance = compute_largest_class_share(images.train.labels[test.numpy()])
    peak, trained = peaks[chosen_trial], not is_at_or_near_chance(correct[chosen_trial], len(test), chance)
    trials = ", ".join(f"{count / len(test):.1%} at {peak:g}" for count, peak in zip(correct, peaks, strict=True))
    noun = f"{name_item(images.record.tabular)}s"
    counts = f"three trials of at most {STEPS} steps on {len(train)} training {noun}; correct on {len(test)} others"
    line = f"{counts}: {trials}"
    if trained:
        if chosen_trial == nearly_best[0]:
            return PeakTrials(peak, True, f"peak = {peak:g} ({line})")
        larger = f"{peaks[nearly_best[0]]:g}"
        reason = f"not {larger}, which does about as well in short trials but may diverge in full training"
        return PeakTrials(peak, True, f"peak = {peak:g} ({line}; {reason})", reason)
    near = f"near chance of {describe_chance(chance, images.record.classes)}"
    return PeakTrials(recipe.peak, False, f"the network stays {near} at all three peak learning rates ({line})")


def insert_tuned_learning_rate(text: str, path: Path, say: Callable[[str], object]) -> str:
    """Find a peak learning rate, and return the text of a user's suite file with this rate.

    If the network cannot take smaller images, the returned text also sets training images of full size. If the network
    cannot be tried, the text stays unchanged. The trials decode some images. `say` receives messages.
    """
    say(f"trying three peak learning rates: at most {len(SHARES) * STEPS} steps")
    try:
        text, suite = _set_full_image_size_if_needed(text, path)
        record = suite.dataset_record
        limit = min(max(IMAGES, record.classes), max(record.image_counts.values()))
        with TemporaryDirectory() as folder:
            trials = tune_peak_learning_rate(suite, decode_dataset(record, Path(folder), limit=limit))
    except CallerError as error:
        say(f"warning: the search for a peak learning rate failed: {error}")
        return text
    say(trials.line if trials.trained else f"warning: {trials.line}")
    comment = f"# {trials.reason}\n" if trials.reason else ""
    return _PEAK.sub(f"{comment}peak = {trials.peak:g}", text)


def _set_full_image_size_if_needed(text: str, path: Path) -> tuple[str, SuiteSpec]:
    """Return a suite's text and the suite; both set full-size images if the network cannot take smaller images."""
    try:
        return text, check_network_and_drop_estimators(parse_suite(text, path)).suite
    except CallerError:
        full = _PEAK.sub(rf"{FULL_SIDES}\n\g<0>", text)
        with suppress(CallerError):
            return full, check_network_and_drop_estimators(parse_suite(full, path)).suite
        raise


def _train_and_count_correct(
    suite: SuiteSpec, images: ImageData, recipe: Recipe, train: torch.Tensor, test: torch.Tensor
) -> int:
    """Train a network for a few steps on some training images, and count its correct predictions on others.

    `train` and `test` are the images' positions in the training split, int64.
    """
    record, norm, labels = images.record, Normalisation.of(images), torch.from_numpy(images.train.labels)
    model = build_starting_network(suite, recipe, _SEED)
    train_inputs, test_inputs = (
        DegradedImages(torch.from_numpy(images.train.pixels[rows.numpy()]), None, get_device_mean(images), Unit.SCALAR)
        for rows in (train, test)
    )
    epochs = min(recipe.epochs, STEPS * min(recipe.batch, len(train)) / len(train))
    short = replace(recipe, epochs=epochs, warmup=recipe.warmup * epochs / recipe.epochs)
    try:
        fit(model.to(choose_device()), train_inputs, labels[train], norm, short, _SEED)
    except RunError:  # the loss became infinite or NaN
        return 0
    predicted = predict_logits(model, test_inputs, norm, choose_scoring_batch_size(record.size)).argmax(1)
    return int((predicted == labels[test]).sum())
