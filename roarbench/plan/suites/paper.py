"""The suites of the paper's experiment: on its data, on reduced forms of them, and on small images."""

from dataclasses import replace

from roarbench.enums import OWN_NETWORK_LEVELS, PAPER_LEVELS, Making, Split, Unit
from roarbench.estimators.catalogue import PAPER
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.suite import Block, GivenNetwork, SuiteSpec
from roarbench.plan.suites.quick import BEATEN, PAPER_CONTROLS
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.own_network import OWN_NETWORK, OWN_NETWORK_LERF
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF

_ROWS = (*PAPER_CONTROLS, *PAPER)
_TWINS = (
    "random-blurred",
    "random-redrawn",
    *(make_twin_id(name, twin) for twin in ("blurred", "untrained", "other-target") for name in PAPER),
)


_RETRAINED = tuple(Block(protocol, _ROWS, PAPER_LEVELS, seeds=5) for protocol in (ROAR, KAR))
_SCORED = tuple(Block(order, _ROWS, PAPER_LEVELS, seeds=1) for order in (MORF, LERF))
_VALIDITY = (  # of the panel
    Block(ROAR, _TWINS, PAPER_LEVELS, seeds=1),
    Block(ROAR, _ROWS, PAPER_LEVELS, seeds=1, unit=Unit.PIXEL),
)


def _small(name: str, about: str, model: str, recipe: str) -> SuiteSpec:
    """Make a suite of the paper's experiment and the validity panel on small images, by five references.

    First versions had one.
    """
    blocks = (*_RETRAINED, Block(MASK_ONLY, _ROWS, PAPER_LEVELS, seeds=5), *_SCORED, *_VALIDITY)
    return SuiteSpec(name, 2, about, name, model, recipe, recipe, blocks, references=5)


def _published(name: str, about: str, recipe: str) -> SuiteSpec:
    """Make a suite of the paper's experiment with its network, on its data or on a reduced form of them.

    Retraining costs GPU months there, scoring the reference hours.
    """
    return replace(_small(name, about, "resnet50", recipe), blocks=(*_RETRAINED, *_SCORED))


def _fast(slow: SuiteSpec) -> SuiteSpec:
    """Make the suite that asks the same of networks by a short recipe."""
    about = f"{slow.name} by a short recipe; the same reference and rankings"
    return replace(slow, name=f"{slow.name}-fast", about=about, recipe=f"{slow.name}-fast@1")


def _torchvision_network(name: str, weights: str) -> GivenNetwork:
    model = f"torchvision:{name}"
    return GivenNetwork(model, f"{model}/{weights}", "", f"{model}@{weights}")


