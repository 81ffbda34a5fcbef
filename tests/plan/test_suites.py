"""Named suites, parts of suites, and recipes with their learning rates."""

import re
from dataclasses import replace

import pytest

from roarbench.api.suites import load_suite
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.common.errors import CallerError, UnknownName
from roarbench.common.identity import make_json_record
from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.ranking import count_removed
from roarbench.compute.recipe import Augmentation, Decay, Recipe, compute_image_side, compute_learning_rate
from roarbench.datasets.catalogue import DATASETS, find_dataset
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import NOISY
from roarbench.plan.cells_and_runs import Cell, Run
from roarbench.plan.change_suite import apply_selection_options
from roarbench.plan.planned_runs import list_planned_runs, list_run_keys
from roarbench.plan.protocols import MASK_ONLY, OWN_NETWORK, ROAR
from roarbench.plan.read_suite_file import parse_suite
from roarbench.plan.recipes import RECIPES, change_recipe, find_recipe, make_fine_tuning_recipe
from roarbench.plan.suites import (
    FAST_SUITES,
    FOLDER,
    RESULTS,
    SUITE_VERSIONS,
    SUITES,
    find_builtin_suite,
    make_renamed_suite_text,
)
from tests.helpers.older_suites import OLDER

MINE = "mine@1a2b3c4d"
MATCHED, PAPER = find_builtin_suite("quick-matched"), find_builtin_suite("imagenette64")
CONTROLS = MATCHED.estimators[:7]


def test_find_suite_returns_newest_version():
    newest = {name: max(version for other, version in SUITE_VERSIONS if other == name) for name, _ in SUITE_VERSIONS}
    assert {name: suite.version for name, suite in SUITES.items()} == newest
    assert find_builtin_suite("imagenet-noretrain").version == 2
    with pytest.raises(UnknownName, match="no suite 'quikc'; did you mean 'quick'"):
        find_builtin_suite("quikc")


@pytest.mark.parametrize("suite", SUITE_VERSIONS.values(), ids=[f"{name}-v{n}" for name, n in SUITE_VERSIONS])
def test_suite_has_known_components_with_random_controls(suite):
    assert suite.dataset in DATASETS and (suite.model in MODELS or suite.networks)
    for title in (suite.recipe, suite.reference_recipe):
        assert find_recipe(title).title == title
    assert {block.fill for block in suite.blocks} == {"mean"}
    is_truth_known = suite.dataset_record.generated and suite.dataset != "planted-corners"
    assert ("truth" in suite.estimators) == bool(is_truth_known)
    for estimator in suite.estimators:
        find_estimator(estimator)
    judged = [block for block in suite.blocks if block.protocol is not MASK_ONLY]  # random masks hold no information
    held = {(block.protocol, block.unit) for block in judged if "random" in block.estimators}
    assert held == {(block.protocol, block.unit) for block in judged}
    for cell in {point.cell for point in list_planned_runs(suite)}:
        record = find_dataset(suite.dataset)
        d = record.size**2 * (record.channels if cell.unit is Unit.SCALAR else 1)
        assert cell.t == 0 or 0 < count_removed(cell.t, d) < d  # some features are removed, and some are kept
        estimator = cell.estimator_record  # includes other-image twins, which paired protocols add
        assert estimator is None or estimator.id == cell.estimator
        assert estimator is None or cell.estimator_of_stored_ranking or estimator.form == "redrawn"


def test_imagenet_networks_suite_explains_five_published_resnets():
    suite = find_builtin_suite("imagenet-networks")
    assert {each.model.partition(".")[0] for each in suite.networks} == {"torchvision:resnet50", "timm:resnet50"}
    assert (len({each.given for each in suite.networks}), suite.references) == (5, 5)
    assert suite.given == ",".join(each.given for each in suite.networks)
    rows = [row for row in suite.estimator_records if not row.control]
    assert len(rows) == 18 and not any(row.base == "ig" and row.form in NOISY for row in rows)
    assert {block.protocol.name for block in suite.blocks} == {"own-network", "own-network-lerf", "morf", "lerf"}
    assert not any(block.protocol.trains for block in suite.blocks)
    assert suite.dataset_record.test_images == 5_000


def test_fast_suite_differs_only_in_recipe():
    for name, agreement in FAST_SUITES.items():
        if name == "imagenet":  # this suite also has fewer runs
            continue
        fast, slow = find_builtin_suite(name), find_builtin_suite(agreement.full_suite)
        assert fast.recipe == f"{slow.name}-fast@1"
        told = {"name": slow.name, "about": slow.about, "recipe": slow.recipe}
        assert replace(fast, **told) == slow  # the same explained network, so the same rankings


