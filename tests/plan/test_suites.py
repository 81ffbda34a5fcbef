"""The named suites: frozen, and made of things that exist."""

from dataclasses import asdict, replace

import pytest

from roarbench.datasets.catalogue import DATASETS, find_dataset
from roarbench.errors import UnknownName
from roarbench.estimators.catalogue import PAPER, find_estimator
from roarbench.identity import fingerprint
from roarbench.kernels.ranking import removed_count
from roarbench.models import MODELS
from roarbench.plan.points import expand
from roarbench.plan.recipe import Augmentation
from roarbench.plan.recipes import RECIPES, find_recipe
from roarbench.plan.suites import FAST, SUITES, VERSIONS, find_suite
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
    Retrain,
    Unit,
)

# All that is computed, by hash. A published suite never changes: to change one, add its next version.
FROZEN = {
    ("quick", 1): "65055c981db94a23920ca8d24b7325ff",
    ("imagenette64", 1): "a6d8864dd1ba595d74e82e93a6e3df23",
    ("cifar10", 1): "3960ef50b2a105a68e06d9c49f8103bc",
    ("fashion-mnist", 1): "162351be9f2ffd70db935bd8a06dd144",
    ("cifar10-fast", 1): "04d6a2d66c043945c8ffb4e02beb4635",
    ("imagenette", 1): "7c10c283a2c0fe4af021fa960218a886",
    ("imagenette-brief", 1): "e75ec36372caa14dcdc95880717ae3a2",
    ("imagenette-fast", 1): "aea7a89ad2aeacf3ce72d2587ece7a7b",
    ("imagenet", 1): "869ddb3fc20e513748c167a52040e2ba",
    ("food101", 1): "573dfed4e848631f6ceb15bdd4e5a79d",
    ("birdsnap", 1): "167f0c0f10ce9f9c45f8a70647594e21",
    ("imagenet-fast", 1): "8631c14b69cbac7ed3311a509ac05185",
    ("imagenet-100", 1): "6741897c53685f58cc04494ed86a245c",
    ("imagenet-100-128", 1): "94244808712abab4707f779b3a0d7a80",
    ("imagenet-100-64", 1): "b1f95091b635b01bf1a1510de77edc01",
    ("imagenet-128", 1): "355d3a9eab49feaec7279932f8b6c9bb",
    ("imagenet-64", 1): "1d29ffb8e3c5d25a166bec39b121f3aa",
    ("imagenet-noretrain", 1): "fc55b59f995a38f824c10f64b207faed",
    ("imagenet-noretrain", 2): "f4c6bd12063c290b2cca905e09053013",
    ("imagenet-augmented", 1): "61b65c54a62efcdf34a3e36a3aaa73eb",
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
    ("quick-matched", 1): "f64e6c6aedc9f678cdc6f43ceca6ebf3",
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


def blocks(name, protocol, unit=Unit.SCALAR):
    return [block for block in find_suite(name).blocks if (block.protocol, block.unit) == (protocol, unit)]


def test_no_suite_has_changed():
    assert {title: fingerprint(described(suite)) for title, suite in VERSIONS.items()} == FROZEN


def test_a_name_stands_for_its_newest_version():
    newest = {name: max(version for other, version in VERSIONS if other == name) for name, _ in VERSIONS}
    assert {name: suite.version for name, suite in SUITES.items()} == newest
    assert find_suite("imagenet-noretrain").version == 2
    for name, version in newest.items():  # none is left out
        assert [number for other, number in VERSIONS if other == name] == list(range(1, version + 1))


def described(suite):
    """All that is computed; some fields came later and count where they are used."""
    everything = asdict(replace(suite, about=""))
    for block in everything["blocks"]:
        protocol = block["protocol"]  # what an image is paired with came later, and its name says it
        block["protocol"] = (*protocol[:3], True) if protocol.paired else protocol[:3]
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
def test_everything_that_a_suite_names_exists(suite):
    assert suite.dataset in DATASETS
    assert suite.model in MODELS
    assert {suite.recipe, suite.reference_recipe} <= set(RECIPES)
    for estimator in suite.estimators:
        find_estimator(estimator)
    assert {block.fill for block in suite.blocks} == {"mean"}


@everyone
def test_every_level_removes_something_and_leaves_something(suite):
    record = find_dataset(suite.dataset)
    for point in expand(suite):
        d = record.size**2 * (record.channels if point.cell.unit is Unit.SCALAR else 1)
        assert point.cell.t == 0 or 0 < removed_count(point.cell.t, d) < d


@everyone
def test_every_protocol_is_held_against_random(suite):
    for block in suite.blocks:
        if block.protocol is MASK_ONLY:  # no gains; masks of Random say nothing
            continue
        assert "random" in {
            name
            for same in suite.blocks
            for name in same.estimators
            if (same.protocol, same.unit) == (block.protocol, block.unit)
        }


@pytest.mark.parametrize("name", FAST)
def test_a_fast_suite_is_the_other_ones_experiment_by_another_recipe(name):
    fast, slow = find_suite(name), find_suite(FAST[name].of)
    assert fast.recipe == f"{slow.name}-fast@1"
    told = {"name": slow.name, "about": slow.about, "recipe": slow.recipe}
    assert replace(fast, **told) == slow  # the same reference, so the same rankings


def test_every_fast_recipe_is_in_a_fast_suite_alone():
    assert {suite.name for suite in SUITES.values() if "-fast" in suite.recipe} == set(FAST)


@everyone
def test_the_true_ranking_is_asked_for_where_it_is_known(suite):
    assert ("truth" in suite.estimators) == suite.dataset.startswith("planted")


@pytest.mark.parametrize("name", ["imagenet", "food101", "birdsnap", "imagenet-fast", "imagenet-100", "imagenet-64"])
def test_the_papers_experiment_at_its_size(name):
    suite = find_suite(name)
    assert suite.model == "resnet50"
    for protocol, seeds in ((ROAR, 5), (KAR, 5), (MORF, 1), (LERF, 1)):
        (block,) = blocks(name, protocol)
        assert (set(block.estimators), block.levels, block.seeds) == ({"random", "sobel", *PAPER}, PAPER_LEVELS, seeds)
        assert block.unit is Unit.SCALAR
    retrained = [point for point in expand(suite) if point.cell.retrain is Retrain.IMAGES]
    assert len(retrained) == 2 * 20 * 5 * 5 + 5  # both protocols share the untouched images


def test_scoring_published_weights_took_the_whole_test_split_and_takes_ten_of_each_class():
    first, second = (VERSIONS["imagenet-noretrain", version] for version in (1, 2))
    assert replace(second, version=1, about=first.about, dataset="imagenet") == first
    assert find_dataset(second.dataset).test_images == 10 * find_dataset(second.dataset).classes
    assert {point.cell.retrain for point in expand(second)} == {Retrain.NONE}


@pytest.mark.parametrize("name", ["imagenet-64", "imagenet-128"])
def test_a_smaller_imagenet_differs_in_its_images_alone(name):
    small, whole = find_suite(name), find_suite("imagenet")
    assert replace(small, name=whole.name, about=whole.about, dataset=whole.dataset) == whole


def test_quick_is_what_make_run_promises():
    quick, five = find_suite("quick"), {"grad", "sgsq-grad", "var-grad", "ig", "gb"}
    assert (quick.references, quick.recipe, quick.reference_recipe) == (3, "quick@2", "quick@2")
    seeds = {name: block.seeds for block in blocks("quick", ROAR) for name in block.estimators}
    assert seeds == dict.fromkeys({"random", *five}, 3) | dict.fromkeys(
        ("random-blurred", "sobel", "sobel-released"), 1
    )
    (specific,) = blocks("quick", SPECIFIC)
    assert quick.blocks[0] is specific  # it leads
    assert set(specific.estimators) == {"random", "sobel", "random-blurred", *five}
    assert (specific.seeds, specific.levels) == (3, (0.1, 0.5, 0.9))
    for protocol in (MORF, LERF):
        (block,) = blocks("quick", protocol)
        assert set(block.estimators) == {"random", "sobel", "random-blurred", *five}
    recipe = find_recipe(quick.recipe)
    assert (recipe.epochs, recipe.augmentation) == (10, Augmentation.SHIFT_FLIP)


def test_second_versions_retrain_with_moved_images_by_as_many_references_as_seeds():
    moved = {Augmentation.SHIFT_FLIP, Augmentation.CROP_FLIP}
    for suite in SUITES.values():
        trained = [block for block in suite.blocks if block.protocol is ROAR]
        if trained and suite.version > 1:
            assert find_recipe(suite.recipe).augmentation in moved
            assert suite.references == max(block.seeds for block in trained) >= 3


def test_the_first_quick_is_what_it_was():
    eight = {"random", "sobel", "grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb"}
    roar, *twins = blocks("quick@1", ROAR)
    assert (set(roar.estimators), roar.levels, roar.seeds) == (eight, (0.5, 0.9), 2)
    for protocol, levels in ((MORF, (0.5, 0.9)), (LERF, (0.5, 0.9)), (KAR, (0.9,)), (MASK_ONLY, (0.9,))):
        (block,) = blocks("quick@1", protocol)
        assert (set(block.estimators), block.levels, block.seeds) == (eight, levels, 1)
    assert all(find_estimator(name).twin for block in twins for name in block.estimators)
    assert find_suite("quick@1").dataset == "imagenette64"


@pytest.mark.parametrize(
    "name, model",
    [("imagenette64", "resnet18"), ("imagenette", "resnet18"), ("cifar10", "resnet8"), ("fashion-mnist", "resnet8")],
)
def test_the_papers_experiment(name, model):
    suite = find_suite(name)
    assert (suite.dataset, suite.model) == (name, model)
    for protocol in (ROAR, KAR, MASK_ONLY):
        whole = blocks(name, protocol)[0]
        assert (set(whole.estimators), whole.levels, whole.seeds) == ({"random", "sobel", *PAPER}, PAPER_LEVELS, 5)
    assert len(PAPER) == 18


def test_planted_judges_the_harness_both_ways():
    for protocol in (ROAR, KAR):
        (block,) = blocks("planted", protocol)
        assert set(block.estimators) == {"truth", "random", "truth-inverted"}
        assert block.seeds > 1  # intervals need two


@pytest.mark.parametrize("name", ["planted-protocols", "planted-leaky", "planted-smooth", "planted-placed"])
def test_each_protocol_is_asked_for_the_order_that_is_known(name):
    suite = find_suite(name)
    assert {block.protocol for block in suite.blocks} == {
        *(ROAR, KAR, MASK_ONLY, MORF, LERF),
        *(SPECIFIC, AUGMENTED, ROAR_EXCHANGED),
    }
    extra = {"planted-leaky": {"leak"}, "planted-smooth": {"truth-noisy", "truth-noisy-blurred"}}.get(name, set())
    for block in suite.blocks:
        if block.protocol is not MASK_ONLY:
            assert set(block.estimators) == {"truth", "random", "random-blurred", "sobel", "truth-inverted", *extra}
    assert suite.references == 3


def test_an_unknown_suite_is_guessed():
    with pytest.raises(UnknownName, match="no suite 'quikc'; did you mean 'quick'"):
        find_suite("quikc")
    with pytest.raises(UnknownName, match="no suite 'zzz'; known: birdsnap, breast-cancer, breast-cancer-10, cifar10"):
        find_suite("zzz")


@everyone
def test_every_cell_has_an_estimator_and_rankings_to_go_by(suite):
    """Twins of other images, which paired protocols ask for, among them."""
    for point in expand(suite):
        record = point.cell.estimator_record
        assert record is None or record.id == point.cell.estimator
        assert record is None or point.cell.ranked_by or record.form == "redrawn"
