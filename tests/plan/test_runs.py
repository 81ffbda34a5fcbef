"""Planned runs: points of a suite, dependencies of a run, and permanent keys."""

import hashlib
import json
from collections import Counter
from dataclasses import replace

import pytest

from roarbench.common.enums import PAPER_LEVELS, MapNumerics, Order, ScoredNetwork, Unit
from roarbench.common.errors import CallerError
from roarbench.common.identity import encode_canonically, hash_value, make_json_record
from roarbench.plan.cells_and_runs import CLEAN, Cell, ReferenceSpec, Run, read_run_record
from roarbench.plan.planned_runs import (
    PlannedRun,
    build_run,
    depends_on_reference,
    describe_run,
    list_planned_runs,
    list_stored_levels,
    make_reference_spec,
)
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, ROAR
from roarbench.plan.suite import FIRST_REFERENCE_SEED, Block
from roarbench.plan.suite_changes import select_part_of_suite, set_explained_weights
from roarbench.plan.suites import find_builtin_suite
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


def test_run_key_hashes_canonical_json():
    text = (
        '{"cell":{"dataset":"planted","estimator":"var-grad","fill":"mean","model":"resnet8","order":"lerf",'
        '"retrain":"masks","t":0.9,"unit":"pixel"},"data":"da7a","estimator":"e571","recipe":"quick@1",'
        '"reference":"4ef","seed":3}'
    )
    assert encode_canonically(make_json_record(DEGRADED)) == text
    assert hashlib.sha256(text.encode()).hexdigest()[:32] == DEGRADED.key
    # pinned: stored rows are found by these keys
    reference = ReferenceSpec("planted", "da7a", "resnet8", "planted@1", 1000)
    assert (UNTOUCHED.key, reference.key) == ("d81bc379a5bccc9924224e45209b1edf", "933f84712788fc34f22f8890f38859b4")
    assert encode_canonically({"b": 1, "a": [0.1, None, "é"]}) == '{"a":[0.1,null,"\\u00e9"],"b":1}'


def test_run_key_covers_every_field():
    assert len({run.key for run in (DEGRADED, *OTHERS)}) == 1 + len(OTHERS)
    fields = {name for change in (*CHANGES, *CELL_CHANGES) for name in change} | {"cell"}
    assert fields == {*Run.__dataclass_fields__, *Cell.__dataclass_fields__}
    for run in (UNTOUCHED, *OTHERS):
        found = read_run_record(json.loads(encode_canonically(make_json_record(run))))
        assert found == run
        for name in ("order", "retrain", "unit"):  # enums equal their text, but other code compares them by `is`
            assert getattr(found.cell, name) is getattr(run.cell, name)
        assert found.maps is run.maps


def test_cell_rejects_level_outside_unit_interval():
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


def test_expand_points_returns_each_point_once():
    points = list_planned_runs(SMALL)
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
    clean, degraded = (point.cell for point in list_planned_runs(replace(SMALL, blocks=(block,))))
    assert degraded == replace(clean, estimator="grad", order=Order.LERF, fill="blur", unit=Unit.PIXEL, t=0.5)


@pytest.mark.parametrize(("name", "value", "kind"), [("unit", "patch:8", "Unit"), ("retrain", "x", "ScoredNetwork")])
def test_read_run_record_rejects_unknown_value(name, value, kind):
    values = make_json_record(DEGRADED)
    with pytest.raises(CallerError, match=f"^this version cannot read a run: '{value}' is not a valid {kind}; use the"):
        read_run_record({**values, "cell": {**values["cell"], name: value}})


@pytest.mark.parametrize("change", [{"maps": "fp4"}, {"new": 1}, {"cell": {"new": 1}}])
def test_read_run_record_rejects_fields_and_maps_of_a_newer_version(change):
    """Such a row of a shared database ended every command with a traceback, or read as a damaged row."""
    values = make_json_record(DEGRADED)
    changed = {**values, **change, "cell": {**values["cell"], **change.get("cell", {})}}
    with pytest.raises(CallerError, match="^this version cannot read a run: .*; use the version of roarbench that "):
        read_run_record(changed)


def test_select_part_of_suite_drops_empty_blocks_or_sets_seeds():
    part = select_part_of_suite(SMALL, ["ig", "grad"])
    assert [block.protocol for block in part.blocks] == [ROAR, MASK_ONLY, MORF, LERF]
    assert (part.estimators, part.title) == (("grad", "ig"), "small v3")
    assert {point.cell.estimator for point in list_planned_runs(part)} == {CLEAN, "grad", "ig"}
    seeds = {block.protocol.name: block.seeds for block in select_part_of_suite(SMALL, seeds=4).blocks}
    assert seeds == {"roar": 4, "kar": 4, "mask-only": 4, "morf": 1, "lerf": 1}


QUICK = OLDER["quick@1"]
FILE, OTHER = f"file@{'0a1b' * 8}", f"file@{'2c3d' * 8}"


def make_cell(estimator, retrain=ScoredNetwork.IMAGES, t=0.9):
    return Cell("imagenette64", "resnet-quick", estimator, Order.MORF, retrain, "mean", Unit.SCALAR, t)


def make_run(point, seed=0, suite=QUICK, limit=None):
    """Make the run of a cell, or of an estimator's cell."""
    return build_run(suite, PlannedRun(make_cell(point) if isinstance(point, str) else point, seed), "da7a", limit)


