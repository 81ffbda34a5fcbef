"""The suites on generated images, whose true ranking is known: what a protocol should find."""

from roarbench.enums import OWN_NETWORK_LEVELS, PAPER_LEVELS
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.protocols.own_network import OWN_NETWORK, OWN_NETWORK_LERF
from roarbench.protocols.roar import KAR, ROAR

_PLANTED = ("truth", "random", "truth-inverted")

_CORNERS = (
    *("corner-own", "corner-mixed-25", "corner-mixed-50", "corner-mixed-75", "corner-next", "corner-all", "random"),
    *("grad", "grad-sq", "sgsq-grad", "var-grad", "input-x-grad", "ig(baseline=mean)", "gb-sq", "gradcam"),
)
GENERATED = (
    SuiteSpec(
        name="planted-corners",
        version=1,
        about="photographs of which each network reads another corner: what own-network gain has to find",
        dataset="planted-corners",
        model="resnet-quick",
        recipe="planted-corners@1",
        reference_recipe="planted-corners@1",
        blocks=tuple(Block(own, _CORNERS, OWN_NETWORK_LEVELS, seeds=1) for own in (OWN_NETWORK, OWN_NETWORK_LERF)),
        references=4,
    ),
    SuiteSpec(
        name="planted",
        version=1,
        about="generated images whose true ranking is known: the harness's own proof",
        dataset="planted",
        model="resnet-planted",
        recipe="planted@1",
        reference_recipe="planted@1",
        blocks=(Block(ROAR, _PLANTED, PAPER_LEVELS, seeds=2), Block(KAR, _PLANTED, PAPER_LEVELS, seeds=2)),
    ),
)
