"""Try a user's network before the first run: train it for a few steps, and explain it by each estimator."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import choose_device
from roarbench.common.enums import MapNumerics, Unit
from roarbench.common.errors import CallerError, MachineError, RunError
from roarbench.common.process_settings import convert_exit_to_error
from roarbench.common.text import describe_error, fit_on_one_line
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.external_networks import extract_logits
from roarbench.compute.network_checks import (
    CHECKED_IMAGES,
    are_logits_equal,
    check_network_outputs,
    compute_checked_logits,
    load_state_and_check_logits,
)
from roarbench.compute.prediction import Normalisation, choose_scoring_batch_size, predict_logits
from roarbench.compute.recipe import Recipe
from roarbench.compute.retraining_checks import check_training_start
from roarbench.compute.train import fit
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.open_decoded import ImageData
from roarbench.datasets.repeated_images import describe_similar_images
from roarbench.datasets.select_images import mark_balanced_subset, mark_held_out_images
from roarbench.datasets.undecoded_splits import list_user_images
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Batch, Estimator
from roarbench.estimators.network_copies import fold_batchnorm
from roarbench.execution.network_weights import build_starting_network, build_suite_network
from roarbench.execution.run_inputs import get_device_mean
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import drop_estimators_of_user_suite, parse_suite
from roarbench.stats.chance import compute_largest_class_share, describe_chance, is_at_or_near_chance

# black in normalised photographs; with 0, a network without biases would hide that an estimator lacks a backward rule
_BLACK = -2.0
_LEARNING_RATE = 0.01  # of the trial step
SHARES = (1.0, 0.25, 0.0625)  # shares of the recipe's peak learning rate that the trials use
STEPS, IMAGES, HELD_OUT = 100, 1024, 0.25  # maximum steps and maximum images of a trial, and share of held-out images
ENOUGH = 0.9  # trials with this share of the best trial's correct predictions above chance count as nearly best
FULL_SIDES = "sides = [1.0]  # the network takes no smaller images, so each epoch trains at full size"
_PEAK = re.compile(r"^peak = \S+ *", re.MULTILINE)
_SEED = 0


class ApplicableSuite(NamedTuple):
    """A user's suite without the estimators that do not apply to its network."""

    suite: SuiteSpec
    warnings: list[str] = []  # warnings about the network, one line each