def test_imagenet_suite_is_part_of_imagenet_paper_design():
    short, paper = find_builtin_suite("imagenet"), find_builtin_suite("imagenet-paper")
    (block,) = short.blocks
    assert (len(block.estimators), block.levels, block.seeds, short.references) == (14, (0.1, 0.5, 0.9), 2, 1)
    (same,) = (each for each in paper.blocks if each.protocol.name == "roar")
    assert set(block.estimators) <= set(same.estimators) and set(block.levels) <= set(same.levels)
    assert (short.recipe, paper.recipe, short.reference_recipe) == ("imagenet-fast@1", "imagenet@1", "imagenet@1")


def test_imagenet_runs_are_subset_of_full_design(tmp_path):
    text = make_renamed_suite_text("imagenet").replace('protocols = ["roar"]', 'protocols = ["roar", "kar"]')
    text = text.replace("[0.1, 0.5, 0.9]", "[0.1, 0.3, 0.5, 0.7, 0.9]").replace("seeds = 2", "seeds = 5")
    text = re.sub(r"estimators = \[.*?\n\]", 'estimators = ["random", "sobel", "paper"]', text, flags=re.DOTALL)
    (tmp_path / "full.toml").write_text(text)
    full, short = load_suite(tmp_path / "full.toml").plan, find_builtin_suite("imagenet")
    runs = [set(list_run_keys(suite, "0" * 32, None).values()) for suite in (short, full)]
    assert runs[0] < runs[1] and (len(runs[0]), len(runs[1])) == (86, 1005)


def test_later_suite_versions_augment_with_enough_references():
    moved = {Augmentation.SHIFT_FLIP, Augmentation.CROP_FLIP}
    for suite in SUITES.values():
        trained = [block for block in suite.blocks if block.protocol is ROAR]
        if trained and suite.version > 1 and suite.name != "imagenet":  # the cheapest design
            assert suite.dataset_record.tabular or find_recipe(suite.recipe).augmentation in moved
            siblings = any(block.protocol is OWN_NETWORK for block in suite.blocks)
            assert suite.references >= (seeds := max(block.seeds for block in trained)) >= 3
            assert siblings or suite.references == seeds


def test_apply_selection_options_keeps_controls():
    assert apply_selection_options(MATCHED, ["grad"]).estimators == (*CONTROLS, "grad")
    assert apply_selection_options(MATCHED, ["deviation"]).estimators == CONTROLS
    assert apply_selection_options(MATCHED) == MATCHED
    assert apply_selection_options(MATCHED, [], [MINE]).estimators == (*CONTROLS, MINE, f"{MINE}~untrained")
    mine = {MINE, f"{MINE}~untrained"}
    assert {*apply_selection_options(MATCHED, None, [MINE]).estimators} == {*MATCHED.estimators} | mine
    chosen, part = (apply_selection_options(PAPER, [], submitted).estimators for submitted in ([MINE], []))
    added = set(chosen) - set(part)
    assert added == {MINE, *(f"{MINE}~{twin}" for twin in ("blurred", "untrained", "other-target"))}
    assert set(apply_selection_options(PAPER, ["grad"]).estimators) >= {"random", "random-blurred", "sobel", "grad"}
    part = apply_selection_options(PAPER, None, (), 2, "roar")
    assert {block.protocol.name for block in part.blocks} == {"roar"} and part.references == 2
    with pytest.raises(CallerError, match="--seeds is 0, .* is 1; .* use --seeds 1 or more"):
        apply_selection_options(MATCHED, seeds=0)


IMAGES = {"imagenet@1": 1_281_167, "food101@1": 75_750, "birdsnap@1": 47_386}  # protocol section 5


def test_paper_learning_rates_match_manual_values():
    for title, step, expected in (  # 312.785 steps in an epoch of ImageNet, 295.898 of Food-101, 185.102 of Birdsnap
        ("imagenet@1", 1563, 1.6 * 1563 / 312.785 / 5),  # the last step of the warm-up
        ("imagenet@1", 1564, 1.6),
        ("imagenet@1", 31999, 0.0016),
        ("food101@1", 19999, 0.007),  # 68 epochs: the last drop is never reached
        ("birdsnap@1", 14808, 0.01),  # epoch 79.999
        ("birdsnap@1", 14809, 0.001),  # epoch 80.004
    ):
        recipe = find_recipe(title)
        rate = compute_learning_rate(recipe, step, IMAGES[title] / recipe.batch)
        assert rate == pytest.approx(expected, rel=1e-5, abs=1e-12), (title, step)  # manual epochs have six digits
    rates = [compute_learning_rate(find_recipe("imagenet@1"), step, 10) for step in (299, 300, 599, 600)]
    assert rates == pytest.approx([1.6, 0.16, 0.16, 0.016])  # the rate drops at the first step of an epoch


