"""The named suites. A published suite never changes: a correction is a new version under the same name."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from roarbench.calls import propose
from roarbench.errors import UnknownName
from roarbench.estimators import CONTROLS, PAPER, find_estimator
from roarbench.plan.runs import Block, Suite
from roarbench.terms import (
    AUGMENTED,
    KAR,
    LERF,
    MASK_ONLY,
    MORF,
    PAPER_LEVELS,
    ROAR,
    ROAR_EXCHANGED,
    SPECIFIC,
    SPECIFIC_CLASS,
    Precision,
    Protocol,
    Retrain,
    Split,
    Unit,
)

_CONTROLS = ("random", "sobel")  # of the paper; a blurred random map stands among the twins
_QUICK = (*_CONTROLS, "grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb")
_QUICK_TWINS = ("random-blurred", *(f"{name}~blurred" for name in _QUICK[2:]))
_ALL = (*_CONTROLS, *PAPER)
_TWINS = (
    "random-blurred",
    "random-redrawn",
    *(f"{name}~{twin}" for twin in ("blurred", "untrained", "other-target") for name in PAPER),
)
_PLANTED = ("truth", "random", "truth-inverted")
_KNOWN = ("truth", "random", "random-blurred", "sobel", "truth-inverted")  # rows whose order is known
_STUDY = (
    *_CONTROLS,
    *("grad", "grad-sq", "sg-grad", "sgsq-grad", "var-grad"),
    *("gb", "gb-sq", "sgsq-gb", "var-gb"),
    *("ig", "ig-sq"),
)


def _paper_blocks() -> tuple[Block, ...]:
    """Make the blocks of the paper's experiment with five seeds, and of the validity panel with one."""
    return (
        Block(ROAR, _ALL, PAPER_LEVELS, seeds=5),
        Block(KAR, _ALL, PAPER_LEVELS, seeds=5),
        Block(MASK_ONLY, _ALL, PAPER_LEVELS, seeds=5),
        Block(MORF, _ALL, PAPER_LEVELS, seeds=1),
        Block(LERF, _ALL, PAPER_LEVELS, seeds=1),
        Block(ROAR, _TWINS, PAPER_LEVELS, seeds=1),
        Block(ROAR, _ALL, PAPER_LEVELS, seeds=1, unit=Unit.PIXEL),
    )


def _study_blocks(*units: Unit) -> tuple[Block, ...]:
    """Make the blocks of docs/study: does the class show in the masks where the paper's claims do not hold?"""
    levels, first = (0.1, 0.5, 0.9), units[0]
    return (
        *(Block(ROAR, _STUDY, levels, seeds=2 if unit is first else 1, unit=unit) for unit in units),
        *(Block(MASK_ONLY, (*_STUDY, "random-blurred"), (0.9,), seeds=1, unit=unit) for unit in units),
        *(Block(ROAR, ("random-blurred",), levels, seeds=1, unit=unit) for unit in units),
        Block(ROAR, ("grad~blurred", "var-grad~blurred"), levels, seeds=1, unit=first),
    )


def _known(name: str, about: str, dataset: str, *rows: str) -> Suite:
    """Make a suite that judges the protocols: on generated images it is known which rows are better."""
    levels, everyone = (0.5,), (*_KNOWN, *rows)
    asked = (ROAR, KAR, SPECIFIC, AUGMENTED, ROAR_EXCHANGED)
    return Suite(
        name=name,
        version=1,
        about=about,
        dataset=dataset,
        model="resnet-planted",
        recipe="planted-brief@1",
        reference_recipe="planted-brief@1",
        blocks=(
            *(Block(protocol, everyone, levels, seeds=3) for protocol in asked),
            *(Block(protocol, everyone, levels, seeds=1) for protocol in (MORF, LERF)),
            Block(MASK_ONLY, ("truth", "random", *(name for name in rows if name == "leak")), levels, seeds=1),
        ),
        references=3,
    )


def _published_blocks() -> tuple[Block, ...]:
    """Make the paper's blocks at its size: retraining costs GPU months, scoring the reference hours."""
    return (
        Block(ROAR, _ALL, PAPER_LEVELS, seeds=5),
        Block(KAR, _ALL, PAPER_LEVELS, seeds=5),
        Block(MORF, _ALL, PAPER_LEVELS, seeds=1),
        Block(LERF, _ALL, PAPER_LEVELS, seeds=1),
    )


