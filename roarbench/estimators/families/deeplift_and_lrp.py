"""Estimators that pass relevance back through the network: DeepLIFT and layer-wise relevance propagation."""

from __future__ import annotations

import copy
import warnings
from contextlib import suppress
from typing import Any

from roarbench.common.errors import RunError
from roarbench.estimators.estimator import Estimator, MapInput, Passes
from roarbench.estimators.lazy_torch import Tensor, backward_rules, captum, lrp_network, lrp_rules, nn, torch
from roarbench.estimators.network_facts import recall_facts

_SUM_TOLERANCE = 1e-3  # allowed error of a sum of contributions, as a share of these; rounding is below 1e-5
_REWRITTEN_TOLERANCE = 1e-3  # allowed difference of logits, as a share of the largest; rounding is below 1e-5
# names of facts: the rescale rule left the logits as they are; the code of the rewritten form with the same logits
_UNCHANGED_BY_RULES, _REWRITTEN = "unchanged by the rescale rule", "rewritten for LRP"
# further allowed error as a share of the logits, because the difference of logits is rounded
_LOGIT_TOLERANCE, _LOGIT_TOLERANCE_IN_FLOAT64 = 1e-5, 1e-13


def deeplift(map_input: MapInput) -> Tensor:
    """Compute DeepLIFT contributions, signed, which sum to the image's logit minus the baseline's logit.

    Raises RunError if the sum differs from this difference; the network then has a nonlinear operation without a rule.
    """
    images, start = map_input.images, map_input.baseline
    contributions, logits = _compute_contributions(map_input, map_input.model, images, start)
    rounded = _LOGIT_TOLERANCE * logits.abs().sum()
    error = _compute_error_of_sums(contributions, logits)
    if 0 < error <= rounded:  # small differences of large logits are exact in float64, if the network can compute in it
        with suppress(Exception):  # the user's network may raise anything
            exact, logits = _compute_contributions(
                map_input, copy.deepcopy(map_input.model).double(), images.double(), start.double()
            )
            rounded = _LOGIT_TOLERANCE_IN_FLOAT64 * logits.abs().sum()
            error = _compute_error_of_sums(exact, logits)
    if error > rounded:
        reason, remedy = "it lacks a rule for an operation of the network", "leave deeplift out"
        name, shape = backward_rules.find_call_without_batch_first(map_input.model, images)
        if name:
            seen = "on a tensor whose first axis is not the images"
            reason = f"the network calls {name} {seen}, {shape} for two images"
            remedy = "put the images first (batch_first=True), or leave deeplift out"
        raise RunError(f"deeplift's contributions do not add up, because {reason}; {remedy}")
    return contributions


