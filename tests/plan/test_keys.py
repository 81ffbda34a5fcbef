"""Where the files of a store lie, and how a planned point becomes a run."""

from dataclasses import replace

import pytest

from roarbench.estimators.catalogue import find_estimator
from roarbench.identity import fingerprint
from roarbench.plan.keys import bind, needs_reference, reference_of, stored_levels
from roarbench.plan.points import Point, expand
from roarbench.plan.runs import CLEAN, Cell, Reference
from roarbench.plan.suite import REFERENCE_SEED, Block
from roarbench.plan.suites import VERSIONS, find_suite, with_given
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.terms import PAPER_LEVELS, Making, Order, Retrain, Unit

QUICK = find_suite("quick@1")


def cell(estimator: str, retrain: Retrain = Retrain.IMAGES, t: float = 0.9) -> Cell:
    return Cell("imagenette64", "resnet-quick", estimator, Order.MORF, retrain, "mean", Unit.SCALAR, t)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_of_json_has_no_hash(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        fingerprint({"t": number})


def test_the_reference_has_a_seed_that_no_retrained_network_has():
    reference = reference_of(QUICK, "da7a")
    assert reference == Reference("imagenette64", "da7a", "resnet-quick", "quick-reference@1", REFERENCE_SEED)
    assert (
        max(point.seed for suite in ("quick", "imagenette64") for point in expand(find_suite(suite))) < REFERENCE_SEED
    )


def test_a_run_names_the_reference_where_its_outcome_depends_on_it():
    for estimator, retrain, t, needed in (
        ("grad", Retrain.IMAGES, 0.9, True),
        ("grad", Retrain.MASKS, 0.9, True),
        ("grad~untrained", Retrain.IMAGES, 0.9, True),  # its targets are the reference's
        ("random", Retrain.IMAGES, 0.9, False),
        ("random", Retrain.NONE, 0.9, True),
        (CLEAN, Retrain.NONE, 0.0, True),
        (CLEAN, Retrain.IMAGES, 0.0, False),
    ):
        point = Point(cell(estimator, retrain, t), 1)
        assert needs_reference(point.cell) == needed
        assert bind(QUICK, point, "da7a", None).reference == (reference_of(QUICK, "da7a").key if needed else "")


def test_a_bound_run_has_all_that_fixes_it():
    run = bind(QUICK, Point(cell("grad"), 1), "da7a", 40)
    assert run.cell == cell("grad")
    assert (run.seed, run.recipe, run.data, run.limit) == (1, "quick@1", "da7a", 40)
    assert run.estimator == find_estimator("grad").fingerprint
    assert bind(QUICK, Point(cell(CLEAN, t=0.0), 1), "da7a", None).estimator == ""
    unretrained = bind(QUICK, Point(cell("grad", Retrain.NONE), 0), "da7a", None)
    assert unretrained.recipe == "quick-reference@1"  # that of the network which is scored


def test_the_precision_of_maps_is_part_of_a_run_that_depends_on_them():
    short = replace(QUICK, maps=Making.BF16)
    for estimator, maps in (
        ("grad", Making.BF16),
        ("grad~untrained", Making.BF16),
        ("sobel~blurred", Making.FLOAT32),
        ("somebody@01234567", Making.FLOAT32),  # a sandbox explains in float32
        (CLEAN, Making.FLOAT32),
    ):
        for retrain in (Retrain.IMAGES, Retrain.NONE):
            point = Point(cell(estimator, retrain), 0)
            run, exact = bind(short, point, "da7a", None), bind(QUICK, point, "da7a", None)
            assert (run.maps, exact.maps) == (maps, Making.FLOAT32)
            assert (run.key == exact.key) == (maps is Making.FLOAT32)
            assert run.reference == exact.reference  # the model that is explained is the same


def test_a_control_without_the_reference_is_shared_by_suites_that_train_alike():
    other = replace(QUICK, name="other", version=7, reference_recipe="planted@1")
    random, grad = (Point(cell(name), 0) for name in ("random", "grad"))
    assert bind(QUICK, random, "da7a", None).key == bind(other, random, "da7a", None).key
    assert bind(QUICK, grad, "da7a", None).key != bind(other, grad, "da7a", None).key


def test_rankings_are_stored_for_the_papers_levels_or_more():
    assert stored_levels(QUICK) == PAPER_LEVELS  # so that it shares them with the whole suite
    finer = replace(QUICK, blocks=(Block(ROAR, ("grad",), (0.05, 0.9), seeds=1), Block(MORF, ("grad",), (0.95,), 1)))
    assert stored_levels(finer) == (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
    assert stored_levels(replace(QUICK, blocks=(Block(LERF, ("grad",), (0.9, 0.1), seeds=1),))) == PAPER_LEVELS


FILE, OTHER = f"file@{'0a1b' * 8}", f"file@{'2c3d' * 8}"


@pytest.mark.parametrize(
    ("suite", "pinned"),
    [
        (("quick", 1), "a6bce56e9ccb9e91d58f964dcebf72c4"),
        (("planted", 1), "203d3917f97e33ab45845f3a25a52a2c"),
        (("imagenet-noretrain", 2), "c6a23f68ad33e08d930c36a6695359d5"),
    ],
)
def test_keys_with_one_given_network_are_those_from_before_there_could_be_several(suite, pinned):
    given = with_given(VERSIONS[suite], FILE)
    assert fingerprint(sorted(bind(given, point, "da7a", None).key for point in expand(given))) == pinned


def test_each_given_network_explains_its_seeds_whatever_else_is_given():
    both = with_given(QUICK, f"{FILE},{OTHER}")
    assert (both.references, both.title) == (2, QUICK.title)
    for seed, alone in ((0, FILE), (1, OTHER), (2, FILE)):
        for estimator in ("grad", "random"):
            point = Point(cell(estimator), seed)
            assert bind(both, point, "da7a", None) == bind(with_given(QUICK, alone), point, "da7a", None)
    scored = {
        point.seed: bind(both, point, "da7a", None)
        for point in expand(both)
        if point.cell == cell("grad", Retrain.NONE)
    }
    assert {seed: run.given for seed, run in scored.items()} == {0: FILE, 1: OTHER}


def test_given_networks_take_the_place_of_the_suites_own():
    suite = find_suite("quick@2")
    assert suite.references == 3
    one = with_given(suite, FILE)
    assert one.references == 1
    assert {bind(one, point, "da7a", None).given for point in expand(one)} == {"", FILE}
    assert with_given(one, "") == suite
    four = with_given(suite, ",".join(f"file@{number}" for number in range(4)))
    assert [block.seeds for block in four.blocks] == [4 if block.seeds == 3 else block.seeds for block in suite.blocks]
    assert {bind(four, point, "da7a", None).given for point in expand(four)} >= {f"file@{n}" for n in range(4)}