def _small(name: str, about: str, model: str, recipe: str, reference_recipe: str = "", dataset: str = "") -> Suite:
    """Make a suite of the paper's experiment and the validity panel on small images."""
    return Suite(
        name=name,
        version=1,
        about=about,
        dataset=dataset or name,
        model=model,
        recipe=recipe,
        reference_recipe=reference_recipe or recipe,
        blocks=_paper_blocks(),
    )


def _published(name: str, about: str, recipe: str, reference_recipe: str = "", dataset: str = "") -> Suite:
    """Make a suite of the paper's experiment with its network, on its data or on a reduced form of them."""
    return replace(_small(name, about, "resnet50", recipe, reference_recipe, dataset), blocks=_published_blocks())


_TABLE = (
    Suite(
        name="quick",
        version=1,
        about="Imagenette at 64 x 64 with a small network: eight rankings in minutes on two cores",
        dataset="imagenette64",
        model="resnet-quick",
        recipe="quick@1",
        reference_recipe="quick-reference@1",
        blocks=(
            Block(ROAR, _QUICK, (0.5, 0.9), seeds=2),
            Block(MORF, _QUICK, (0.5, 0.9), seeds=1),
            Block(LERF, _QUICK, (0.5, 0.9), seeds=1),
            Block(KAR, _QUICK, (0.9,), seeds=1),
            Block(MASK_ONLY, _QUICK, (0.9,), seeds=1),
            Block(ROAR, _QUICK_TWINS, (0.5, 0.9), seeds=1),
        ),
    ),
    _small(
        "imagenette64", "the paper's experiment on Imagenette at 64 x 64 with a ResNet-18", "resnet18", "imagenette64@1"
    ),
    _small("cifar10", "the paper's experiment on CIFAR-10 with a ResNet-8", "resnet8", "cifar10@1"),
    _small("fashion-mnist", "the paper's experiment on Fashion-MNIST with a ResNet-8", "resnet8", "fashion-mnist@1"),
    _small(
        "cifar10-fast",
        "cifar10 by a short recipe; the same reference and rankings",
        "resnet8",
        "cifar10-fast@1",
        dataset="cifar10",
        reference_recipe="cifar10@1",
    ),
    _small(
        "imagenette", "the paper's experiment on Imagenette at 128 x 128 with a ResNet-18", "resnet18", "imagenette@1"
    ),
    Suite(
        name="imagenette-brief",
        version=1,
        about="eight rankings at three levels on Imagenette at 128 x 128 with a ResNet-18; runs that imagenette shares",
        dataset="imagenette",
        model="resnet18",
        recipe="imagenette@1",
        reference_recipe="imagenette@1",
        blocks=(Block(ROAR, _QUICK, (0.1, 0.5, 0.9), seeds=2),),
    ),
    _small(
        "imagenette-fast",
        "imagenette by a short recipe; the same reference and rankings",
        "resnet18",
        "imagenette-fast@1",
        dataset="imagenette",
        reference_recipe="imagenette@1",
    ),
    _published("imagenet", "the paper's experiment: ImageNet at 224 x 224, ResNet-50", "imagenet@1"),
    _published("food101", "the paper's experiment: Food-101 at 224 x 224, ResNet-50", "food101@1"),
    _published("birdsnap", "the paper's experiment: Birdsnap at 224 x 224, ResNet-50", "birdsnap@1"),
    _published(
        "imagenet-fast",
        "imagenet by a short recipe; the same reference and rankings",
        "imagenet-fast@1",
        reference_recipe="imagenet@1",
        dataset="imagenet",
    ),
    _published("imagenet-100", "every tenth class of ImageNet at 224 x 224, ResNet-50", "imagenet-100@1"),
    _published("imagenet-100-128", "every tenth class of ImageNet at 128 x 128, ResNet-50", "imagenet-100@1"),
    _published("imagenet-100-64", "every tenth class of ImageNet at 64 x 64, ResNet-50", "imagenet-100@1"),
    _published("imagenet-128", "ImageNet at 128 x 128, ResNet-50", "imagenet@1"),
    _published("imagenet-64", "ImageNet at 64 x 64, ResNet-50", "imagenet@1"),
    Suite(
        name="imagenet-noretrain",
        version=1,
        about="ImageNet without any training: torchvision's published ResNet-50 loses what is removed",
        dataset="imagenet",
        model="resnet50",
        recipe="imagenet@1",
        reference_recipe="imagenet@1",
        blocks=(Block(MORF, _ALL, PAPER_LEVELS, seeds=1), Block(LERF, _ALL, PAPER_LEVELS, seeds=1)),
        given="torchvision:resnet50-v1@0676ba61",
    ),
    Suite(  # all 50,000 test images took hours on a GPU, and 1.28 million more were decoded for their mean
        name="imagenet-noretrain",
        version=2,
        about="ten test images of each class of ImageNet; torchvision's published ResNet-50 loses what is removed",
        dataset="imagenet-10k",
        model="resnet50",
        recipe="imagenet@1",
        reference_recipe="imagenet@1",
        blocks=(Block(MORF, _ALL, PAPER_LEVELS, seeds=1), Block(LERF, _ALL, PAPER_LEVELS, seeds=1)),
        given="torchvision:resnet50-v1@0676ba61",
    ),
    Suite(
        name="imagenet-augmented",
        version=1,
        about="the paper's estimators on ImageNet by a published ResNet-50, tuned on removed-maps instead of retrained",
        dataset="imagenet",
        model="resnet50",
        recipe="imagenet-augmented@1",
        reference_recipe="imagenet@1",
        blocks=tuple(
            Block(protocol, (*_ALL, "random-blurred"), PAPER_LEVELS, seeds=3) for protocol in (SPECIFIC, AUGMENTED)
        ),
        given="torchvision:resnet50-v1@0676ba61",
    ),
    Suite(
        name="planted",
        version=1,
        about="generated images whose true ranking is known: the harness's own proof",
        dataset="planted",
        model="resnet-planted",
        recipe="planted@1",
        reference_recipe="planted@1",
        blocks=(
            Block(ROAR, _PLANTED, PAPER_LEVELS, seeds=2),
            Block(KAR, _PLANTED, PAPER_LEVELS, seeds=2),
        ),
    ),
    _known("planted-protocols", "planted under every protocol: who finds the order that is known?", "planted"),
    _known(
        "planted-leaky",
        "the same where the true ranking's masks tell the class, with a row that knows nothing else",
        "planted-leaky",
        "leak",
    ),
    _known(
        "planted-smooth",
        "the same where features lie in blobs, with a noisy true map and its blur, which is better",
        "planted-smooth",
        *("truth-noisy", "truth-noisy-blurred"),
    ),
    _known(
        "planted-placed",
        "the same where features stand at one place, so that another image's map is as good as the own one",
        "planted-placed",
    ),
    Suite(
        name="study-imagenette64",
        version=1,
        about="the study of leakage through masks: Imagenette at 64 x 64, 13 rankings, both units",
        dataset="imagenette64",
        model="resnet-quick",
        recipe="quick@1",
        reference_recipe="quick-reference@1",
        blocks=_study_blocks(Unit.SCALAR, Unit.PIXEL),
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
            Block(ROAR, _QUICK, (0.1, 0.5, 0.9), seeds=2),
            Block(MASK_ONLY, (*_QUICK, "random-blurred"), (0.9,), seeds=1),
            Block(ROAR, ("random-blurred",), (0.1, 0.5, 0.9), seeds=1),
            Block(ROAR, (*_CONTROLS, "sgsq-grad", "var-grad"), (0.1, 0.5, 0.9), seeds=2, unit=Unit.PIXEL),
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
        blocks=_study_blocks(Unit.SCALAR, Unit.PIXEL),
    ),
    Suite(
        name="study-fashion-mnist",
        version=1,
        about="the study of leakage through masks: Fashion-MNIST, 13 rankings; one channel, so both units are one",
        dataset="fashion-mnist",
        model="resnet-quick",
        recipe="study-fashion-mnist@1",
        reference_recipe="study-fashion-mnist-reference@1",
        blocks=_study_blocks(Unit.SCALAR),
    ),
)
_TABULAR_ROWS = ("random", "grad", "grad-sq", "input-x-grad", "ig", "ig(baseline=mean)", "sgsq-grad", "var-grad")


