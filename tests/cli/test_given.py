"""Given weights and estimator parameters, each with rows of their own."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from roarbench.common.errors import CallerError
from roarbench.compute.networks import build_network
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import run_suite
from roarbench.plan.cells_and_runs import make_weights_title
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import ROAR
from roarbench.plan.settings import Settings
from roarbench.plan.suite import Block
from roarbench.plan.suite_changes import (
    add_estimators_with_twins,
    add_submissions_and_estimators,
    apply_selection_options,
    parse_estimators_option,
)
from roarbench.plan.suites import find_builtin_suite
from roarbench.report.descriptions_and_repeat_commands import collect_papers_and_settings, make_repeat_command
from roarbench.store.networks import compute_weights_checksum
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.board_store import open_views
from tests.helpers.board_store import results as made_up
from tests.helpers.command_line import command, read_refusal, record
from tests.helpers.older_suites import OLDER
from tests.helpers.processes import read_results

NAME = "var-grad(noise=0.05)"
PLANTED = ("--suite", "planted", "--max-images", "40")
ROAR_OF_TWO = Block(ROAR, ("random", "grad", "var-grad"), (0.9,), seeds=1)
PUBLISHED = replace(find_builtin_suite("planted"), blocks=(ROAR_OF_TWO,))


@pytest.fixture(scope="module")
def two_weights(tmp_path_factory):
    """Run a suite with two given checkpoints.

    Returns the options of the store and of the weights, and keys of grad by seed and explained weights.
    """
    folder = tmp_path_factory.mktemp("two")
    paths = [folder / f"{seed}.pt" for seed in (7, 8)]
    for seed, path in zip((7, 8), paths, strict=True):
        torch.save(build_network("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed)).state_dict(), path)
    asked = tuple(word for path in paths for word in ("--reference", path))
    assert command("run", *PLANTED, *asked, "--estimators", "grad", "--store", folder) == 0
    runs = [row.run for row in read_results(make_default_url(folder)).values()]
    keys = {(run.seed, run.given): run.key for run in runs if run.cell.estimator == "grad"}
    titles = tuple(make_weights_title(str(path)) for path in paths)
    return SimpleNamespace(at=("--store", folder), asked=asked, titles=titles, keys=keys)


@pytest.mark.slow
def test_run_explains_each_given_network_by_its_seed(call, two_weights, tmp_path):
    assert set(two_weights.keys) == set(enumerate(two_weights.titles))
    again = call("run", *PLANTED, *two_weights.asked, "--estimators", "grad", *two_weights.at)
    assert (again.code, "runs are done" in again.err) == (0, True)
    assert (
        "warning: the accuracy of an explained network is near chance: the network has hardly learnt the" in again.err
    )
    found = record(call, "table", *PLANTED, *two_weights.asked, *two_weights.at)
    assert found["reference"] == ",".join(two_weights.titles)
    assert {row["estimator"]: row["seeds"] for row in found["rows"] if row["seeds"]} == {"random": 2, "grad": 2}
    title, copied = two_weights.titles[1], shutil.copytree(two_weights.at[1], tmp_path / "store")
    again = ("reproduce", two_weights.keys[1, title], "--store", copied)
    wrong, right = (call(*again, *two_weights.asked[at : at + 2]) for at in (0, 2))
    assert wrong.code == 2 and title in wrong.err and "a file with that checksum" in wrong.err
    assert (right.code, right.out.startswith("equal: ")) == (0, True)


@pytest.mark.slow
def test_run_rejects_unsuitable_or_repeated_references(call, two_weights, tmp_path, monkeypatch):
    monkeypatch.delattr(torch.hub, "download_url_to_file")  # a download would raise an error
    copied = shutil.copy(two_weights.asked[1], tmp_path / "copy.pt")
    first = two_weights.asked[1]
    for names, said in (
        (["torchvision:resnet50-v1"], "torchvision:resnet50-v1 is a resnet50 with 1,000 classes, but suite"),
        ([first, first], f"--reference {first} has the weights of {first}; name each"),
        ([first, copied], f"--reference {copied} has the weights of {first}; name each"),
    ):
        words = [word for name in names for word in ("--reference", name)]
        assert said in read_refusal(call, "run", *PLANTED, *words, "--store", tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_run_rejects_store_copy_with_other_weights(call, tmp_path, monkeypatch):
    first, copy = tmp_path / "first", tmp_path / "copy"
    run = ("run", *PLANTED, "--estimators", "grad", "--db", f"sqlite:///{tmp_path}/results.sqlite")
    assert call(*run, "--seeds", "1", "--store", first).code == 0
    for name in ("references", "rankings"):
        shutil.copytree(first / name, copy / name)
    assert call(*run, "--seeds", "2", "--store", copy).code == 0
    monkeypatch.delattr(run_suite, "make_plan")  # a run that begins would raise an error
    (path,) = copy.glob("references/*/weights.pt")
    weights = {name: value + 1 for name, value in torch.load(path).items()}
    torch.save(weights, path)
    manifest = path.with_name("manifest.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"weights": compute_weights_checksum(weights)}))
    before = sorted(copy.rglob("*"))
    answer = call(*run, "--seeds", "3", "--store", copy)
    assert (answer.code, answer.out) == (2, "")
    line = answer.err.splitlines()[-1]
    said = f"roarbench: {copy} has a different explained network of planted v1 (train images) than the one made in "
    assert line.startswith(said) and f":{first}, on which " in line
    assert sorted(copy.rglob("*")) == before


def test_add_estimators_adds_parameters_beside_default():
    suite = OLDER["quick@1"]
    joined = add_estimators_with_twins(suite, [NAME])
    assert set(list_planned_runs(suite)) < set(list_planned_runs(joined))
    for block, added in zip(suite.blocks, joined.blocks, strict=True):
        assert (NAME in added.estimators) == ("var-grad" in block.estimators)
        assert (f"{NAME}~blurred" in added.estimators) == ("var-grad~blurred" in block.estimators)
    assert add_estimators_with_twins(joined, [NAME, f"{NAME}~blurred"]) == joined  # ids as in a store
    # options are normalized to the ids of rows
    asked = ["random, var-grad( noise=.050 )~blurred", "grad,var-grad(noise=.15)"]
    found = parse_estimators_option(add_submissions_and_estimators(suite, asked), asked)
    assert found == ["random", f"{NAME}~blurred", "grad", "var-grad"]


@pytest.mark.parametrize("name", ["gb", "sg-grad(noise=0.05)", "centre"])
def test_selected_estimator_joins_each_protocol_with_twins(name):
    part = apply_selection_options(find_builtin_suite("quick@6"), Settings(estimators=(name,)))
    joined = [block.protocol.name for block in part.blocks if name in block.estimators]
    assert joined == ["matched", "roar", "morf", "lerf", "mask-only"], "once each: a block without Random has checks"
    assert (f"{name}~untrained" in part.added) == (name != "centre"), "controls explain no network"
    assert {find_estimator(added).untwinned_id for added in part.added} == {name}


def test_apply_selection_options_rejects_inapplicable_estimators():
    """Columns of a table have no neighbours, and only planted images have a known truth."""
    quick = find_builtin_suite("quick@6")
    assert apply_selection_options(quick, Settings(estimators=("sobel-released",))).added == frozenset()
    with pytest.raises(CallerError, match="suite 'digits' has no 'sobel': the columns of a table have no neighbours"):
        apply_selection_options(find_builtin_suite("digits"), Settings(estimators=("sobel",)))
    with pytest.raises(CallerError, match="suite 'quick' has no 'truth'; it has: random, "):
        apply_selection_options(quick, Settings(estimators=("truth",)))


@pytest.mark.slow
def test_estimator_with_parameters_has_own_row_on_board(call, tmp_path):
    run = ("run", *PLANTED, "--store", tmp_path, "--estimators")
    assert call(*run, "var-grad(noise=.05),var-grad,gb").code == 0
    gains = {}
    for more in ((), ("--estimators", "random,var-grad(noise=0.050)")):
        found = record(call, "table", *PLANTED, "--store", tmp_path, *more)
        gains[more] = {row["estimator"]: row["gain"] for row in found["rows"]}
    whole, chosen = gains.values()
    assert set(whole) == {"random", "grad", "var-grad", "gb", NAME} and None not in (whole[NAME], whole["gb"])
    assert set(chosen) == {"random", NAME}
    stored = {row.run.cell.estimator: row for row in read_results(make_default_url(tmp_path)).values()}
    with open_views(tmp_path) as views:
        (view,) = views.values()
    assert stored[NAME].rankings != stored["var-grad"].rankings
    assert stored[NAME].weights == stored["var-grad"].weights
    assert view.results.suite.estimators_with_own_row == ("random", "grad", "var-grad", "gb", NAME)
    assert collect_papers_and_settings(NAME).settings[0].startswith("noise 0.05: ")
    assert f"--max-images 40 --estimators '{NAME}'" in make_repeat_command(view.results, NAME)
    assert "all 3 runs are done" in call(*run, NAME).err


def test_board_skips_rows_with_unknown_parameters(tmp_path):
    """Rows of a newer version may have parameters that this version does not know."""
    found = made_up(PUBLISHED, limit=40)
    point = next(point for point in found if point.cell.estimator == "var-grad")
    newer = replace(found[point].run, cell=replace(point.cell, estimator="var-grad(copies=50)"))
    with ResultsStore.open(make_default_url(tmp_path)) as results:
        results.add_results([*found.values(), replace(found[point], run=newer)])
    with open_views(tmp_path) as views:
        (view,) = views.values()
    assert "var-grad(copies=50)" not in view.results.suite.estimators
