"""The plan: keys that never change, points counted by hand, and the way back from a stored record."""

import hashlib
import json
from collections import Counter
from dataclasses import replace

import pytest

from roarbench.identity import canonical, record
from roarbench.plan.points import expand, select, with_seeds
from roarbench.plan.runs import CLEAN, Cell, Reference, Run, missing, run_of
from roarbench.plan.suite import Block
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.terms import Making, Order, Retrain, Unit
from tests.helpers import tiny_suite

DEGRADED = Run(
    Cell("planted", "resnet8", "var-grad", Order.LERF, Retrain.MASKS, "mean", Unit.PIXEL, 0.9),
    seed=3,
    recipe="quick@1",
    data="da7a",
    estimator="e571",
    reference="4ef",
)
UNTOUCHED = Run(
    Cell("imagenette64", "resnet-quick", CLEAN, Order.MORF, Retrain.IMAGES, "mean", Unit.SCALAR, 0.0),
    seed=0,
    recipe="quick@1",
    data="da7a",
    estimator="",
    reference="",
    limit=40,
)
REFERENCE = Reference("planted", "da7a", "resnet8", "planted@1", 1000)

SUITE = replace(
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


def test_a_key_is_the_hash_of_a_text_that_can_be_written_by_hand():
    text = (
        '{"cell":{"dataset":"planted","estimator":"var-grad","fill":"mean","model":"resnet8","order":"lerf",'
        '"retrain":"masks","t":0.9,"unit":"pixel"},"data":"da7a","estimator":"e571","recipe":"quick@1",'
        '"reference":"4ef","seed":3}'
    )
    assert canonical(record(DEGRADED)) == text
    assert hashlib.sha256(text.encode()).hexdigest()[:32] == DEGRADED.key
    # written down once: a key that changes makes every stored row a stranger
    assert (UNTOUCHED.key, REFERENCE.key) == ("d81bc379a5bccc9924224e45209b1edf", "933f84712788fc34f22f8890f38859b4")
    assert canonical({"b": 1, "a": [0.1, None, "é"]}) == '{"a":[0.1,null,"\\u00e9"],"b":1}'


CHANGES = ({"seed": 4}, {"limit": 40}, {"given": "file@0ther"}, {"maps": Making.BF16}) + tuple(
    {name: "0ther"} for name in ("recipe", "data", "estimator", "reference", "network")
)
CELL_CHANGES = ({"order": Order.MORF}, {"retrain": Retrain.IMAGES}, {"unit": Unit.SCALAR}, {"t": 0.7}) + tuple(
    {name: "other"} for name in ("dataset", "model", "estimator", "fill")
)


OTHERS = [replace(DEGRADED, **change) for change in CHANGES]
OTHERS += [replace(DEGRADED, cell=replace(DEGRADED.cell, **change)) for change in CELL_CHANGES]


def test_every_field_is_in_the_key():
    assert len({run.key for run in (DEGRADED, *OTHERS)}) == 1 + len(OTHERS)
    fields = {name for change in (*CHANGES, *CELL_CHANGES) for name in change} | {"cell"}
    assert fields == {*Run.__dataclass_fields__, *Cell.__dataclass_fields__}


def test_a_run_comes_back_from_its_stored_text():
    for run in (UNTOUCHED, *OTHERS):
        found = run_of(json.loads(canonical(record(run))))
        assert found == run
        for name in ("order", "retrain", "unit"):  # a text would be equal, too, and `is` is asked elsewhere
            assert getattr(found.cell, name) is getattr(run.cell, name)
        assert found.maps is run.maps


def test_a_level_is_a_fraction():
    for t in (30, -0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"level t must be in \[0, 1\], got .*; 30% is written 0\.3"):
            replace(DEGRADED.cell, t=t)


def test_expand_gives_each_point_once():
    points = expand(SUITE)
    assert len(points) == len(set(points))
    assert Counter((point.cell.retrain, point.cell.order, point.cell.t) for point in points) == {
        (Retrain.IMAGES, Order.MORF, 0.0): 2,  # shared by ROAR and KAR
        (Retrain.IMAGES, Order.MORF, 0.5): 4,
        (Retrain.IMAGES, Order.MORF, 0.9): 4,
        (Retrain.IMAGES, Order.LERF, 0.9): 1,
        (Retrain.MASKS, Order.MORF, 0.9): 1,  # an empty removal mask is no cell
        (Retrain.NONE, Order.MORF, 0.0): 1,  # shared by both orders
        (Retrain.NONE, Order.MORF, 0.9): 2,
        (Retrain.NONE, Order.LERF, 0.9): 1,
    }


def test_untouched_images_have_one_cell_whatever_the_block():
    block = Block(KAR, ("grad",), (0.5,), seeds=1, unit=Unit.PIXEL, fill="blur")
    clean, degraded = (point.cell for point in expand(replace(SUITE, blocks=(block,))))
    assert clean == Cell("planted", "resnet-planted", CLEAN, Order.MORF, Retrain.IMAGES, "mean", Unit.SCALAR, 0.0)
    assert degraded == Cell("planted", "resnet-planted", "grad", Order.LERF, Retrain.IMAGES, "blur", Unit.PIXEL, 0.5)


def test_select_drops_empty_blocks_and_sets_seeds_where_something_is_trained():
    part = select(SUITE, ["ig", "grad"])
    assert [block.protocol for block in part.blocks] == [ROAR, MASK_ONLY, MORF, LERF]
    assert (part.estimators, part.title) == (("grad", "ig"), "small v3")
    assert {point.cell.estimator for point in expand(part)} == {CLEAN, "grad", "ig"}
    seeds = {block.protocol.name: block.seeds for block in select(SUITE, seeds=4).blocks}
    assert seeds == {"roar": 4, "kar": 4, "mask-only": 4, "morf": 1, "lerf": 1}


def test_with_seeds_asks_for_so_many_of_each_row_and_never_for_more_than_the_suite():
    part = with_seeds(SUITE, {(Retrain.IMAGES, "grad"): 2, (Retrain.IMAGES, "random"): 9})
    assert set(expand(part)) == set(expand(SUITE))  # it has two of these, and one of all others
    bare = expand(with_seeds(SUITE, {}))
    assert {point.seed for point in bare} == {0}
    assert {point.cell for point in bare} == {point.cell for point in expand(SUITE)}
    one = expand(with_seeds(SUITE, {(Retrain.IMAGES, "grad"): 2}))
    assert {p.cell.estimator for p in one if p.seed == 1} == {CLEAN, "grad"}


def test_missing_is_the_plan_without_the_store():
    todo = [replace(DEGRADED, seed=seed) for seed in range(4)]
    assert missing(todo, {todo[1].key, todo[3].key, "another suite's"}) == [todo[0], todo[2]]
