"""The suites of the study of leakage through masks (studies/small_networks)."""

from roarbench.plan.suite import Block, Suite
from roarbench.plan.suites.paper import crossed
from roarbench.plan.suites.quick import EIGHT, PAPER_CONTROLS
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from roarbench.terms import Unit

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


FIRST = (
    Suite(
        name="study-imagenette64",
        version=1,
        about="the study of leakage through masks: Imagenette at 64 x 64, 13 rankings, both units",
        dataset="imagenette64",
        model="resnet-quick",
        recipe="quick@1",
        reference_recipe="quick-reference@1",
        blocks=_blocks(Unit.SCALAR, Unit.PIXEL),
    ),
    Suite(
        name="study-imagenette128",
        version=1,
        about="do the strong ensembles beat Random at 128 x 128? Imagenette with a small network, eight rankings",
        dataset="imagenette",
        model="resnet-quick",
        recipe="quick@1",
        reference_recipe="quick-reference@1",
        blocks=(
            Block(ROAR, EIGHT, (0.1, 0.5, 0.9), seeds=2),
            Block(MASK_ONLY, (*EIGHT, "random-blurred"), (0.9,), seeds=1),
            Block(ROAR, ("random-blurred",), (0.1, 0.5, 0.9), seeds=1),
            Block(ROAR, (*PAPER_CONTROLS, "sgsq-grad", "var-grad"), (0.1, 0.5, 0.9), seeds=2, unit=Unit.PIXEL),
        ),
    ),
    Suite(
        name="study-cifar10",
        version=1,
        about="the study of leakage through masks: CIFAR-10, 13 rankings, both units",
        dataset="cifar10",
        model="resnet-quick",
        recipe="study-cifar10@1",
        reference_recipe="study-cifar10-reference@1",
        blocks=_blocks(Unit.SCALAR, Unit.PIXEL),
    ),
    Suite(
        name="study-fashion-mnist",
        version=1,
        about="the study of leakage through masks: Fashion-MNIST, 13 rankings; one channel, so both units are one",
        dataset="fashion-mnist",
        model="resnet-quick",
        recipe="study-fashion-mnist@1",
        reference_recipe="study-fashion-mnist-reference@1",
        blocks=_blocks(Unit.SCALAR),
    ),
)
_NAMED = {suite.name: suite for suite in FIRST}
LATER = (
    *(crossed(_NAMED[f"study-{name}"], 3, "quick@2") for name in ("imagenette64", "imagenette128")),
    *(crossed(_NAMED[f"study-{name}"], 3, f"study-{name}@2") for name in ("cifar10", "fashion-mnist")),
)
