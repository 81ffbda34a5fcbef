"""Try a user's network before the first run: build it, train it for one step, and explain it by each estimator."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.enums import MapNumerics
from roarbench.common.errors import CallerError, MachineError, RunError
from roarbench.common.stopping import convert_exit_to_error
from roarbench.common.text import describe_error, fit_on_one_line
from roarbench.compute.external_networks import is_view_error
from roarbench.compute.network_checks import check_network_outputs, load_state_and_check_logits
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.faster_networks import fold_batchnorm
from roarbench.estimators.map_input import Batch
from roarbench.execution.suite_networks import build_suite_network
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import CustomSuite, SuiteSpec
from roarbench.plan.suite_record import drop_estimators_of_user_suite

# black in normalised photographs; with 0, a network without biases would hide that an estimator lacks a backward rule
_BLACK = -2.0
_LEARNING_RATE = 0.01  # of the trial step


class ApplicableSuite(NamedTuple):
    """A user's suite without the estimators that do not apply to its network."""

    suite: SuiteSpec
    warnings: list[str] = []  # warnings about the network, one line each


def check_network_and_drop_estimators(suite: SuiteSpec) -> ApplicableSuite:
    """Return a user's suite without the estimators that do not apply to its network; a built-in suite stays unchanged.

    This function runs the code in the network's file.

    Raises:
        CallerError: The network cannot be built, cannot take the images, or returns logits of a wrong shape; its batch
            norms cannot be folded although `maps` needs that; or an image's logits depend on anything besides the
            weights and the image.
    """
    if suite.own is None:
        return ApplicableSuite(suite)
    if suite.networks:
        return _drop_inapplicable_to_any_network(suite, suite.own)
    record = suite.dataset_record
    generator = torch.Generator().manual_seed(0)
    model = build_suite_network(suite, generator)
    sides = {side for recipe in (suite.recipe, suite.reference_recipe) for side in find_recipe(recipe).sides}
    for side in sorted((round(record.size * share) for share in sides), reverse=True):
        _try_forward_pass(model, _draw_two_images(generator, record.channels, side, side), suite)
    images = _draw_two_images(generator, *record.shape)
    if any(block.protocol.trains for block in suite.blocks):
        _try_training(model, images, suite)
    _perturb_biases_and_norms(model, generator)
    model.eval()
    warnings = check_network_outputs(model, images, suite.model)
    rebuilt = build_suite_network(suite, torch.Generator().manual_seed(1)).eval()
    load_state_and_check_logits(model, rebuilt, images, suite.model)
    if suite.maps is not MapNumerics.FLOAT32:
        try:
            fold_batchnorm(model)(images)
        except Exception as error:  # the user's network may raise anything, and torch may fail to trace it
            seen = f"the batch norm of {suite.model} cannot be folded into its convolutions ({describe_error(error)})"
            raise CallerError(f'maps is "{suite.maps}", but {seen}; write maps = "float32"') from error
    names = dict.fromkeys(name for block in suite.own.blocks for name in block.estimators)  # every requested estimator
    reasons = {
        row.id: reason
        for row in map(find_estimator, names)
        if (reason := suite.explain_inapplicable(row.id) or _explain_inapplicable(row, model, images[:1]))
    }
    return ApplicableSuite(drop_estimators_of_user_suite(suite, reasons), warnings)


def _drop_inapplicable_to_any_network(suite: SuiteSpec, own: CustomSuite) -> ApplicableSuite:
    """Drop the estimators that do not apply to one of a suite's several networks."""
    singles = (
        replace(suite, model=network.model, own=replace(own, source=network.source), networks=())
        for network in suite.networks
    )
    parts = list(map(check_network_and_drop_estimators, singles))
    reasons = {name: why for part, _ in reversed(parts) for name, why in (part.own.left_out if part.own else ())}
    warnings = dict.fromkeys(line for part in parts for line in part.warnings)
    return ApplicableSuite(drop_estimators_of_user_suite(suite, reasons), list(warnings))


def _draw_two_images(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw two images with channels last, the memory format of training, which some networks cannot take."""
    return torch.randn(2, *shape, generator=generator).contiguous(memory_format=torch.channels_last)


def _perturb_biases_and_norms(model: nn.Module, generator: torch.Generator) -> None:
    """Add noise to biases and scales of norms, in place; a scale of 0 would hide a branch that estimators fail on."""
    with torch.no_grad():
        for vector in (parameter for parameter in model.parameters() if parameter.ndim == 1):
            vector.add_(torch.randn(vector.shape, generator=generator).to(vector), alpha=0.1)


def _try_training(model: nn.Module, images: Tensor, suite: SuiteSpec) -> None:
    try:
        with convert_exit_to_error():
            loss = nn.functional.cross_entropy(model(images.clone()), torch.zeros(len(images), dtype=torch.int64))
            loss.backward()  # type: ignore[no-untyped-call]
            torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE).step()
    except Exception as error:  # the user's network may raise anything
        seen = f"{suite.model} cannot be trained ({describe_error(error)})"
        raise CallerError(f"{seen}; use protocols that train no network, such as morf") from error
    model.zero_grad()


def _try_forward_pass(model: nn.Module, images: Tensor, suite: SuiteSpec) -> None:
    size, record, name = images.shape[-1], suite.dataset_record, suite.model
    expected = f"expected logits of shape {(len(images), record.classes)}"
    try:
        with torch.inference_mode(), convert_exit_to_error():
            logits = model(images)
    except Exception as error:  # the user's network may raise anything
        if is_view_error(error):
            seen = f"{name} calls .view on a tensor in the memory format torch.channels_last, which torch refuses"
            raise CallerError(f"{seen}; write .flatten(1) or .reshape(…) instead") from error
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


def _explain_inapplicable(estimator: Estimator, model: nn.Module, images: Tensor) -> str:
    """Return why an estimator does not apply to a network; empty if it applies. The base of an ensemble is tried."""
    if estimator.control:
        return ""
    tried = find_estimator(estimator.id_without_last_twin) if estimator.form == "base" else ESTIMATORS[estimator.base]
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
