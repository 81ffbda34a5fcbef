"""Whether the network of a suite from somebody's file can be built, trained and explained: in seconds, on noise."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.enums import Making
from roarbench.errors import CallerError, MachineError, RunError
from roarbench.estimators.affine_stem import fold_batchnorm
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator
from roarbench.estimators.engine import compute_importance_maps
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.inputs import Batch
from roarbench.models.build import build_network
from roarbench.models.checks import check_network, check_rebuilt
from roarbench.plan.custom_suite import drop_estimators
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import CustomSuite, SuiteSpec
from roarbench.text import fit_on_one_line
from roarbench.workers.stopping import forbid_exit

_BLACK = -2.0  # as in normalised photographs; at 0, a network without biases hides steps without a rule
_RATE = 0.01  # of the step of training that is tried


class Fitted(NamedTuple):
    """One's own suite without the estimators that do not apply to its network."""

    suite: SuiteSpec
    warnings: list[str] = []  # of its network, one line each


def drop_inapplicable_estimators(suite: SuiteSpec) -> Fitted:
    """Return one's own suite without the estimators that do not apply to its network; others as they are.

    The network is built, and its file executed.

    Raises:
        CallerError: It cannot be built, takes other images, gives other logits, or cannot be folded for its maps; its
            weights and one image do not fix its logits.
    """
    if suite.own is None:
        return Fitted(suite)
    if suite.networks:
        return _drop_for_all_networks(suite, suite.own)
    record = suite.dataset_record
    generator = torch.Generator().manual_seed(0)
    model = _built(suite, generator)
    sides = {side for recipe in (suite.recipe, suite.reference_recipe) for side in find_recipe(recipe).sides}
    for side in sorted((round(record.size * share) for share in sides), reverse=True):
        _try(model, torch.randn(2, record.channels, side, side, generator=generator), suite)
    images = torch.randn(2, *record.shape, generator=generator)
    if any(block.protocol.trains for block in suite.blocks):
        _try_training(model, images, suite)
    _move_from_start(model, generator)
    model.eval()
    warnings = check_network(model, images, suite.model)
    check_rebuilt(model, _built(suite, torch.Generator().manual_seed(1)).eval(), images, suite.model)
    if suite.maps is not Making.FLOAT32:
        _fold(model, images, suite)
    names = dict.fromkeys(name for block in suite.own.blocks for name in block.estimators)  # all that were asked for
    reasons = {row.id: suite.why_not(row.id) or _why_not(row, model, images[:1]) for row in map(find_estimator, names)}
    return Fitted(drop_estimators(suite, {name: why for name, why in reasons.items() if why}), warnings)


def _drop_for_all_networks(suite: SuiteSpec, own: CustomSuite) -> Fitted:
    """Return a suite of several networks without the estimators that do not apply to one of them."""
    alone = [
        replace(suite, model=each.model, own=replace(own, source=each.source), networks=()) for each in suite.networks
    ]
    found = [drop_inapplicable_estimators(each) for each in alone]
    reasons = {name: why for one, _ in reversed(found) for name, why in (one.own.left_out if one.own else ())}
    return Fitted(
        drop_estimators(suite, reasons), list(dict.fromkeys(line for each in found for line in each.warnings))
    )


def _built(suite: SuiteSpec, generator: torch.Generator) -> nn.Module:
    record = suite.dataset_record
    return build_network(suite.model, record.classes, record.channels, record.size, generator, suite.network_source)


def _move_from_start(model: nn.Module, generator: torch.Generator) -> None:
    """Add normal noise of standard deviation 0.1 to biases and the scales of norms, in place.

    Trained networks have no branch that is multiplied by 0, which would hide a step without a rule.
    """
    with torch.no_grad():
        for vector in (parameter for parameter in model.parameters() if parameter.ndim == 1):
            vector.add_(torch.randn(vector.shape, generator=generator).to(vector), alpha=0.1)


def _try_training(model: nn.Module, images: Tensor, suite: SuiteSpec) -> None:
    """Do a step of training; CallerError where the network does not let it."""
    try:
        with forbid_exit():
            loss = nn.functional.cross_entropy(model(images.clone()), torch.zeros(len(images), dtype=torch.int64))
            loss.backward()  # type: ignore[no-untyped-call]
            torch.optim.SGD(model.parameters(), lr=_RATE).step()
    except Exception as error:  # of whoever wrote it
        seen = fit_on_one_line(f"{type(error).__name__}: {error}", 160)
        raise CallerError(
            f"{suite.model} cannot be trained ({seen}); ask protocols that train nothing, such as morf"
        ) from error
    model.zero_grad()


def _try(model: nn.Module, images: Tensor, suite: SuiteSpec) -> None:
    size, record = images.shape[-1], suite.dataset_record
    small = "; write sides = [1.0] under [recipe]" if size < record.size else ""
    wanted = (len(images), record.classes)
    try:
        with torch.inference_mode(), forbid_exit():
            logits = model(images)
    except Exception as error:  # of whoever wrote it
        seen = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise CallerError(f"{suite.model} cannot take images of {size} x {size} pixels ({seen}){small}") from error
    if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
        if not isinstance(logits, Tensor):
            seen = f"{suite.model} returned a {type(logits).__name__} for two images"
            raise CallerError(f"{seen}, expected logits of shape {wanted}, or an object that has them as .logits")
        seen, more = f"shape {tuple(logits.shape)}", logits.ndim == 2 and logits.shape[1] > record.classes
        remedy = f"; write classes = {logits.shape[1]} under [data], and label images by its outputs" if more else ""
        raise CallerError(f"{suite.model} returned {seen} for two images, expected logits of shape {wanted}{remedy}")


def _fold(model: nn.Module, images: Tensor, suite: SuiteSpec) -> None:
    try:
        fold_batchnorm(model)(images)
    except Exception as error:  # of whoever wrote it, or of torch that cannot trace it
        seen = fit_on_one_line(f"{type(error).__name__}: {error}", 120)
        remedy = 'write maps = "float32"'
        raise CallerError(f'maps is "{suite.maps}", and {suite.model} cannot be folded ({seen}); {remedy}') from error


def _why_not(estimator: Estimator, model: nn.Module, images: Tensor) -> str:
    """Return why an estimator does not apply to a network; empty if it does. Of ensembles the base is tried, once."""
    if estimator.control:
        return ""
    tried = find_estimator(estimator.parent) if estimator.form == "base" else ESTIMATORS[estimator.base]
    batch = Batch(images, torch.zeros(len(images), dtype=torch.int64), torch.arange(len(images)))
    try:
        with forbid_exit():
            compute_importance_maps([tried], model, batch, torch.full((images.shape[1], 1, 1), _BLACK))
    except MachineError:
        raise
    except (CallerError, RunError) as error:
        return fit_on_one_line(str(error).partition(";")[0], 160)
    except Exception as error:  # of whoever wrote the network, or of a library that it does not suit
        return fit_on_one_line(f"{tried.id} cannot explain the network ({type(error).__name__}: {error})", 160)
    return ""
