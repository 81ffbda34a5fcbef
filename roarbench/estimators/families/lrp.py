"""Layer-wise relevance propagation, which captum computes (Kokhlikyan et al., arXiv 2009.07896)."""

import warnings

from roarbench.estimators.estimator import Estimator, Passes
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor, captum, lrp_rules, nn, traced_network
from roarbench.estimators.papers import Paper

BACH = Paper("""@article{bach2015pixelwise,
    title = {On Pixel-Wise Explanations for Non-Linear Classifier Decisions by Layer-Wise Relevance Propagation},
    author = {Sebastian Bach and Alexander Binder and Grégoire Montavon and Frederick Klauschen and Klaus-Robert
        Müller and Wojciech Samek},
    journal = {PLoS ONE 10(7)}, year = {2015}}""")


def lrp(map_input: MapInput) -> Tensor:
    """Return layer-wise relevance (Bach et al. 2015) by rules that differ with the layer, signed.

    Convolutions but the first pass relevance on by the rule z+, without biases; all else that is linear by the rule
    epsilon. Such mixtures are those of Kohlbrenner et al. (2020); epsilon in the first convolution is a choice made
    here. zennit's `EpsilonPlus` has z+ there and its `EpsilonPlusFlat` the flat rule, and their maps are quite other
    ones. Epsilon everywhere, captum's default, is the gradient times the image in a network of ReLUs (Ancona et al.
    2018). RunError where the network has a step that no rule is known for.
    """
    model = traced_network.trace_to_modules(map_input.model)
    later = [module for module in model.modules() if isinstance(module, nn.Conv2d)][1:]
    for module in model.modules():
        if not (isinstance(module, nn.ReLU) or any(module.children())):
            module.rule = (
                lrp_rules.Alpha1_Beta0_Rule(set_bias_to_zero=True) if module in later else lrp_rules.EpsilonRule()
            )
    with warnings.catch_warnings():  # every time that it puts hooks on the model, which it takes off again
        warnings.filterwarnings("ignore", "Setting (forward, )?backward hooks")
        inputs = map_input.images.detach().clone().requires_grad_()
        found: Tensor = captum.LRP(model).attribute(inputs, target=map_input.batch.targets)
    return found


ESTIMATORS = (
    Estimator("lrp", title="LRP",
        about="LRP: rule z+ for convolutions but the first, rule epsilon for the rest, signed", maps=lrp,
        cost=Passes(2, 1), papers=(BACH,), neighbours=False),
)  # fmt: skip