def test_learning_rates_match_manual_linear_schedule():
    line = Recipe("line", 1, 6, 10, 0.5, 1, Decay.LINEAR, Augmentation.NONE)  # 6 epochs, 1 of them to warm up
    for step, expected in ((0, 0.0), (5, 0.25), (10, 0.5), (35, 0.25), (59, 0.01), (60, 0.0)):
        assert compute_learning_rate(line, step, steps_per_epoch=10) == pytest.approx(expected), step
    assert compute_learning_rate(change_recipe(line, {"warmup": 0}), 0, steps_per_epoch=10) == 0.5
    for recipe in RECIPES.values():
        rates = [compute_learning_rate(recipe, step, 3.7) for step in range(round(recipe.epochs * 3.7))]
        assert min(rates) >= 0 and 0 < max(rates) <= recipe.peak
        assert rates[-1] < 0.2 * recipe.peak
    recipe = find_recipe("imagenet-fast@1")
    sides = [compute_image_side(recipe, step, 40, 224) for step in (0, 9, 10, 19, 20, 30)]
    assert sides == [128, 128, 160, 160, 192, 224]


def test_find_recipe_normalizes_changed_settings():
    recipe = find_recipe("quick@2(sides=0.5+1,epochs=6.0)")
    assert recipe.title == "quick@2(epochs=6,sides=0.5+1)"
    assert find_recipe(recipe.title) == recipe
    assert (recipe.epochs, recipe.sides, recipe.peak) == (6, (0.5, 1.0), 0.4)
    assert change_recipe(RECIPES["quick@2"], {"sides": [0.5, 1], "epochs": 6}) == recipe
    for title, said in (
        ("quick@2(epoch=3)", "no setting of a recipe 'epoch'; did you mean 'epochs'"),
        ("quick@2(epochs=nan)", "epochs is 'nan', expected a number from 0.01 to 10000"),
        ("quick@2(warmup=20)", "has a warmup of 20 epochs and 10 epochs in all; write a warmup below epochs"),
        ("quick@9(epochs=1)", "no recipe 'quick@9'; did you mean 'quick@2'"),
    ):
        with pytest.raises(CallerError, match=said):
            find_recipe(title)


def test_compile_setting_changes_recipe_record():
    plain, compiled = RECIPES["imagenet@1"], find_recipe("imagenet@1(compile=true)")
    assert compiled == change_recipe(plain, {"compile": True}) != plain
    assert compiled.title == "imagenet@1(compile=true)"
    assert change_recipe(plain, {"compile": False}) == plain
    assert "compile" not in make_json_record(plain) and make_json_record(compiled)["compile"] is True
    cell = Cell("imagenet", "resnet50", "grad", Order.MORF, ScoredNetwork.IMAGES, "mean", Unit.SCALAR, 0.9)
    run = Run(cell, 0, plain.title, data="da7a", estimator="e571", reference="4ef")
    assert replace(run, recipe=compiled.title).key != run.key
    assert replace(run, recipe=compiled.title).recipe_record.compile
    assert make_fine_tuning_recipe(compiled).compile and not make_fine_tuning_recipe(plain).compile
    for key in ("epochs", "batch"):
        with pytest.raises(CallerError, match=f"{key} is True, expected a"):
            change_recipe(plain, {key: True})


def test_quick_roar_suite_reproduces_paper_figure():
    """Figure 4 of Hooker et al. 2019: five levels."""
    figure, quick = find_builtin_suite("quick-roar"), find_builtin_suite("quick")
    (block,) = figure.blocks
    assert block.protocol == ROAR
    assert block.estimators == ("random", "sobel", "grad", "sgsq-grad", "var-grad")
    assert block.levels == (0.1, 0.3, 0.5, 0.7, 0.9)
    keys, shared = list_run_keys(quick, "d" * 32, None), list_run_keys(figure, "d" * 32, None)
    rows = {point.cell.estimator for point, key in shared.items() if key in keys.values()}
    assert rows == {"none", "random", "sobel", "grad"}


def test_suite_files_are_short_with_commented_blocks():
    files = [*FOLDER.glob("*.toml"), *RESULTS.glob("*/*/suite.toml")]
    assert len(files) == len(set(SUITE_VERSIONS) - {(suite.name, suite.version) for suite in OLDER.values()})
    for file in files:
        lines = file.read_text("utf-8").splitlines()
        assert len(lines) <= 40, file
        blocks = [line for line in lines if line.startswith("[[block]]")]
        assert all(line.startswith("[[block]]  # ") for line in blocks), file
        assert blocks or any(line.startswith("# ") for line in lines), file
    assert {file.stem for file in FOLDER.glob("*.toml")} == set(SUITES), "each file is named after its suite"


@pytest.mark.parametrize("suite", SUITE_VERSIONS.values(), ids=[f"{name}-v{n}" for name, n in SUITE_VERSIONS])
def test_copied_suite_file_has_same_runs(suite, tmp_path):
    """Runs do not depend on the name, version or ownership of a suite."""
    mine = parse_suite(make_renamed_suite_text(suite.versioned), tmp_path / "mine.toml")
    assert (mine.name, mine.own is not None) == (f"my-{suite.name}", True)
    assert replace(mine, name=suite.name, version=suite.version, own=None) == suite