def _compute_contributions(
    map_input: MapInput, model: nn.Module, images: Tensor, start: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the contributions, and the target logits of the images and of their baselines, (2 n,).

    Raises RunError if the logits of the first image and its baseline are others than without the rescale rule, which is
    tried once per network.
    """
    with torch.enable_grad():
        inputs = torch.cat([images, start]).detach().requires_grad_()
        with backward_rules.Rescaled(len(inputs)):
            outputs = model(inputs)
        if _UNCHANGED_BY_RULES not in (facts := recall_facts(map_input.model)):
            with torch.no_grad():
                logits = map_input.model(torch.cat([map_input.images[:1], map_input.baseline[:1]]))
            change, found = logits[0] - logits[1], outputs[0].detach() - outputs[len(outputs) // 2].detach()
            allowed = _SUM_TOLERANCE * change.abs().max() + _LOGIT_TOLERANCE * logits.abs().max()
            if (found - change).abs().max() > allowed:
                raise RunError(
                    "deeplift's rules change the network's logits, for example because its forward pass computes a "
                    "gradient; leave deeplift out"
                )
            facts[_UNCHANGED_BY_RULES] = True
        logits = outputs.gather(1, map_input.batch.targets.repeat(2)[:, None])
        (multipliers,) = torch.autograd.grad(logits.sum(), inputs)
    return multipliers[: len(images)] * (images - start), logits.detach()[:, 0]


def _compute_error_of_sums(contributions: Tensor, logits: Tensor) -> Tensor:
    """Return by how much contributions miss the differences of logits, beyond rounding, all images together."""
    logit, base = logits.view(2, -1)
    error: Tensor = (contributions.sum((1, 2, 3)) - (logit - base)).abs().sum()
    return error - _SUM_TOLERANCE * contributions.abs().sum()


def lrp(map_input: MapInput) -> Tensor:
    """Compute layer-wise relevance propagation (Bach et al. 2015), signed.

    Convolutions after the first use rule z+ without biases, and all other linear layers use rule epsilon. Kohlbrenner
    et al. (2020) describe such mixtures of rules; rule epsilon in the first convolution is a choice of this package. In
    the first convolution, zennit's `EpsilonPlus` uses rule z+ and zennit's `EpsilonPlusFlat` uses the flat rule; the
    maps of the three mixtures differ widely. With rule epsilon everywhere, captum's default, LRP equals gradient times
    input in a ReLU network (Ancona et al. 2018). Raises RunError if the network has an operation without a rule, or if
    the rewritten network gives the first image other logits, which is tried once per network.
    """
    network, image = map_input.model, map_input.images[:1]
    model = lrp_network.rewrite_for_relevance_rules(network)
    if (facts := recall_facts(network)).get(_REWRITTEN) != (code := str(model.code)):
        with torch.no_grad():
            output, logits = network(image.clone()), model(image.clone())
        expected = getattr(output, "logits", output)
        if not (logits - expected).abs().max() <= _REWRITTEN_TOLERANCE * expected.abs().max():
            raise RunError(
                "lrp cannot follow the network, whose logits differ from those of its traced operations, for example "
                "because of hooks, or because a tensor that is read again was changed in place, as by `+=`; "
                "leave lrp out"
            )
        facts[_REWRITTEN] = code

    class ZPlusRule(lrp_rules.Alpha1_Beta0_Rule):  # type: ignore[misc]  # made here, so that captum is imported here
        """Captum's rule z+ for inputs of either sign."""

        def _manipulate_weights(self, module: Any, inputs: Any, outputs: Any) -> None:
            module.negative = module.weight.detach().clamp(max=0)
            module.__class__ = lrp_network.PositiveConvolution
            super()._manipulate_weights(module, inputs, outputs)

    called = [model.get_submodule(str(node.target)) for node in model.graph.nodes if node.op == "call_module"]
    later = [module for module in called if isinstance(module, nn.Conv2d)][1:]
    for module in model.modules():
        if not (isinstance(module, nn.ReLU) or any(module.children())):
            module.rule = ZPlusRule(set_bias_to_zero=True) if module in later else lrp_rules.EpsilonRule()
    with warnings.catch_warnings():  # captum warns when it adds hooks, although it removes the hooks later
        warnings.filterwarnings("ignore", "Setting (forward, )?backward hooks")
        inputs = map_input.images.detach().clone().requires_grad_()
        relevance: Tensor = captum.LRP(model).attribute(inputs, target=map_input.batch.targets)
    return relevance


ESTIMATORS = (
    Estimator("deeplift", title="DeepLIFT", about="DeepLIFT by its rescale rule, from black, signed", maps=deeplift,
        parameters={"baseline": "black"}, cost=Passes(2, 2), papers=("shrikumar2017learning",), neighbours=False,
        passes_baseline=True),
    Estimator("lrp", title="LRP",
        about="LRP: rule z+ for convolutions but the first, rule epsilon for the rest, signed", maps=lrp,
        cost=Passes(2, 1), papers=("bach2015pixelwise",), neighbours=False, traces_network=True),
)  # fmt: skip
