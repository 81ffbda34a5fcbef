"""Check what a retrained network starts from: values that are drawn anew, and trained, in every run."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from roarbench.common.errors import CallerError
from roarbench.common.process_settings import convert_exit_to_error
from roarbench.common.text import describe_error, list_some
from roarbench.compute.external_networks import TWO_CLASSES, extract_logits

# base class of all batch norms, and of instance norms, which may have running statistics, too
NORMS_WITH_STATISTICS = nn.modules.batchnorm._NormBase
_SEEDS = (0, 0, 1)


def check_training_start(
    build: Callable[[int], nn.Module], images: Tensor, name: str, loads: bool = False
) -> list[str]:
    """Build a network thrice and train one for a step; raise CallerError if a weight stays random in every run.

    A frozen weight (`requires_grad=False`), and a weight whose gradient the network's forward cuts off, keep their
    initial value. If this value is random, the retrained network has layers that learn nothing. The same seed must
    give the same weights, and batch norms must normalise by the batch and collect running statistics in training.

    Args:
        build: Builds the network with the weights of a seed.
        images: Two or more normalised images, float (n, c, h, w).
        name: Name of the network in messages.
        loads: Whether each run loads published weights into the network, so that no weight is random.

    Returns:
        One line each about weights that are the same in every run, for example because the network's code loads them.
    """
    first, again, other = map(build, _SEEDS)
    weights, repeated, others = (
        {key: weight.detach().clone() for key, weight in network.named_parameters()}
        for network in (first, again, other)
    )
    if unequal := [key for key in weights if not torch.equal(weights[key], repeated[key])]:
        seen = f"{name} has other weights when built again with the same seed ({list_some(unequal)})"
        raise CallerError(f"{seen}; draw them by torch, without a generator or seed of your own")
    random = {key for key in weights if not torch.equal(weights[key], others[key])} if not loads else set[str]()
    frozen = {key for key, weight in first.named_parameters() if not weight.requires_grad}
    if stuck := [key for key in weights if key in frozen & random]:
        seen = f"{name} has frozen weights that are drawn at random ({list_some(stuck)})"
        raise CallerError(f"{seen}, so retraining would leave them random; remove requires_grad=False, or load them")
    untrained = _find_weights_without_gradient(first, again, images, name)
    if stuck := [key for key in untrained if key in random]:
        seen = f"no gradient reaches {list_some(stuck)} of {name}, so retraining would leave them random"
        remedy = (
            "remove detach() or torch.no_grad() from its forward, load their weights, or pass the part that is trained"
        )
        raise CallerError(f"{seen}; {remedy}")
    kept = {*frozen, *untrained}
    lines = []
    second_logit = [list(row) for row in TWO_CLASSES]  # the layer that gives a network with one logit its second logit
    keys = [key for key, weight in weights.items() if weight.shape != (2, 1) or weight.tolist() != second_logit]
    if still := [key for key in keys if key in kept]:
        lines.append(f"{name}: retrained networks keep the values that its code gives {list_some(still)}; not trained")
    patterned = (key for key in keys if key not in random | kept and weights[key].numel() > 1)
    if same := [key for key in patterned if bool((weights[key] != weights[key].flatten()[0]).any())]:
        lines.append(f"{name}: retrained networks start from the same values of {list_some(same)} in every run")
    return lines


def _find_weights_without_gradient(model: nn.Module, other: nn.Module, images: Tensor, name: str) -> list[str]:
    """Return the weights that a step of training leaves unchanged though the logits depend on them, in either mode.

    `other` is the same network; its weights are changed. CallerError if a batch norm does not normalise in training.
    """
    norms = [(key, module) for key, module in model.named_modules() if isinstance(module, NORMS_WITH_STATISTICS)]
    _refuse_norms_without_statistics(model.train(), norms, images, name)
    weights, found = dict(other.named_parameters()), set[str]()
    without = {key: weight for key, weight in model.named_parameters() if weight.requires_grad and weight.grad is None}
    # the forward pass may change them, too, as a moving average does
    candidates = [key for key, weight in without.items() if torch.equal(weight, weights[key])]
    for is_training in (True, False):  # the networks inside may differ: the trained one and its average
        before = _run_with_seed(other.train(is_training), images)
        if _depends_on([weights[key] for key in candidates], other, images, before):
            found |= {key for key in candidates if _depends_on([weights[key]], other, images, before)}
    return [key for key in candidates if key in found]


def _refuse_norms_without_statistics(
    model: nn.Module, norms: Sequence[tuple[str, Any]], images: Tensor, name: str
) -> None:
    """Run a forward and backward pass in training mode; CallerError for a batch norm that stays in eval mode."""
    ran, hooks = set[str](), []
    for key, norm in norms:
        hooks.append(norm.register_forward_pre_hook(lambda *_, key=key: ran.add(key)))
    before = {key: norm.running_mean.clone() for key, norm in norms if norm.running_mean is not None}
    try:
        with torch.enable_grad(), torch.random.fork_rng(devices=[]), convert_exit_to_error():
            logits = extract_logits(model(images.clone()))
            nn.functional.cross_entropy(logits, torch.zeros(len(images), dtype=torch.int64)).backward()  # type: ignore[no-untyped-call]
    except Exception as error:  # the user's network may raise anything
        seen = f"{name} cannot be trained ({describe_error(error)})"
        raise CallerError(f"{seen}; use protocols that train no network, such as morf") from error
    finally:
        for hook in hooks:
            hook.remove()
    evaluating = [key for key, norm in norms if key in ran and not norm.training and norm.running_mean is not None]
    if evaluating:
        seen = f"model.train() leaves {list_some(evaluating)} of {name} in eval mode"
        raise CallerError(f"{seen}, so a network built anew would never normalise; remove this from its train()")
    still = [key for key, norm in norms if key in ran and key in before and torch.equal(before[key], norm.running_mean)]
    if still:
        seen = f"training does not change the running statistics of {list_some(still)} of {name}"
        raise CallerError(f"{seen}, which would normalise by 0 and 1 in tests; write a momentum above 0")


def _depends_on(weights: Iterable[Tensor], model: nn.Module, images: Tensor, before: Tensor) -> bool:
    """Return whether the logits change with these weights, which get their values back."""
    kept = [(weight, weight.detach().clone()) for weight in weights]
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight, value in kept:
            weight.add_(torch.randn(value.shape, generator=generator).to(value))
        changed = not torch.equal(before, _run_with_seed(model, images))
        for weight, value in kept:
            weight.copy_(value)
    return changed


def _run_with_seed(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # dropout draws the same each time
        logits: Tensor = extract_logits(model(images.clone()))
    return logits
