"""The plan: points counted by hand, what the outcome of a run depends on, and keys that never change."""

import hashlib
import json
from collections import Counter
from dataclasses import replace

import pytest

from roarbench.common.enums import PAPER_LEVELS, MapNumerics, Order, ScoredNetwork, Unit
from roarbench.common.errors import CallerError
from roarbench.common.identity import encode_canonically, hash_value, make_json_record
from roarbench.plan.cells_and_runs import CLEAN, Cell, ReferenceSpec, Run, read_run_record, select_missing_runs
from roarbench.plan.planned_runs import (
    Point,
    build_run,
    depends_on_reference,
    expand_points,
    list_stored_levels,
    make_reference_spec,
    select_part_of_suite,
)
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, ROAR
from roarbench.plan.suite import REFERENCE_SEED, Block
from roarbench.plan.suites import find_suite, set_explained_weights
from tests.helpers import tiny_suite
from tests.helpers.older_suites import OLDER

PIXELS = Cell("planted", "resnet8", "var-grad", Order.LERF, ScoredNetwork.MASKS, "mean", Unit.PIXEL, 0.9)
DEGRADED = Run(PIXELS, 3, "quick@1", data="da7a", estimator="e571", reference="4ef")
WHOLE = Cell("imagenette64", "resnet-quick", CLEAN, Order.MORF, ScoredNetwork.IMAGES, "mean", Unit.SCALAR, 0.0)
UNTOUCHED = Run(WHOLE, 0, "quick@1", data="da7a", estimator="", reference="", limit=40)
CHANGES = [{"seed": 4}, {"limit": 40}, {"given": "file@0ther"}, {"maps": MapNumerics.BF16}]
CHANGES += [{name: "0ther"} for name in ("recipe", "data", "estimator", "reference", "network")]
CELL_CHANGES = [{"order": Order.MORF}, {"retrain": ScoredNetwork.IMAGES}, {"unit": Unit.SCALAR}, {"t": 0.7}]
CELL_CHANGES += [{name: "other"} for name in ("dataset", "model", "estimator", "fill")]
OTHERS = [replace(DEGRADED, **change) for change in CHANGES]
OTHERS += [replace(DEGRADED, cell=replace(PIXELS, **change)) for change in CELL_CHANGES]


def test_a_key_is_the_hash_of_a_text_that_can_be_written_by_hand():
    text = (
        '{"cell":{"dataset":"planted","estimator":"var-grad","fill":"mean","model":"resnet8","order":"lerf",'
        '"retrain":"masks","t":0.9,"unit":"pixel"},"data":"da7a","estimator":"e571","recipe":"quick@1",'
        '"reference":"4ef","seed":3}'
    )
    assert encode_canonically(make_json_record(DEGRADED)) == text
    assert hashlib.sha256(text.encode()).hexdigest()[:32] == DEGRADED.key
    # written down once: a key that changes makes every stored row a stranger
    reference = ReferenceSpec("planted", "da7a", "resnet8", "planted@1", 1000)
    assert (UNTOUCHED.key, reference.key) == ("d81bc379a5bccc9924224e45209b1edf", "933f84712788fc34f22f8890f38859b4")
    assert encode_canonically({"b": 1, "a": [0.1, None, "é"]}) == '{"a":[0.1,null,"\\u00e9"],"b":1}'


def test_every_field_is_in_the_key_and_comes_back_from_the_stored_text():
    assert len({run.key for run in (DEGRADED, *OTHERS)}) == 1 + len(OTHERS)
    fields = {name for change in (*CHANGES, *CELL_CHANGES) for name in change} | {"cell"}
    assert fields == {*Run.__dataclass_fields__, *Cell.__dataclass_fields__}
    for run in (UNTOUCHED, *OTHERS):
        found = read_run_record(json.loads(encode_canonically(make_json_record(run))))
        assert found == run
        for name in ("order", "retrain", "unit"):  # a text would be equal, too, and `is` is asked elsewhere
            assert getattr(found.cell, name) is getattr(run.cell, name)
        assert found.maps is run.maps


def test_a_level_is_a_fraction_and_what_is_no_number_of_json_has_no_hash():
    for t in (30, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"level t must be in \[0, 1\], got .*; 30% is written 0\.3"):
            replace(PIXELS, t=t)
    with pytest.raises(ValueError, match="not JSON compliant"):
        hash_value({"t": float("nan")})