def _tabular(name: str, about: str, retrained: tuple[float, ...], *rows: str) -> Suite:
    """Make a suite on a table: trainings take a fraction of a second, so there are 20 references and seeds.

    Args:
        name: Of the suite and its data.
        about: One sentence.
        retrained: Levels at which networks are trained from scratch.
        rows: Beside those of all tables.
    """
    many, levels, everyone = 20, (0.1, 0.5, 0.9), (*_TABULAR_ROWS, *rows)
    return Suite(
        name=name,
        version=1,
        about=about,
        dataset=name,
        model="mlp",
        recipe="tabular@1",
        reference_recipe="tabular@1",
        blocks=(
            *(Block(protocol, everyone, levels, seeds=many) for protocol in (SPECIFIC, AUGMENTED)),
            *(Block(protocol, everyone, retrained, seeds=many) for protocol in (ROAR, ROAR_EXCHANGED)),
            *(Block(order, everyone, levels, seeds=1) for order in (MORF, LERF)),
            Block(MASK_ONLY, everyone, retrained, seeds=3),
        ),
        references=many,
    )


_FIRST = {suite.name: suite for suite in _TABLE}
_QUICK_2_ROWS = ("grad", "sgsq-grad", "var-grad", "ig", "gb")
_QUICK_2 = replace(
    _FIRST["quick"],
    version=2,
    about="Imagenette at 64 x 64 with a small network: five estimators by three references in minutes on two cores",
    recipe="quick@2",
    reference_recipe="quick@2",
    blocks=(
        *(Block(protocol, (*CONTROLS, *_QUICK_2_ROWS), (0.1, 0.5, 0.9), seeds=3) for protocol in (SPECIFIC, AUGMENTED)),
        Block(ROAR, ("random", *_QUICK_2_ROWS), (0.9,), seeds=3),
        Block(ROAR, ("random-blurred", "sobel", "sobel-released"), (0.9,), seeds=1),
        *(Block(order, (*CONTROLS, *_QUICK_2_ROWS), (0.9,), seeds=1) for order in (MORF, LERF)),
        Block(MASK_ONLY, ("grad", "sgsq-grad", "var-grad"), (0.9,), seeds=1),
    ),
    maps=Precision.BF16,
    references=3,
)

