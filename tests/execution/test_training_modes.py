"""Compiled or not: what `doctor --suite` measures on a GPU, what the store keeps of it, and what `run` makes of it."""

import os
from dataclasses import replace
from io import StringIO

import pytest
import torch
from rich.console import Console

from roarbench.cli import doctor
from roarbench.cli.options import EngineOptions
from roarbench.cli.run import _enable_compiling_if_faster
from roarbench.common import device_settings
from roarbench.common.device_settings import COMPILING
from roarbench.execution import rate_measurement
from roarbench.execution.rate_measurement import format_training_speeds, measure_training_speeds
from roarbench.plan.suites import find_suite
from roarbench.store.compilation_speeds import COMPILED, GRAPHS, UNCOMPILED, store_training_speeds, suggest_compiling
from roarbench.store.workspace import Workspace

QUICK = find_suite("quick")
COMPILED_QUICK = replace(QUICK, recipe="quick@2(compile=true)", reference_recipe="quick@2(compile=true)")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setattr(device_settings, "_COMPILER_FAILURES", [])
    monkeypatch.setenv(COMPILING, "mine")
    monkeypatch.delenv(COMPILING)


@pytest.fixture
def seconds(monkeypatch):
    """Seconds an image of each mode of torch's compiler, or an error; the suite's own network, at full size."""
    found = {"": 1 / 3000, "default": 1 / 4000, "reduce-overhead": RuntimeError("graphs\nfail")}

    def timed(suite, recipe):
        assert (recipe.sides, recipe.compile) == ((1.0,), False)
        taken = found[os.environ.get(COMPILING, "")]
        if isinstance(taken, Exception):
            raise taken
        return taken

    monkeypatch.setattr(rate_measurement, "time_training_per_image", timed)
    return found


def test_each_mode_is_timed_and_one_that_fails_is_told(seconds):
    os.environ[COMPILING] = "mine"
    found = measure_training_speeds(QUICK)
    assert {name: found[name] for name in (UNCOMPILED, COMPILED)} == pytest.approx({UNCOMPILED: 3000, COMPILED: 4000})
    assert found[GRAPHS] == "fails (RuntimeError: graphs fail)"
    words = "uncompiled 3,000 images/s, compiled 4,000 images/s, CUDA graphs fails (RuntimeError: graphs fail)"
    assert format_training_speeds(found) == words
    assert os.environ[COMPILING] == "mine"


def test_a_compiler_that_gave_up_has_no_speed(seconds, monkeypatch):
    """The network ran as it is, which is the speed of no compiled one."""
    monkeypatch.setattr(device_settings, "_COMPILER_FAILURES", ["no C compiler"])
    found = measure_training_speeds(QUICK)
    assert isinstance(found[UNCOMPILED], float) and "no C compiler" in found[COMPILED]


@pytest.mark.parametrize(("compiled", "pays"), [(3301.0, True), (3299.0, False), ("fails", False)])
def test_the_store_keeps_for_each_network_and_recipe_whether_compiling_pays(compiled, pays, tmp_path):
    store, other = Workspace(tmp_path), find_suite("cifar10")
    store_training_speeds(store, other, "a GPU", {UNCOMPILED: 1.0, COMPILED: 9.0})
    store_training_speeds(store, QUICK, "a GPU", {UNCOMPILED: 3000.0, COMPILED: compiled})
    line = "compiling resnet-quick at 64 pixels by quick@2, because doctor measured 3,301 images/s instead of "
    line += "3,000 on a GPU"
    assert suggest_compiling(store, QUICK) == (line if pays else "")
    assert suggest_compiling(store, other)
    assert suggest_compiling(store, find_suite("planted")) == ""


@pytest.mark.parametrize("text", ["", "[1]", '{"resnet-quick at 64 pixels by quick@2": 3}', "{}"])
def test_a_damaged_record_decides_nothing_and_is_written_anew(text, tmp_path):
    (tmp_path / "training-modes.json").write_text(text)
    assert suggest_compiling(Workspace(tmp_path), QUICK) == ""
    store_training_speeds(Workspace(tmp_path), QUICK, "a GPU", {UNCOMPILED: 1.0, COMPILED: 2.0})
    assert suggest_compiling(Workspace(tmp_path), QUICK)


def test_doctor_measures_a_suite_and_run_takes_the_faster_way(seconds, tmp_path, monkeypatch):
    console = Console(file=StringIO(), width=200)
    monkeypatch.setattr(doctor, "choose_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(doctor.torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(device_settings, "list_gpu_ids", lambda: ("0",))
    said = doctor.measure_and_store_training_speeds(QUICK, tmp_path).found
    assert said.endswith("by quick@2, because doctor measured 4,000 images/s instead of 3,000 on a GPU")
    _enable_compiling_if_faster(EngineOptions(), Workspace(tmp_path), QUICK, console)
    assert os.environ.pop(COMPILING) == "default"
    assert "because doctor measured" in console.file.getvalue()
    for asked, compiles in ((False, False), (True, True)):  # nothing was measured of this suite
        _enable_compiling_if_faster(EngineOptions(compile=asked), Workspace(tmp_path), find_suite("planted"), console)
        assert (os.environ.pop(COMPILING, "") == "default") is compiles
    monkeypatch.setattr(device_settings, "list_gpu_ids", lambda: ())
    _enable_compiling_if_faster(EngineOptions(), Workspace(tmp_path), QUICK, console)
    assert COMPILING not in os.environ


def test_no_measurement_keeps_a_recipe_from_compiling(seconds, tmp_path, monkeypatch):
    """Doctor compares both ways also where the recipe compiles, and does not say that `run` trains uncompiled."""
    seconds["default"] = 1 / 2000
    monkeypatch.setattr(doctor, "choose_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(doctor.torch.cuda, "get_device_name", lambda: "a GPU")
    assert doctor.measure_and_store_training_speeds(QUICK, tmp_path).found.endswith("; run does not compile networks")
    said = doctor.measure_and_store_training_speeds(COMPILED_QUICK, tmp_path).found
    assert said.startswith("uncompiled 3,000 images/s, compiled 2,000 images/s, ")
    assert said.endswith("; run compiles networks, as the recipe requires")


@pytest.mark.parametrize(
    ("suite", "option", "engine", "gpus", "told"),
    [
        (QUICK, False, "local", (), False),
        (QUICK, True, "local", (), True),
        (COMPILED_QUICK, False, "local", (), True),
        (
            replace(COMPILED_QUICK, recipe=QUICK.recipe),
            False,
            "local",
            (),
            True,
        ),  # the explained networks' recipe compiles
        (COMPILED_QUICK, False, "ray", (), False),  # other machines of the cluster may have GPUs
        (COMPILED_QUICK, False, "local", ("0",), False),
    ],
)
def test_where_no_gpu_is_to_compile_for_a_line_says_so(suite, option, engine, gpus, told, tmp_path, monkeypatch):
    console = Console(file=StringIO(), width=200)
    monkeypatch.setattr(device_settings, "list_gpu_ids", lambda: gpus)
    _enable_compiling_if_faster(EngineOptions(compile=option, engine=engine), Workspace(tmp_path), suite, console)
    line = "networks are not compiled, because this machine has no GPU\n"
    assert console.file.getvalue() == line * told


def test_without_a_gpu_or_a_training_nothing_is_measured(tmp_path):
    assert "on GPUs only" in doctor.measure_and_store_training_speeds(QUICK, tmp_path).found
    assert (
        "trains no networks"
        in doctor.measure_and_store_training_speeds(find_suite("imagenet-networks"), tmp_path).found
    )
    assert list(tmp_path.iterdir()) == []