SMALL = replace(
    tiny_suite.SUITE,
    name="small",
    version=3,
    blocks=(
        Block(ROAR, ("random", "grad"), (0.5, 0.9), seeds=2),
        Block(KAR, ("random",), (0.9,), seeds=1),
        Block(MASK_ONLY, ("grad",), (0.9,), seeds=1),
        Block(MORF, ("random", "ig"), (0.9,), seeds=1),
        Block(LERF, ("ig",), (0.9,), seeds=1),
    ),
)


def test_expand_gives_each_point_once():
    points = expand_points(SMALL)
    assert len(points) == len(set(points))
    assert Counter((point.cell.retrain, point.cell.order, point.cell.t) for point in points) == {
        (ScoredNetwork.IMAGES, Order.MORF, 0.0): 2,  # shared by ROAR and KAR
        (ScoredNetwork.IMAGES, Order.MORF, 0.5): 4,
        (ScoredNetwork.IMAGES, Order.MORF, 0.9): 4,
        (ScoredNetwork.IMAGES, Order.LERF, 0.9): 1,
        (ScoredNetwork.MASKS, Order.MORF, 0.9): 1,  # an empty removal mask is no cell
        (ScoredNetwork.NONE, Order.MORF, 0.0): 1,  # shared by both orders
        (ScoredNetwork.NONE, Order.MORF, 0.9): 2,
        (ScoredNetwork.NONE, Order.LERF, 0.9): 1,
    }
    block = Block(KAR, ("grad",), (0.5,), seeds=1, unit=Unit.PIXEL, fill="blur")
    clean, degraded = (point.cell for point in expand_points(replace(SMALL, blocks=(block,))))
    assert clean == Cell("planted", "resnet-planted", CLEAN, Order.MORF, ScoredNetwork.IMAGES, "mean", Unit.SCALAR, 0.0)
    assert degraded == Cell(
        "planted", "resnet-planted", "grad", Order.LERF, ScoredNetwork.IMAGES, "blur", Unit.PIXEL, 0.5
    )


@pytest.mark.parametrize(("name", "value", "kind"), [("unit", "patch:8", "Unit"), ("retrain", "x", "ScoredNetwork")])
def test_a_stored_run_that_this_version_does_not_know_is_one_line(name, value, kind):
    values = make_json_record(DEGRADED)
    with pytest.raises(CallerError, match=f"^this version cannot read a run: '{value}' is not a valid {kind}; use the"):
        read_run_record({**values, "cell": {**values["cell"], name: value}})


def test_select_drops_empty_blocks_and_sets_seeds_which_are_no_more_than_the_suite_has_or_what_the_store_has():
    part = select_part_of_suite(SMALL, ["ig", "grad"])
    assert [block.protocol for block in part.blocks] == [ROAR, MASK_ONLY, MORF, LERF]
    assert (part.estimators, part.title) == (("grad", "ig"), "small v3")
    assert {point.cell.estimator for point in expand_points(part)} == {CLEAN, "grad", "ig"}
    seeds = {block.protocol.name: block.seeds for block in select_part_of_suite(SMALL, seeds=4).blocks}
    assert seeds == {"roar": 4, "kar": 4, "mask-only": 4, "morf": 1, "lerf": 1}
    todo = [replace(DEGRADED, seed=seed) for seed in range(4)]
    assert select_missing_runs(todo, {todo[1].key, todo[3].key, "another suite's"}) == [todo[0], todo[2]]


QUICK = OLDER["quick@1"]
FILE, OTHER = f"file@{'0a1b' * 8}", f"file@{'2c3d' * 8}"


def cell(estimator, retrain=ScoredNetwork.IMAGES, t=0.9):
    return Cell("imagenette64", "resnet-quick", estimator, Order.MORF, retrain, "mean", Unit.SCALAR, t)


def bound(point, seed=0, suite=QUICK, limit=None):
    """The run of a cell, or of an estimator's cell."""
    return build_run(suite, Point(cell(point) if isinstance(point, str) else point, seed), "da7a", limit)


def runs_of(suite):
    return [build_run(suite, point, "da7a", None) for point in expand_points(suite)]


