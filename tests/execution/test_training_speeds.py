"""Compiled training: speeds measured by `doctor --suite` on a GPU, stored, and used by `run`."""

import os
from dataclasses import replace
from io import StringIO

import pytest
import torch
from rich.console import Console

from roarbench.cli import doctor
from roarbench.cli.options import EngineOptions
from roarbench.cli.run import _enable_compiling
from roarbench.common import device_settings
from roarbench.common.device_settings import COMPILING
from roarbench.compute import compiled_networks
from roarbench.execution import training_speeds
from roarbench.execution.training_speeds import (
    COMPILED,
    GRAPHS,
    UNCOMPILED,
    explain_why_compiling,
    format_training_speeds,
    measure_training_speeds,
    store_training_speeds,
)
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.workspace import Workspace

QUICK = find_builtin_suite("quick")
COMPILED_QUICK = replace(QUICK, recipe="quick@2(compile=true)", reference_recipe="quick@2(compile=true)")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setattr(compiled_networks, "_COMPILER_FAILURES", [])
    monkeypatch.setenv(COMPILING, "mine")
    monkeypatch.delenv(COMPILING)


@pytest.fixture
def seconds(monkeypatch):
    """Mocked seconds per image, or error, of each mode of torch's compiler."""
    found = {"": 1 / 3000, "default": 1 / 4000, "reduce-overhead": RuntimeError("graphs\nfail")}

    def timed(suite, recipe):
        assert (recipe.sides, recipe.compile) == ((1.0,), False)
        taken = found[os.environ.get(COMPILING, "")]
        if isinstance(taken, Exception):
            raise taken
        return taken

    monkeypatch.setattr(training_speeds, "time_training_per_image", timed)
    return found


def test_measure_training_speeds_times_modes_and_reports_failures(seconds):
    os.environ[COMPILING] = "mine"
    found = measure_training_speeds(QUICK)
    assert {name: found[name] for name in (UNCOMPILED, COMPILED)} == pytest.approx({UNCOMPILED: 3000, COMPILED: 4000})
    assert found[GRAPHS] == "fails (RuntimeError: graphs fail)"
    words = "uncompiled 3,000 images/s, compiled 4,000 images/s, CUDA graphs fails (RuntimeError: graphs fail)"
    assert format_training_speeds(found) == words
    assert os.environ[COMPILING] == "mine"


def test_measure_training_speeds_reports_no_speed_for_failed_compiler(seconds, monkeypatch):
    """After a failed compilation the network runs eagerly, so its speed is not a compiled one."""
    monkeypatch.setattr(compiled_networks, "_COMPILER_FAILURES", ["no C compiler"])
    found = measure_training_speeds(QUICK)
    assert isinstance(found[UNCOMPILED], float) and "no C compiler" in found[COMPILED]


@pytest.mark.parametrize(("compiled", "pays"), [(3301.0, True), (3299.0, False), ("fails", False)])
def test_explain_why_compiling_reads_stored_speeds_per_network_and_recipe(compiled, pays, tmp_path):
    store, other = Workspace(tmp_path), find_builtin_suite("cifar10")
    store_training_speeds(store, other, "a GPU", {UNCOMPILED: 1.0, COMPILED: 9.0})
    store_training_speeds(store, QUICK, "a GPU", {UNCOMPILED: 3000.0, COMPILED: compiled})
    line = "compiling resnet-quick at 64 pixels by quick@2, because doctor measured 3,301 images/s instead of "
    line += "3,000 on a GPU"
    assert explain_why_compiling(store, QUICK) == (line if pays else "")
    assert explain_why_compiling(store, other)
    assert explain_why_compiling(store, find_builtin_suite("planted")) == ""


@pytest.mark.parametrize("text", ["", "[1]", '{"resnet-quick at 64 pixels by quick@2": 3}', "{}"])
def test_damaged_speed_record_is_ignored_and_rewritten(text, tmp_path):
    (tmp_path / "training-modes.json").write_text(text)
    assert explain_why_compiling(Workspace(tmp_path), QUICK) == ""
    store_training_speeds(Workspace(tmp_path), QUICK, "a GPU", {UNCOMPILED: 1.0, COMPILED: 2.0})
    assert explain_why_compiling(Workspace(tmp_path), QUICK)


def test_run_compiles_when_doctor_measured_faster_compiled_training(seconds, tmp_path, monkeypatch):
    console = Console(file=StringIO(), width=200)
    monkeypatch.setattr(doctor, "choose_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(doctor.torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(device_settings, "list_gpu_ids", lambda: ("0",))
    said = doctor.measure_and_store_training_speeds(QUICK, tmp_path).found
    assert said.endswith("by quick@2, because doctor measured 4,000 images/s instead of 3,000 on a GPU")
    _enable_compiling(EngineOptions(), Workspace(tmp_path), QUICK, console)
    assert os.environ.pop(COMPILING) == "default"
    assert "because doctor measured" in console.file.getvalue()
    for asked, compiles in ((False, False), (True, True)):  # this suite has no measurement
        _enable_compiling(EngineOptions(compile=asked), Workspace(tmp_path), find_builtin_suite("planted"), console)
        assert (os.environ.pop(COMPILING, "") == "default") is compiles
    monkeypatch.setattr(device_settings, "list_gpu_ids", lambda: ())
    _enable_compiling(EngineOptions(), Workspace(tmp_path), QUICK, console)
    assert COMPILING not in os.environ


def test_recipe_compiles_regardless_of_measured_speeds(seconds, tmp_path, monkeypatch):
    """`doctor` measures both modes for a recipe that compiles, and says that `run` compiles."""
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
        (replace(COMPILED_QUICK, recipe=QUICK.recipe), False, "local", (), True),  # explained networks alone
        (COMPILED_QUICK, False, "ray", (), False),  # other machines of the cluster may have GPUs
        (COMPILED_QUICK, False, "local", ("0",), False),
    ],
)
def test_run_warns_when_compiling_is_requested_without_gpu(suite, option, engine, gpus, told, tmp_path, monkeypatch):
    console = Console(file=StringIO(), width=200)
    monkeypatch.setattr(device_settings, "list_gpu_ids", lambda: gpus)
    _enable_compiling(EngineOptions(compile=option, engine=engine), Workspace(tmp_path), suite, console)
    line = "networks are not compiled, because this machine has no GPU\n"
    assert console.file.getvalue() == line * told


def test_doctor_measures_nothing_without_gpu_or_training(tmp_path):
    for name, reason in (("quick", "on GPUs only"), ("imagenet-networks", "trains no networks")):
        assert reason in doctor.measure_and_store_training_speeds(find_builtin_suite(name), tmp_path).found
    assert list(tmp_path.iterdir()) == []