_QUICK_SPECIFIC = replace(  # a third of the maps: of the training images those of the controls alone
    _QUICK_2,
    name="quick-specific",
    version=1,
    about="quick's specific gain in minutes: training images carry test images' masks where networks are tuned",
    blocks=_QUICK_2.blocks[:2],
    tuned_on=Split.TEST,
)

_IMAGENET_AUGMENTED_2 = replace(  # a 26th of the maps
    _FIRST["imagenet-augmented"], version=2, tuned_on=Split.TEST
)

_QUICK_CLASS = replace(
    _QUICK_2,
    name="quick-class",
    version=1,
    about="quick's networks, each image beside another one of its class, so that no mask's class counts",
    blocks=(Block(SPECIFIC_CLASS, (*CONTROLS, *_QUICK_2_ROWS), (0.1, 0.5, 0.9), seeds=3),),
)

_QUICK_EXCHANGED = replace(
    _QUICK_2,
    name="quick-exchanged",
    version=1,
    about="ROAR on quick's images with masks that were tied to no class while a network learnt, and within classes",
    blocks=(
        Block(ROAR_EXCHANGED, ("random", "random-blurred", "sobel", *_QUICK_2_ROWS), (0.9,), seeds=3),
        Block(ROAR, ("random", *_QUICK_2_ROWS), (0.9,), seeds=3),
        Block(ROAR_EXCHANGED, tuple(f"{name}~other-image" for name in _QUICK_2_ROWS), (0.9,), seeds=1),
        Block(ROAR, tuple(f"{name}~same-class" for name in _QUICK_2_ROWS), (0.9,), seeds=1),
    ),
)


def _crossed(name: str, references: int, recipe: str = "") -> Suite:
    """Make the second version of a suite: several references, and each seed ranked by one of them."""
    first = _FIRST[name]
    recipe = recipe or first.recipe
    return replace(
        first,
        version=2,
        references=references,
        recipe=recipe,
        reference_recipe=first.reference_recipe if recipe == first.recipe else recipe,
        blocks=tuple(
            replace(block, seeds=references) if block.protocol is ROAR and block.seeds > 1 else block
            for block in first.blocks
        ),
    )


_SECOND = (
    _QUICK_2,
    _QUICK_SPECIFIC,
    _IMAGENET_AUGMENTED_2,
    _QUICK_CLASS,
    _QUICK_EXCHANGED,
    *(_crossed(name, 5) for name in ("imagenette64", "cifar10", "cifar10-fast", "imagenette", "imagenette-fast")),
    _crossed("fashion-mnist", 5, "fashion-mnist@2"),
    _crossed("imagenette-brief", 3),
    *(
        _crossed(name, 5)
        for name in ("imagenet", "food101", "birdsnap", "imagenet-fast")
        + ("imagenet-100", "imagenet-100-128", "imagenet-100-64", "imagenet-128", "imagenet-64")
    ),
    *(_crossed(f"study-{name}", 3, "quick@2") for name in ("imagenette64", "imagenette128")),
    *(_crossed(f"study-{name}", 3, f"study-{name}@2") for name in ("cifar10", "fashion-mnist")),
    _tabular(
        "breast-cancer", "a table of 30 measures of cell nuclei, a small perceptron, 20 references", (0.1, 0.5, 0.9)
    ),
    _tabular(
        "breast-cancer-10",
        "the ten means of breast-cancer, few enough for exact Shapley values, 20 references",
        (0.1, 0.5, 0.9),
        "shapley",
    ),
    _tabular("digits", "handwritten digits as a table of 64 columns, a small perceptron, 20 references", (0.9,)),
)
VERSIONS = {(suite.name, suite.version): suite for suite in (*_TABLE, *_SECOND)}
SUITES = {suite.name: suite for suite in VERSIONS.values()}  # the newest of each name: versions follow each other


