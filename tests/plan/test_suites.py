"""The named suites: frozen, and made of things that exist."""

from dataclasses import asdict, replace

import pytest

from roarbench.datasets.catalogue import DATASETS, find_dataset
from roarbench.errors import UnknownName
from roarbench.estimators.catalogue import find_estimator
from roarbench.identity import fingerprint
from roarbench.kernels.ranking import removed_count
from roarbench.models import MODELS
from roarbench.plan.points import expand
from roarbench.plan.recipe import Augmentation
from roarbench.plan.recipes import RECIPES, find_recipe
from roarbench.plan.suites import FAST, SUITES, VERSIONS, find_suite
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from roarbench.terms import Unit

# All that is computed, by hash. A published suite never changes: to change one, add its next version.
FROZEN = {
    ("quick", 1): "65055c981db94a23920ca8d24b7325ff",
    ("imagenet-noretrain", 2): "f4c6bd12063c290b2cca905e09053013",
    ("planted", 1): "94d5374ed05d245b0a4a066ffe7f8ac7",
    ("study-imagenette64", 1): "afc58ec7bf5d9aa9d0e066419505ec56",
    ("study-imagenette128", 1): "b8fbba0d1d49e7d0dd1bbe271e3d8c43",
    ("study-cifar10", 1): "5b1e1d6df0a5bfc1da576cb5892a4ba3",
    ("study-fashion-mnist", 1): "ccd78b480b00c9094cdf51b826a8e935",
    ("planted-protocols", 1): "241a3d6dafd93c5b94c4099016b9a18d",
    ("planted-leaky", 1): "67d1032249e8421a6646e493e68c85b5",
    ("planted-smooth", 1): "17d61766ab9811145dcfaf9705e7fff5",
    ("planted-placed", 1): "b22f08f511d0423ea35b3572ba40ea12",
    ("quick", 2): "2d884a827368dabcc779c8bef3b4deae",
    ("quick-specific", 1): "1d3527ca780a33d60eb411bc32237b29",
    ("imagenet-augmented", 2): "957d15e402313269011c90d34e13d9c6",
    ("quick-matched", 1): "3daa9b60ad3c2c9949bd715a23a6612b",
    ("quick", 3): "d56801968dfb8172d4dbc50262be6529",
    ("quick", 4): "2d4a33bc62f58addb914251777aa17a9",
    ("quick-matched", 2): "7d3d61ef4cf410f2dc265652e2884144",
    ("quick-matched", 3): "39e75f0d9c171078d7d8e0d035e9b0e9",
    ("quick", 5): "ffc0c477bc43e59bfd3c5c17bc41d437",
    ("quick", 6): "4700026ae21331b8f87289c34a5f7275",
    ("quick-class", 1): "6cce2c3e34a8438b0d6ff9334672c3d9",
    ("quick-exchanged", 1): "8171f872d55bd7b7f0f0f6d869feabfb",
    ("imagenette64", 2): "91aa2258d98c37f3dc2eb00b3d6ebf06",
    ("cifar10", 2): "345ebcb1d1012ef1fdbdc567f89c1898",
    ("cifar10-fast", 2): "9791d566d50cf2c1869fc0471355dea2",
    ("imagenette", 2): "127480bfa9e6282b3395d6d8c8861ae0",
    ("imagenette-fast", 2): "d58b495ced13226682a38154d5214812",
    ("fashion-mnist", 2): "c9bdbd7f42cdbcabcb8ba9ea662dc546",
    ("imagenette-brief", 2): "c096aaf5285324d6b7b4f6c6a5bb90f7",
    ("imagenet", 2): "cfaa08e68a382aa066d67e4fb7ad34fc",
    ("food101", 2): "605f9c05eedf60439c2b941b9ddc4567",
    ("birdsnap", 2): "766f4b3564ef292d67b222b65fa52900",
    ("imagenet-fast", 2): "b27d89cb83abb12c6eb5adc255c88672",
    ("imagenet-100", 2): "30b744be5c9c8cd142b4bf59973a330e",
    ("imagenet-100-128", 2): "878d9ef1989b1f222b5df7d4b0fc8871",
    ("imagenet-100-64", 2): "7776eb55636f4431b33c02074d74ea02",
    ("imagenet-128", 2): "f2ff1be202d3695885342c15e3dd03d2",
    ("imagenet-64", 2): "bf91457fc2f70dc5f65880add4f42d16",
    ("study-imagenette64", 2): "86b3b732a4c3cd5fa448f7845e6c34dc",
    ("study-imagenette128", 2): "f3c87bca009d46db8bbc7adffbddf07c",
    ("study-cifar10", 2): "4cfec4b5147ff13164160202803aff41",
    ("study-fashion-mnist", 2): "1c7326e09073edde89a8d404564899f3",
    ("breast-cancer", 1): "40982fac618bf27ad732e7cdc95506ed",
    ("breast-cancer-10", 1): "dd2ef869fee2f1980dca52053d46da2f",
    ("digits", 1): "e9992e2597ace9ed2a243620aad0b948",
}
everyone = pytest.mark.parametrize("suite", VERSIONS.values(), ids=[f"{name}-v{n}" for name, n in VERSIONS])


