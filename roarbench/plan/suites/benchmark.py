"""Suites of the benchmark: the paper's 18 estimators and others, on images and on tables."""

from dataclasses import replace

from roarbench.enums import OWN_NETWORK_LEVELS, PAPER_LEVELS, Making, Split
from roarbench.estimators.catalogue import PAPER
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.plan.suites import tabular
from roarbench.plan.suites.quick import list_controls
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.own_network import OWN_NETWORK, OWN_NETWORK_LERF
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF

_THREE_LEVELS = (0.1, 0.5, 0.9)
_IN_USE = (
    *("input-x-grad", "ig(baseline=mean)", "deeplift(baseline=mean)", "lrp", "gradient-shap"),
    *("gradcam", "guided-gradcam", "hires-cam", "layer-cam", "score-cam"),
    *("occlusion", "feature-ablation", "rise", "kernel-shap"),
)


def _images(name: str, dataset: str, recipe: str, levels: tuple[float, ...], channels: int = 3) -> SuiteSpec:
    """Return the suite of a data set of images; its explained networks are those that its recipe trains."""
    retrained, explained = (*CONTROLS, *PAPER), (*PAPER, *_IN_USE)
    against = (*list_controls(channels), *explained)
    return SuiteSpec(
        *(f"benchmark-{name}", 1),
        f"the benchmark on {name}: the paper's 18 estimators by retraining, these and 14 others without",
        *(dataset, "resnet-quick", recipe, recipe),
        blocks=(
            Block(ROAR, (*retrained, "sobel-released", "input-x-grad"), levels, seeds=3),
            *(Block(own, (*CONTROLS, *explained), OWN_NETWORK_LEVELS, 1) for own in (OWN_NETWORK, OWN_NETWORK_LERF)),
            *(Block(order, against, levels, seeds=1) for order in (MORF, LERF)),
            Block(MATCHED, against, _THREE_LEVELS, seeds=3),
            Block(KAR, retrained, levels, seeds=3),
            Block(MASK_ONLY, retrained, (0.9,), seeds=1),
        ),
        maps=Making.BF16,
        references=5,
        tuned_on=Split.TEST,
    )


def _table(name: str) -> SuiteSpec:
    """Return the suite of a table: the rows of the suite of its data, by as many references as images have."""
    suite = {each.name: each for each in tabular.SUITES}[name]
    rows = next(block.estimators for block in suite.blocks if block.protocol is ROAR)
    against = next(block.estimators for block in suite.blocks if block.protocol is MATCHED)
    return replace(
        suite,
        name=f"benchmark-{name}",
        version=1,
        about=f"the benchmark on {name}, a table of numbers: estimators that apply, with and without retraining",
        blocks=(
            Block(ROAR, rows, _THREE_LEVELS, seeds=10),
            *(Block(own, rows, OWN_NETWORK_LEVELS, seeds=1) for own in (OWN_NETWORK, OWN_NETWORK_LERF)),
            *(Block(order, rows, _THREE_LEVELS, seeds=1) for order in (MORF, LERF)),
            Block(MATCHED, against, _THREE_LEVELS, seeds=10),
            Block(KAR, rows, _THREE_LEVELS, seeds=10),
            Block(MASK_ONLY, rows, (0.9,), seeds=3),
        ),
        references=5,
        tuned_on=Split.TEST,
    )


SUITES = (
    _images("imagenette64", "imagenette64-1000", "quick@2", PAPER_LEVELS),
    _images("cifar10", "cifar10-1000", "study-cifar10@2", _THREE_LEVELS),
    _images("fashion-mnist", "fashion-mnist-1000", "study-fashion-mnist@2", _THREE_LEVELS, channels=1),
    _table("breast-cancer"),
    _table("digits"),
)