def check_network_and_drop_estimators(suite: SuiteSpec, trains_explained: bool = False) -> ApplicableSuite:
    """Return a user's suite without the estimators that do not apply to its network; a built-in suite stays unchanged.

    This function runs the code in the network's file. `trains_explained` says whether roarbench trains the explained
    network, too, because no weights are given.

    Raises:
        CallerError: The network cannot be built, cannot take the images, or returns logits of a wrong shape; its batch
            norms cannot be folded although `maps` needs that; training would leave weights random; or
            an image's logits depend on anything besides the weights and the image.
    """
    if suite.own is None:
        return ApplicableSuite(suite)
    if suite.networks:  # drop what does not apply to any of the networks
        singles = (
            replace(suite, model=network.model, own=replace(suite.own, source=network.source), networks=())
            for network in suite.networks
        )
        parts = list(map(check_network_and_drop_estimators, singles))
        reasons = {name: why for part, _ in reversed(parts) for name, why in (part.own.left_out if part.own else ())}
        lines = dict.fromkeys(line for part in parts for line in part.warnings)
        return ApplicableSuite(drop_estimators_of_user_suite(suite, reasons), list(lines))
    record = suite.dataset_record
    trains = trains_explained or any(block.protocol.trains for block in suite.blocks)
    generator = torch.Generator().manual_seed(0)
    model = build_suite_network(suite, generator).train(trains)  # in train mode, some networks return a tuple
    recipes = (suite.recipe, suite.reference_recipe) if trains else ()
    sides = {1.0, *(side for recipe in recipes for side in find_recipe(recipe).sides)}
    for side in sorted((round(record.size * share) for share in sides), reverse=True):
        _try_forward_pass(model, _draw_two_images(generator, record.channels, side, side), suite)
    images = _draw_two_images(generator, *record.shape)
    warnings = list[str]()
    if trains:
        warnings = check_training_start(
            lambda seed: build_suite_network(suite, torch.Generator().manual_seed(seed)),
            images,
            suite.model,
            loads=bool(find_recipe(suite.recipe).start),
        )
        _try_training(model, images, suite)
    with torch.no_grad():  # a scale of 0 would hide a branch of the network that estimators fail on
        for vector in (parameter for parameter in model.parameters() if parameter.ndim == 1):
            vector.add_(torch.randn(vector.shape, generator=generator).to(vector), alpha=0.1)
    model.eval()
    more = torch.randn(CHECKED_IMAGES - len(images), *record.shape, generator=generator)
    warnings += check_network_outputs(model, torch.cat([images, more]), suite.model)
    rebuilt = build_suite_network(suite, torch.Generator().manual_seed(1)).eval()
    load_state_and_check_logits(model, rebuilt, images, suite.model)
    if suite.maps is not MapNumerics.FLOAT32:
        _check_folded_copy(model, images, suite)
    explain = cache(partial(_explain_inapplicable, model=model, images=images[:1]))  # many rows have one base
    reasons = {}
    for name in dict.fromkeys(name for block in suite.own.blocks for name in block.estimators):  # all requested ones
        row = find_estimator(name)  # the base of an ensemble is tried, and no twin
        tried = find_estimator(row.id_without_last_twin) if row.form == "base" else ESTIMATORS[row.base]
        if reason := suite.explain_inapplicable(name) or explain(tried):
            reasons[name] = reason
    return ApplicableSuite(drop_estimators_of_user_suite(suite, reasons), warnings)