def test_no_suite_has_changed():
    assert {title: fingerprint(described(suite)) for title, suite in VERSIONS.items()} == FROZEN


def test_a_name_stands_for_its_newest_version():
    newest = {name: max(version for other, version in VERSIONS if other == name) for name, _ in VERSIONS}
    assert {name: suite.version for name, suite in SUITES.items()} == newest
    assert find_suite("imagenet-noretrain").version == 2
    for name, version in newest.items():  # none is left out, but first ones of which no row exists
        numbers = [number for other, number in VERSIONS if other == name]
        assert numbers == list(range(numbers[0], version + 1)) and numbers[0] in (1, 2)


def described(suite):
    """All that is computed; some fields came later and count where they are used."""
    everything = asdict(replace(suite, about=""))
    for block, asked in zip(everything["blocks"], suite.blocks, strict=True):
        protocol = asked.protocol  # what an image is paired with came later, and its name says it
        block["protocol"] = (protocol.name, protocol.order, protocol.retrain, *[True] * protocol.paired)
    later = (
        ("given", ""),
        ("maps", "float32"),
        ("references", 1),
        ("replication", 0),
        ("own", None),
        ("tuned_on", "train"),
        ("entered", frozenset()),
    )
    return {name: value for name, value in everything.items() if (name, value) not in later}


@everyone
def test_a_suite_is_made_of_things_that_exist_and_can_be_judged(suite):
    assert (suite.dataset in DATASETS, suite.model in MODELS) == (True, True)
    assert {suite.recipe, suite.reference_recipe} <= set(RECIPES)
    assert {block.fill for block in suite.blocks} == {"mean"}
    assert ("truth" in suite.estimators) == suite.dataset.startswith("planted")  # where it is known
    for estimator in suite.estimators:
        find_estimator(estimator)
    judged = [block for block in suite.blocks if block.protocol is not MASK_ONLY]  # masks of Random say nothing
    held = {(block.protocol, block.unit) for block in judged if "random" in block.estimators}
    assert held == {(block.protocol, block.unit) for block in judged}
    for cell in {point.cell for point in expand(suite)}:
        record = find_dataset(suite.dataset)
        d = record.size**2 * (record.channels if cell.unit is Unit.SCALAR else 1)
        assert cell.t == 0 or 0 < removed_count(cell.t, d) < d  # something goes, and something stays
        estimator = cell.estimator_record  # twins of other images, which paired protocols ask for, among them
        assert estimator is None or estimator.id == cell.estimator
        assert estimator is None or cell.ranked_by or estimator.form == "redrawn"


def test_a_fast_suite_is_the_other_ones_experiment_by_another_recipe():
    for name, of in FAST.items():
        fast, slow = find_suite(name), find_suite(of.of)
        assert fast.recipe == f"{slow.name}-fast@1"
        told = {"name": slow.name, "about": slow.about, "recipe": slow.recipe}
        assert replace(fast, **told) == slow  # the same reference, so the same rankings


def test_second_versions_retrain_with_moved_images_by_as_many_references_as_seeds():
    moved = {Augmentation.SHIFT_FLIP, Augmentation.CROP_FLIP}
    for suite in SUITES.values():
        trained = [block for block in suite.blocks if block.protocol is ROAR]
        if trained and suite.version > 1:
            assert find_recipe(suite.recipe).augmentation in moved
            assert suite.references == max(block.seeds for block in trained) >= 3


def test_an_unknown_suite_is_guessed():
    with pytest.raises(UnknownName, match="no suite 'quikc'; did you mean 'quick'"):
        find_suite("quikc")
    with pytest.raises(UnknownName, match="no suite 'zzz'; known: birdsnap, breast-cancer, breast-cancer-10, cifar10"):
        find_suite("zzz")