def test_a_run_names_the_reference_where_its_outcome_depends_on_it():
    reference = make_reference_spec(QUICK, "da7a")
    assert reference == ReferenceSpec("imagenette64", "da7a", "resnet-quick", "quick-reference@1", REFERENCE_SEED)
    assert max(run.seed for name in ("quick", "imagenette64") for run in runs_of(find_suite(name))) < REFERENCE_SEED
    for one, needed in (
        (cell("grad"), True),
        (cell("grad", ScoredNetwork.MASKS), True),
        (cell("grad~untrained"), True),  # its targets are the reference's
        (cell("random"), False),
        (cell("random", ScoredNetwork.NONE), True),
        (cell(CLEAN, ScoredNetwork.NONE, 0.0), True),
        (cell(CLEAN, t=0.0), False),
    ):
        assert depends_on_reference(one) == needed
        assert bound(one).reference == (reference.key if needed else "")
    other = replace(QUICK, name="other", version=7, reference_recipe="planted@1")  # trains alike
    assert bound("random").key == bound("random", suite=other).key
    assert bound("grad").key != bound("grad", suite=other).key
    assert (bound("grad", limit=40).limit, bound("grad").limit) == (40, None)


def test_the_precision_of_maps_is_part_of_a_run_that_depends_on_them():
    short = replace(QUICK, maps=MapNumerics.BF16)
    for estimator, maps in (
        ("grad~untrained", MapNumerics.BF16),
        ("sobel~blurred", MapNumerics.FLOAT32),
        ("somebody@01234567", MapNumerics.FLOAT32),  # a sandbox explains in float32
        (CLEAN, MapNumerics.FLOAT32),
    ):
        for one in (cell(estimator), cell(estimator, ScoredNetwork.NONE)):
            run, exact = bound(one, suite=short), bound(one)
            assert (run.maps, exact.maps) == (maps, MapNumerics.FLOAT32)
            assert (run.key == exact.key) == (maps is MapNumerics.FLOAT32)
            assert run.reference == exact.reference  # the model that is explained is the same


def test_rankings_are_stored_for_the_papers_levels_or_more():
    assert list_stored_levels(QUICK) == PAPER_LEVELS  # so that it shares them with the whole suite
    finer = replace(QUICK, blocks=(Block(ROAR, ("grad",), (0.05, 0.9), seeds=1), Block(MORF, ("grad",), (0.95,), 1)))
    assert list_stored_levels(finer) == (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
    assert list_stored_levels(replace(QUICK, blocks=(Block(LERF, ("grad",), (0.9, 0.1), seeds=1),))) == PAPER_LEVELS


def test_keys_with_one_given_network_are_those_from_before_there_could_be_several():
    for suite, pinned in (
        (QUICK, "a6bce56e9ccb9e91d58f964dcebf72c4"),
        (find_suite("planted@1"), "203d3917f97e33ab45845f3a25a52a2c"),
        (find_suite("imagenet-noretrain@2"), "c6a23f68ad33e08d930c36a6695359d5"),
    ):
        given = set_explained_weights(suite, FILE)
        assert hash_value(sorted(run.key for run in runs_of(given))) == pinned, suite.versioned


def test_each_given_network_explains_its_seeds_in_place_of_the_suites_own_whatever_else_is_given():
    both = set_explained_weights(QUICK, f"{FILE},{OTHER}")
    assert (both.references, both.title) == (2, QUICK.title)
    for seed, alone in ((0, FILE), (1, OTHER), (2, FILE)):
        for estimator in ("grad", "random"):
            assert bound(estimator, seed, both) == bound(estimator, seed, set_explained_weights(QUICK, alone))
    scored = [run for run in runs_of(both) if run.cell == cell("grad", ScoredNetwork.NONE)]
    assert {run.seed: run.given for run in scored} == {0: FILE, 1: OTHER}
    suite = find_suite("quick@6")  # has three of its own
    one = set_explained_weights(suite, FILE)
    assert (suite.references, one.references) == (3, 1)
    assert {run.given for run in runs_of(one)} == {"", FILE}
    assert set_explained_weights(one, "") == suite
    four = set_explained_weights(suite, ",".join(f"file@{number}" for number in range(4)))
    assert [block.seeds for block in four.blocks] == [4 if block.seeds == 3 else block.seeds for block in suite.blocks]
    assert {run.given for run in runs_of(four)} >= {f"file@{n}" for n in range(4)}