def list_runs(suite):
    return [build_run(suite, point, "da7a", None) for point in list_planned_runs(suite)]


def test_run_names_explained_network_only_if_outcome_depends_on_it():
    reference = make_reference_spec(QUICK, "da7a")
    assert reference == ReferenceSpec("imagenette64", "da7a", "resnet-quick", "quick-reference@1", FIRST_REFERENCE_SEED)
    runs = [run for name in ("quick", "imagenette64") for run in list_runs(find_builtin_suite(name))]
    assert max(run.seed for run in runs) < FIRST_REFERENCE_SEED
    for one, needed in (
        (make_cell("grad"), True),
        (make_cell("grad", ScoredNetwork.MASKS), True),
        (make_cell("grad~untrained"), True),  # its targets are classes of the explained network
        (make_cell("random"), False),
        (make_cell("random", ScoredNetwork.NONE), True),
        (make_cell(CLEAN, ScoredNetwork.NONE, 0.0), True),
        (make_cell(CLEAN, t=0.0), False),
    ):
        assert depends_on_reference(one) == needed
        assert make_run(one).reference == (reference.key if needed else "")
    other = replace(QUICK, name="other", version=7, reference_recipe="planted@1")  # the same training recipe
    assert make_run("random").key == make_run("random", suite=other).key
    assert make_run("grad").key != make_run("grad", suite=other).key
    assert (make_run("grad", limit=40).limit, make_run("grad").limit) == (40, None)


def test_map_precision_changes_key_of_runs_with_maps():
    short = replace(QUICK, maps=MapNumerics.BF16)
    for estimator, maps in (
        ("grad~untrained", MapNumerics.BF16),
        ("sobel~blurred", MapNumerics.FLOAT32),
        ("somebody@01234567", MapNumerics.FLOAT32),  # a sandbox explains in float32
        (CLEAN, MapNumerics.FLOAT32),
    ):
        for one in (make_cell(estimator), make_cell(estimator, ScoredNetwork.NONE)):
            run, exact = make_run(one, suite=short), make_run(one)
            assert (run.maps, exact.maps) == (maps, MapNumerics.FLOAT32)
            assert (run.key == exact.key) == (maps is MapNumerics.FLOAT32)
            assert run.reference == exact.reference  # the same network is explained


def test_list_stored_levels_includes_paper_levels():
    assert list_stored_levels(QUICK) == PAPER_LEVELS  # so a part shares rankings with the whole suite
    finer = replace(QUICK, blocks=(Block(ROAR, ("grad",), (0.05, 0.9), seeds=1), Block(MORF, ("grad",), (0.95,), 1)))
    assert list_stored_levels(finer) == (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
    assert list_stored_levels(replace(QUICK, blocks=(Block(LERF, ("grad",), (0.9, 0.1), seeds=1),))) == PAPER_LEVELS


def test_run_keys_with_one_given_network_match_pinned_hashes():
    for suite, pinned in (
        (QUICK, "a6bce56e9ccb9e91d58f964dcebf72c4"),
        (find_builtin_suite("planted@1"), "203d3917f97e33ab45845f3a25a52a2c"),
        (find_builtin_suite("imagenet-noretrain@2"), "c6a23f68ad33e08d930c36a6695359d5"),
    ):
        given = set_explained_weights(suite, FILE)
        assert hash_value(sorted(run.key for run in list_runs(given))) == pinned, suite.versioned


def test_given_networks_replace_explained_networks_by_seed():
    both = set_explained_weights(QUICK, f"{FILE},{OTHER}")
    assert (both.references, both.title) == (2, QUICK.title)
    for seed, alone in ((0, FILE), (1, OTHER), (2, FILE)):
        for estimator in ("grad", "random"):
            assert make_run(estimator, seed, both) == make_run(estimator, seed, set_explained_weights(QUICK, alone))
    scored = [run for run in list_runs(both) if run.cell == make_cell("grad", ScoredNetwork.NONE)]
    assert {run.seed: run.given for run in scored} == {0: FILE, 1: OTHER}
    suite = find_builtin_suite("quick@6")  # a suite with three explained networks
    one = set_explained_weights(suite, FILE)
    assert (suite.references, one.references) == (3, 1)
    assert {run.given for run in list_runs(one)} == {"", FILE}
    assert set_explained_weights(one, "") == suite
    four = set_explained_weights(suite, ",".join(f"file@{number}" for number in range(4)))
    assert {run.given for run in list_runs(four)} >= {f"file@{n}" for n in range(4)}


def test_runs_of_one_suite_have_different_descriptions():
    """Two runs that differ in their fill alone are different lines of `runs`, `status` and the board."""
    blocks = [Block(ROAR, ("grad",), (0.5,), 1, fill=fill) for fill in ("mean", "blur", "zero")]
    suite = replace(find_builtin_suite("planted"), blocks=(*blocks, Block(KAR, ("grad",), (0.5,), 2, unit=Unit.PIXEL)))
    described = [describe_run(point, suite) for point in list_planned_runs(suite) if point.cell.estimator != CLEAN]
    assert sorted(described) == [
        "kar grad t=0.5 pixel seed 0",
        "kar grad t=0.5 pixel seed 1",
        "roar grad t=0.5 scalar fill blur seed 0",
        "roar grad t=0.5 scalar fill zero seed 0",
        "roar grad t=0.5 scalar seed 0",
    ]
