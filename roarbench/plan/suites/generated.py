"""The suites on generated images, whose true ranking is known: what a protocol should find."""

from roarbench.enums import OWN_NETWORK_LEVELS, PAPER_LEVELS
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.exchanged import ROAR_EXCHANGED
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.own_network import OWN_NETWORK, OWN_NETWORK_LERF
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.protocols.unretrained import LERF, MORF

_PLANTED = ("truth", "random", "truth-inverted")
_KNOWN = ("truth", "random", "random-blurred", "sobel", "truth-inverted")  # rows whose order is known


def _make_known(name: str, about: str, dataset: str, *rows: str) -> SuiteSpec:
    """Make a suite that judges the protocols: on generated images it is known which rows are better."""
    levels, everyone, recipe = (0.5,), (*_KNOWN, *rows), "planted-brief@1"
    blocks = (
        *(Block(asked, everyone, levels, seeds=3) for asked in (ROAR, KAR, SPECIFIC, AUGMENTED, ROAR_EXCHANGED)),
        *(Block(protocol, everyone, levels, seeds=1) for protocol in (MORF, LERF)),
        Block(MASK_ONLY, ("truth", "random", *(name for name in rows if name == "leak")), levels, seeds=1),
    )
    return SuiteSpec(name, 1, about, dataset, "resnet-planted", recipe, recipe, blocks, references=3)


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
    _make_known("planted-protocols", "planted under every protocol: who finds the order that is known?", "planted"),
    _make_known(
        "planted-leaky",
        "the same where the true ranking's masks tell the class, with a row that knows nothing else",
        "planted-leaky",
        "leak",
    ),
    _make_known(
        "planted-smooth",
        "the same where features lie in blobs, with a noisy true map and its blur, which is better",
        "planted-smooth",
        *("truth-noisy", "truth-noisy-blurred"),
    ),
    _make_known(
        "planted-placed",
        "the same where features stand at one place, so that another image's map is as good as the own one",
        "planted-placed",
    ),
)