_CIFAR10 = _small("cifar10", "the paper's experiment on CIFAR-10 with a ResNet-8", "resnet8", "cifar10@1")
_IMAGENETTE = _small(
    "imagenette", "the paper's experiment on Imagenette at 128 x 128 with a ResNet-18", "resnet18", "imagenette@1"
)
_IMAGENET = replace(
    _published("imagenet", "the paper's experiment at its size: ImageNet at 224 x 224, ResNet-50", "imagenet@1"),
    name="imagenet-paper",
)
_SHORT_ROWS = tuple(f"{prefix}{base}" for base in ("grad", "gb", "ig") for prefix in ("", "sg-", "sgsq-", "var-"))
_RESNETS = (  # of one architecture, by five recipes
    *(_torchvision_network("resnet50", weights) for weights in ("IMAGENET1K_V1", "IMAGENET1K_V2")),
    *(GivenNetwork(name, name, "", name) for name in (f"timm:resnet50.{tag}_in1k" for tag in ("a1", "ram", "gluon"))),
)
_NOISY_IG = ("sg-ig", "sg-ig-sq", "sgsq-ig", "var-ig")  # 375 passes each
_PUBLISHED_ROWS = (
    *PAPER_CONTROLS,
    *(name for name in PAPER if name not in _NOISY_IG),
    *("input-x-grad", "ig(baseline=mean)", "gradcam", "guided-gradcam"),
)
SUITES = (
    SuiteSpec(
        name="imagenet-networks",
        version=1,
        about="five published ResNet-50 on five test images of each class of ImageNet: does a map explain its network?",
        dataset="imagenet-5k",
        model=_RESNETS[0].model,
        recipe="imagenet@1",
        reference_recipe="imagenet@1",
        blocks=(
            *(Block(own, _PUBLISHED_ROWS, OWN_NETWORK_LEVELS, seeds=1) for own in (OWN_NETWORK, OWN_NETWORK_LERF)),
            *(Block(order, _PUBLISHED_ROWS, (0.1, 0.5, 0.9), seeds=1) for order in (MORF, LERF)),
        ),
        given=",".join(each.given for each in _RESNETS),
        references=len(_RESNETS),
        networks=_RESNETS,
    ),
    SuiteSpec(  # all 50,000 test images took hours on a GPU, and 1.28 million more were decoded for their mean
        name="imagenet-noretrain",
        version=2,
        about="ten test images of each class of ImageNet; torchvision's published ResNet-50 loses what is removed",
        dataset="imagenet-10k",
        model="resnet50",
        recipe="imagenet@1",
        reference_recipe="imagenet@1",
        blocks=_SCORED,
        given="torchvision:resnet50-v1@0676ba61",
    ),
    SuiteSpec(
        name="imagenet-augmented",
        version=2,
        about="the paper's estimators on ImageNet by a published ResNet-50, tuned on masks instead of retrained",
        dataset="imagenet",
        model="resnet50",
        recipe="imagenet-augmented@1",
        reference_recipe="imagenet@1",
        blocks=tuple(Block(protocol, (*BEATEN, *PAPER), PAPER_LEVELS, seeds=3) for protocol in (MATCHED, AUGMENTED)),
        given="torchvision:resnet50-v1@0676ba61",
        tuned_on=Split.TEST,  # a 26th of the maps
    ),
    _small(
        "imagenette64", "the paper's experiment on Imagenette at 64 x 64 with a ResNet-18", "resnet18", "imagenette64@1"
    ),
    _CIFAR10,
    _fast(_CIFAR10),
    _IMAGENETTE,
    _fast(_IMAGENETTE),
    _small("fashion-mnist", "the paper's experiment on Fashion-MNIST with a ResNet-8", "resnet8", "fashion-mnist@2"),
    _IMAGENET,
    SuiteSpec(
        name="imagenet",
        version=3,
        about="the paper's question at the least cost: ROAR on ImageNet at 224 x 224, ResNet-50 by a short recipe",
        dataset="imagenet",
        model="resnet50",
        recipe="imagenet-fast@1",
        reference_recipe="imagenet@1",
        blocks=(Block(ROAR, ("random", "sobel", *_SHORT_ROWS), (0.1, 0.5, 0.9), seeds=2),),
        maps=Making.BF16,
    ),
    _published("food101", "the paper's experiment: Food-101 at 224 x 224, ResNet-50", "food101@1"),
    _published("birdsnap", "the paper's experiment: Birdsnap at 224 x 224, ResNet-50", "birdsnap@1"),
    _published("imagenet-100", "every tenth class of ImageNet at 224 x 224, ResNet-50", "imagenet-100@1"),
    _published("imagenet-100-128", "every tenth class of ImageNet at 128 x 128, ResNet-50", "imagenet-100@1"),
    _published("imagenet-100-64", "every tenth class of ImageNet at 64 x 64, ResNet-50", "imagenet-100@1"),
    _published("imagenet-128", "ImageNet at 128 x 128, ResNet-50", "imagenet@1"),
    _published("imagenet-64", "ImageNet at 64 x 64, ResNet-50", "imagenet@1"),
)
