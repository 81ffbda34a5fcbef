"""The suites of the study of leakage through masks (studies/small_networks)."""

from dataclasses import replace

from roarbench.enums import Unit
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.plan.suites.quick import EIGHT, PAPER_CONTROLS
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR

_ROWS = (
    *PAPER_CONTROLS,
    *("grad", "grad-sq", "sg-grad", "sgsq-grad", "var-grad"),
    *("gb", "gb-sq", "sgsq-gb", "var-gb"),
    *("ig", "ig-sq"),
)


def _blocks(*units: Unit) -> tuple[Block, ...]:
    """Make the blocks of the study: does the class show in masks where the paper's claims do not hold?"""
    levels, first = (0.1, 0.5, 0.9), units[0]
    return (
        *(Block(ROAR, _ROWS, levels, seeds=2 if unit is first else 1, unit=unit) for unit in units),
        *(Block(MASK_ONLY, (*_ROWS, "random-blurred"), (0.9,), seeds=1, unit=unit) for unit in units),
        *(Block(ROAR, ("random-blurred",), levels, seeds=1, unit=unit) for unit in units),
        Block(ROAR, ("grad~blurred", "var-grad~blurred"), levels, seeds=1, unit=first),
    )


def _study(name: str, about: str, dataset: str, blocks: tuple[Block, ...], recipe: str = "quick") -> SuiteSpec:
    return SuiteSpec(name, 1, about, dataset, "resnet-quick", f"{recipe}@1", f"{recipe}-reference@1", blocks)


_BOTH = _blocks(Unit.SCALAR, Unit.PIXEL)
FIRST = (
    _study(
        "study-imagenette64",
        "the study of leakage through masks: Imagenette at 64 x 64, 13 rankings, both units",
        "imagenette64",
        _BOTH,
    ),
    _study(
        "study-imagenette128",
        "do the strong ensembles beat Random at 128 x 128? Imagenette with a small network, eight rankings",
        "imagenette",
        (
            Block(ROAR, EIGHT, (0.1, 0.5, 0.9), seeds=2),
            Block(MASK_ONLY, (*EIGHT, "random-blurred"), (0.9,), seeds=1),
            Block(ROAR, ("random-blurred",), (0.1, 0.5, 0.9), seeds=1),
            Block(ROAR, (*PAPER_CONTROLS, "sgsq-grad", "var-grad"), (0.1, 0.5, 0.9), seeds=2, unit=Unit.PIXEL),
        ),
    ),
    _study(
        "study-cifar10",
        "the study of leakage through masks: CIFAR-10, 13 rankings, both units",
        "cifar10",
        _BOTH,
        "study-cifar10",
    ),
    _study(
        "study-fashion-mnist",
        "the study of leakage through masks: Fashion-MNIST, 13 rankings; one channel, so both units are one",
        "fashion-mnist",
        _blocks(Unit.SCALAR),
        "study-fashion-mnist",
    ),
)


def _cross(first: SuiteSpec, recipe: str) -> SuiteSpec:
    """Make the second version of a suite: three references, and each seed ranked by one of them."""
    blocks = (
        replace(block, seeds=3) if block.protocol is ROAR and block.seeds > 1 else block for block in first.blocks
    )
    return replace(first, version=2, references=3, recipe=recipe, reference_recipe=recipe, blocks=tuple(blocks))


_LATER = {  # recipe of the second version
    **dict.fromkeys(("study-imagenette64", "study-imagenette128"), "quick@2"),
    **{name: f"{name}@2" for name in ("study-cifar10", "study-fashion-mnist")},
}
LATER = tuple(_cross(suite, _LATER[suite.name]) for suite in FIRST if suite.name in _LATER)
