"""The quick suites: Imagenette at 64 x 64 with a small network, in minutes on two cores."""

from dataclasses import replace

from roarbench.enums import OWN_NETWORK_LEVELS, PAPER_LEVELS, Making, Split
from roarbench.estimators.estimator import CONTROLS
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.own_network import OWN_NETWORK, OWN_NETWORK_LERF
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF

PAPER_CONTROLS = ("random", "sobel")  # of the paper; a blurred random map stands among the twins
EIGHT = (*PAPER_CONTROLS, "grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb")
_TWINS = ("random-blurred", *(make_twin_id(name, "blurred") for name in EIGHT[2:]))

FIRST = SuiteSpec(
    name="quick",
    version=1,
    about="Imagenette at 64 x 64 with a small network: eight rankings in minutes on two cores",
    dataset="imagenette64",
    model="resnet-quick",
    recipe="quick@1",
    reference_recipe="quick-reference@1",
    blocks=(
        Block(ROAR, EIGHT, (0.5, 0.9), seeds=2),
        Block(MORF, EIGHT, (0.5, 0.9), seeds=1),
        Block(LERF, EIGHT, (0.5, 0.9), seeds=1),
        Block(KAR, EIGHT, (0.9,), seeds=1),
        Block(MASK_ONLY, EIGHT, (0.9,), seeds=1),
        Block(ROAR, _TWINS, (0.5, 0.9), seeds=1),
    ),
)
_ROWS = ("grad", "sgsq-grad", "var-grad", "ig", "gb")
_SECOND = replace(
    FIRST,
    version=2,
    about="Imagenette at 64 x 64 with a small network: five estimators by three references in minutes on two cores",
    recipe="quick@2",
    reference_recipe="quick@2",
    blocks=(
        Block(AUGMENTED, (*CONTROLS, *_ROWS), (0.1, 0.5, 0.9), seeds=3),
        Block(ROAR, ("random", *_ROWS), (0.9,), seeds=3),
        Block(ROAR, ("random-blurred", "sobel", "sobel-released"), (0.9,), seeds=1),
        *(Block(order, (*CONTROLS, *_ROWS), (0.9,), seeds=1) for order in (MORF, LERF)),
        Block(MASK_ONLY, ("grad", "sgsq-grad", "var-grad"), (0.9,), seeds=1),
    ),
    maps=Making.BF16,
    references=3,
)

_EIGHT_CONTROLS = (  # of first versions; the last two are of studies/corpus
    *CONTROLS,
    "contrast",
    "deviation",
    "deviation-blurred",
    "colour-deviation",
    "saturation-deviation",
)
BEATEN = (*_EIGHT_CONTROLS, "linear-classifier")  # the strongest of studies/corpus on images that no board has


def list_controls(channels: int, tabular: bool = False) -> tuple[str, ...]:
    """Return the controls that a row has to beat on images of so many channels: grey has no colour, a row no edges."""
    if tabular:
        return ("random", "deviation", "linear-classifier")
    return tuple(name for name in BEATEN if channels > 1 or name not in ("colour-deviation", "saturation-deviation"))


_SEVEN_CONTROLS = (*CONTROLS, "deviation", "colour-deviation", "saturation-deviation", "linear-classifier")
_WITH_TEMPLATE = (*_EIGHT_CONTROLS, "class-template")  # before it
_ASKING = ("grad", "sgsq-grad", "ig", "ig(baseline=mean)", "input-x-grad")
_UNTRAINED = Block(MATCHED, tuple(make_twin_id(name, "untrained") for name in _ASKING), (0.1, 0.5, 0.9), seeds=3)
_FIRST_MATCHED = replace(
    _SECOND,
    name="quick-matched",
    version=1,
    about="matched gain: what only a network can know of an image, held against eight controls that ask none",
    blocks=(Block(MATCHED, (*_EIGHT_CONTROLS, *_ASKING), (0.1, 0.5, 0.9), seeds=3),),
    tuned_on=Split.TEST,
)
_MATCHED = replace(
    _FIRST_MATCHED,
    version=2,
    about="matched gain: what only a network can know of an image, held against nine controls that ask none",
    blocks=(Block(MATCHED, (*_WITH_TEMPLATE, *_ASKING), (0.1, 0.5, 0.9), seeds=3),),
)