def _draw_two_images(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw two images with channels last, the memory format of training, which some networks cannot take."""
    return torch.randn(2, *shape, generator=generator).contiguous(memory_format=torch.channels_last)


def _try_training(model: nn.Module, images: Tensor, suite: SuiteSpec) -> None:
    try:
        with convert_exit_to_error():
            loss = nn.functional.cross_entropy(model(images.clone()), torch.zeros(len(images), dtype=torch.int64))
            loss.backward()  # type: ignore[no-untyped-call]
            with torch.no_grad():  # importing torch.optim's SGD imports torch.compile, which takes 4 s
                for weight in model.parameters():
                    if weight.grad is not None:
                        weight.sub_(weight.grad, alpha=_LEARNING_RATE)
    except Exception as error:  # the user's network may raise anything
        seen = f"{suite.model} cannot be trained ({describe_error(error)})"
        raise CallerError(f"{seen}; use protocols that train no network, such as morf") from error
    model.zero_grad()


def _check_folded_copy(model: nn.Module, images: Tensor, suite: SuiteSpec) -> None:
    """Raise CallerError if the copy that maps explain, with folded batch norms, fails or has other logits."""
    logits = compute_checked_logits(model, images.clone(), suite.model)
    try:
        with torch.no_grad():
            folded: Any = extract_logits(fold_batchnorm(model)(images.clone()))
    except Exception as error:  # the user's network may raise anything, and torch may fail to trace it
        seen = f"the batch norm of {suite.model} cannot be folded into its convolutions ({describe_error(error)})"
        raise CallerError(f'maps is "{suite.maps}", but {seen}; write maps = "float32"') from error
    if not are_logits_equal(logits, folded):
        seen = f"{suite.model} has other logits once its batch norm is folded into its convolutions"
        reason = "for example because a tensor that is read again was changed in place, as by `+=`"
        raise CallerError(f'maps is "{suite.maps}", but {seen}, {reason}; write maps = "float32"')


def _try_forward_pass(model: nn.Module, images: Tensor, suite: SuiteSpec) -> None:
    size, record, name = images.shape[-1], suite.dataset_record, suite.model
    expected = f"expected logits of shape {(len(images), record.classes)}"
    try:
        with torch.no_grad(), convert_exit_to_error():
            logits = model(images)
    except Exception as error:  # the user's network may raise anything
        seen = f"{name} cannot take images of {size} x {size} pixels ({describe_error(error)})"
        remedy = "; write sides = [1.0] under [recipe]" if size < record.size else ""
        raise CallerError(f"{seen}{remedy}") from error
    if not isinstance(logits, Tensor):
        seen = f"{name} returned a {type(logits).__name__} for two images"
        raise CallerError(f"{seen}, {expected}, or an object with such logits as its attribute .logits")
    shape = tuple(logits.shape)
    if shape != (len(images), record.classes):
        remedy = ""
        if len(shape) == 2 and shape[1] > record.classes:
            remedy = f"; write classes = {shape[1]} under [data], and label images by the network's outputs"
        raise CallerError(f"{name} returned shape {shape} for two images, {expected}{remedy}")


def _explain_inapplicable(tried: Estimator, model: nn.Module, images: Tensor) -> str:
    """Return why an estimator does not apply to a network; empty if it applies."""
    if tried.control:
        return ""
    batch = Batch(images, torch.zeros(len(images), dtype=torch.int64), torch.arange(len(images)))
    try:
        with convert_exit_to_error():
            compute_importance_maps([tried], model, batch, torch.full((images.shape[1], 1, 1), _BLACK))
    except MachineError:
        raise
    except (CallerError, RunError) as error:
        return fit_on_one_line(str(error).partition(";")[0], 160)
    except Exception as error:  # the user's network or a library may raise anything
        return f"{tried.id} cannot explain the network ({describe_error(error)})"
    return ""


class PeakTrials(NamedTuple):
    """Result of three trials of peak learning rates."""

    peak: float  # peak learning rate for the suite; the recipe's own if no trial trains the network
    trained: bool  # whether the network trained at this peak is better than chance, by the rule for explained networks
    line: str  # report for the user


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
    chance, best = compute_largest_class_share(images.train.labels[test.numpy()]), max(correct)
    # above chance, because a network that answers the largest class alone can be right nearly as often as the best
    least = best - (1 - ENOUGH) * max(0, best - chance * len(test))
    nearly_best = [number for number, count in enumerate(correct) if count >= least]
    chosen_trial = nearly_best[:2][-1]
    peak, trained = peaks[chosen_trial], not is_at_or_near_chance(best, len(test), chance)
    trials = ", ".join(f"{count / len(test):.1%} at {peak:g}" for count, peak in zip(correct, peaks, strict=True))
    counts = f"three trials of at most {STEPS} steps on {len(train)} training images; correct on {len(test)} others"
    line = f"{counts}: {trials}"
    if trained:
        if chosen_trial == nearly_best[0]:
            return PeakTrials(peak, True, f"peak = {peak:g} ({line})")
        larger = f"{peaks[nearly_best[0]]:g}"
        reason = f"not {larger}, which does about as well in short trials but may diverge in full training"
        return PeakTrials(peak, True, f"peak = {peak:g} ({line}; {reason})")
    near = f"near chance of {describe_chance(chance, images.record.classes)}"
    is_accurate = 2 * best > (1 + chance) * len(test)  # more than halfway from chance to 1
    if is_accurate or is_at_or_near_chance(len(test), len(test), chance):
        few = f"{len(test)} held-out images are too few to tell a trained network from one {near}"
        return PeakTrials(recipe.peak, False, f"{few} ({line})")
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
            images = decode_dataset(record, Path(folder), limit=limit)
            similar = describe_similar_images(
                images, lambda *place: list_user_images(record).select_subset(limit).name_image(*place)
            )
            if similar:
                say(f"warning: {similar}")
            trials = tune_peak_learning_rate(suite, images)
    except CallerError as error:
        say(f"warning: the search for a peak learning rate failed: {error}")
        return text
    say(trials.line if trials.trained else f"warning: {trials.line}")
    return _PEAK.sub(lambda line: f"peak = {trials.peak:g}".ljust(len(line[0])), text)  # comments stay in line


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