class Likeness(NamedTuple):
    """Agreement of a fast suite with the one that it shortens in the order of the estimators, on a small version.

    Attributes:
        of: The suite that it shortens.
        tau: Kendall's tau of the gains under ROAR with its interval of 95%; None where it was not measured.
        source: On what, and by which program.
    """

    of: str
    tau: tuple[float, float, float] | None
    source: str


FAST = {
    "cifar10-fast": Likeness(
        "cifar10",
        (0.733, 0.333, 1.0),
        "6 rankings, t .5 and .9, 2 seeds on 2,000 images (benchmarks/fast_agreement.py, 2026-11-20)",
    ),
    "imagenette-fast": Likeness("imagenette", None, ""),
    "imagenet-fast": Likeness("imagenet", None, ""),
}


def find_suite(name: str) -> Suite:
    """Return the newest suite of this name, or the one of `NAME@VERSION`.

    Raises:
        UnknownName: There is none.
    """
    versions = {f"{suite.name}@{suite.version}": suite for suite in VERSIONS.values()}
    if name not in SUITES and name not in versions:
        raise UnknownName("suite", name, versions if "@" in name else SUITES, propose("suites"))
    return SUITES.get(name) or versions[name]


def leading(suite: Suite) -> tuple[Protocol, ...]:
    """Return the protocols whose tables a finished run shows: the suite's first, and ROAR beside it."""
    has = [block.protocol for block in suite.blocks]
    return tuple(dict.fromkeys((has[0], *(protocol for protocol in has if protocol == ROAR))))


def own_reference(suite: Suite) -> str:
    """Return what this suite and version explains unless told otherwise: `Suite.given` of the table."""
    return "" if suite.own else VERSIONS.get((suite.name, suite.version), suite).given


def with_given(suite: Suite, given: str) -> Suite:
    """Return a suite that explains these weights, as many references as they are, or its own where none are given.

    The cells with the most seeds have at least one for each of the weights: none are given for nothing.

    Args:
        suite: Which.
        given: As `Suite.given`.
    """
    if given == suite.given:
        return suite
    own = (suite.own or VERSIONS.get((suite.name, suite.version), suite)).references
    references = len(given.split(",")) if given else own
    trained = [block.seeds for block in suite.blocks if block.protocol.retrain is not Retrain.NONE]
    blocks = tuple(
        replace(block, seeds=references) if max(trained, default=0) == block.seeds < references else block
        for block in suite.blocks
    )
    return replace(suite, given=given, references=references, blocks=blocks)


def with_entries(suite: Suite, entries: Iterable[str]) -> Suite:
    """Add what a suite does not name: what joins any suite wherever it has Random, other parameters of its estimators.

    Those stand wherever the suite has the same estimator with the default parameters. Both have twins: what explains a
    model and joins wherever the suite has twins of estimators, the others wherever it has those of the default.

    What is added is no part of a suite: its name and version stay, and so do the keys of its runs.
    """
    names = tuple(dict.fromkeys(find_estimator(entry).parent for entry in entries))
    blocks = (
        replace(block, estimators=tuple(dict.fromkeys((*block.estimators, *_entries_in(block, names)))))
        for block in suite.blocks
    )
    return replace(suite, blocks=tuple(blocks))


def _entries_in(block: Block, names: Iterable[str]) -> Iterator[str]:
    """Return what a block has of submissions and of estimators with parameters."""
    twins = [row for row in block.estimator_records if row.twin and not row.control]
    for name in names:
        estimator = find_estimator(name)
        if estimator.joins:  # what the block has of the estimators that explain a model
            has = _CONTROLS[0] in block.estimators or block.protocol is MASK_ONLY
            kinds = [row.twin for row in twins if not estimator.control]
        else:
            like = estimator.default
            has, kinds = like in block.estimators, [row.twin for row in twins if row.parent == like]
        yield from (name,) if has else ()  # rows of masks need no Random beside them
        yield from (f"{name}~{kind}" for kind in dict.fromkeys(kinds))