def _add_roar(version: int, controls: tuple[str, ...]) -> SuiteSpec:
    """Return `quick`: matched gain leads; the paper's protocols and its critics' checks stand beside it."""
    return replace(
        _FIRST_MATCHED,
        name="quick",
        version=version,
        about="Imagenette at 64 x 64 with a small network: matched gain against many controls, ROAR beside it",
        blocks=(
            Block(MATCHED, (*controls, *_ASKING), (0.1, 0.5, 0.9), seeds=3),
            Block(ROAR, ("random", *_ASKING), (0.9,), seeds=3),
            *_SECOND.blocks[2:3],
            *(Block(order, (*controls, *_ASKING), (0.9,), seeds=1) for order in (MORF, LERF)),
            Block(MASK_ONLY, _ASKING, (0.9,), seeds=1),
            _UNTRAINED,  # which rows know the network, too
        ),
    )


_BRIEF_ASKING = ("grad", "sgsq-grad", "ig(baseline=mean)", "input-x-grad")
_BRIEF_MATCHED = replace(  # for `make run`: fewer images and rows than `quick`
    _MATCHED,
    version=3,
    about="matched gain in minutes: what only a network can know, held against seven controls that ask none",
    dataset="imagenette64-1000",
    blocks=(
        Block(MATCHED, (*_SEVEN_CONTROLS, *_BRIEF_ASKING), (0.1, 0.5, 0.9), seeds=3),
        replace(_UNTRAINED, estimators=_UNTRAINED.estimators[-2:]),  # of those that may know the network
    ),
)

_ROAR = replace(  # figure 4 of Hooker et al. 2019 with five of its rows
    _SECOND,
    name="quick-roar",
    version=1,
    dataset="imagenette64-1000",
    about="the paper's figure: ROAR of Random, Sobel, the gradient, SmoothGrad-Squared and VarGrad at five levels",
    blocks=(Block(ROAR, ("random", "sobel", "grad", "sgsq-grad", "var-grad"), PAPER_LEVELS, seeds=3),),
)

_BOTH = (*CONTROLS, "grad", "sg-grad", "sgsq-grad", "var-grad", "input-x-grad", "gb-sq")
_OWN_ALONE = ("occlusion", "ig", "ig(baseline=mean)", "gradcam")  # their maps of all training images cost too much
_SMOOTHED = ("sg-grad", "sgsq-grad", "var-grad")  # in `make run`, too: fifteen passes for each image
_TWO_QUESTIONS = replace(  # for `make run`
    _SECOND,
    version=7,
    about="ROAR and own-network gain in minutes: do features matter in the data, does a map explain its network?",
    dataset="imagenette64-1000",
    blocks=(
        Block(ROAR, tuple(name for name in _BOTH if name not in _SMOOTHED), (0.9,), seeds=3),
        Block(OWN_NETWORK, (*_BOTH, *_OWN_ALONE), OWN_NETWORK_LEVELS, seeds=1),
    ),
    references=5,
)
_FULL = replace(
    _add_roar(1, BEATEN),
    name="quick-full",
    about="quick on all test images, with five levels of ROAR, keep-and-retrain and the checks that critics call for",
    blocks=(
        *(Block(protocol, _BOTH, PAPER_LEVELS, seeds=3) for protocol in (ROAR, KAR)),
        *(Block(own, (*_BOTH, *_OWN_ALONE), OWN_NETWORK_LEVELS, seeds=1) for own in (OWN_NETWORK, OWN_NETWORK_LERF)),
        *(Block(order, (*BEATEN, *_BOTH[3:], *_OWN_ALONE), PAPER_LEVELS, seeds=1) for order in (MORF, LERF)),
        Block(MASK_ONLY, _BOTH, (0.9,), seeds=1),
        Block(MATCHED, (*BEATEN, *_BOTH[3:], *_OWN_ALONE), (0.1, 0.5, 0.9), seeds=3),
    ),
    references=5,
)

_MATCHED_ONES = (_FIRST_MATCHED, _MATCHED, _BRIEF_MATCHED)
LATER = (
    *(_SECOND, *_MATCHED_ONES),
    *(_add_roar(5, _WITH_TEMPLATE), _add_roar(6, BEATEN), _ROAR, _TWO_QUESTIONS, _FULL),
)
