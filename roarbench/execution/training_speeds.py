"""Measure training speeds with and without compilation, store them, and suggest compilation if it was faster."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from roarbench.common.device_settings import COMPILING
from roarbench.common.files import convert_write_errors, lock_file, write_atomically
from roarbench.common.text import fit_on_one_line
from roarbench.compute.compiled_networks import describe_compilation_failure
from roarbench.execution.rate_measurement import time_training_per_image
from roarbench.plan.suite import SuiteSpec
from roarbench.store.workspace import Workspace

UNCOMPILED, COMPILED, GRAPHS = "uncompiled", "compiled", "CUDA graphs"
_MODES = {UNCOMPILED: "", COMPILED: "default", GRAPHS: "reduce-overhead"}  # modes of torch.compile
_MAX_ERROR_LETTERS = 80  # characters shown of an error
_SPEEDS_FILE = "training-modes.json"
_WORTHWHILE_SPEED_UP = 1.1  # minimum speed-up that is worth the minutes of compiling

Speeds = Mapping[str, float | str]  # from each mode to images per second, or to the reason why the mode fails


def measure_training_speeds(suite: SuiteSpec) -> Speeds:
    """Return images per second in training at full size on this device, by mode of compilation; takes minutes."""
    return {name: _measure_training_speed(suite, mode) for name, mode in _MODES.items()}


def format_training_speeds(speeds: Speeds) -> str:
    """Format the measured speeds as text."""
    words = {mode: f"{speed:,.0f} images/s" if isinstance(speed, float) else speed for mode, speed in speeds.items()}
    return ", ".join(f"{mode} {speed}" for mode, speed in words.items())


def _measure_training_speed(suite: SuiteSpec, mode: str) -> float | str:
    with _set_compilation_mode(mode):
        try:
            rate = 1 / time_training_per_image(suite, replace(suite.recipe_record, sides=(1.0,), compile=False))
        except Exception as error:  # a compiler may raise any exception, and the error is the measured result
            return f"fails ({type(error).__name__}: {fit_on_one_line(str(error), _MAX_ERROR_LETTERS)})"
    return (mode and describe_compilation_failure()) or rate


@contextmanager
def _set_compilation_mode(mode: str) -> Iterator[None]:
    """Set the mode of torch's compiler for training runs of this process; an empty mode turns compilation off."""
    before = os.environ.pop(COMPILING, None)
    try:
        os.environ |= {COMPILING: mode} if mode else {}
        yield
    finally:
        os.environ.pop(COMPILING, None)
        os.environ |= {} if before is None else {COMPILING: before}


def store_training_speeds(workspace: Workspace, suite: SuiteSpec, device: str, speeds: Speeds) -> None:
    """Store the training speeds of a suite's network on a device, and replace earlier speeds."""
    path = workspace.root / _SPEEDS_FILE
    with lock_file(workspace.root / ".training-modes.lock"), convert_write_errors(path):
        known = _read_speeds(workspace) | {_make_network_key(suite): {"device": device, **speeds}}
        write_atomically(path, lambda temporary: temporary.write_text(json.dumps(known, indent=1)))


def explain_why_compiling(workspace: Workspace, suite: SuiteSpec) -> str:
    """Return a message if compiling made the training of a suite's network faster when measured; else return ""."""
    speeds = _read_speeds(workspace).get(_make_network_key(suite), {})
    plain, compiled = speeds.get(UNCOMPILED), speeds.get(COMPILED)
    if not (isinstance(plain, float) and isinstance(compiled, float) and compiled >= _WORTHWHILE_SPEED_UP * plain):
        return ""
    seen = f"{compiled:,.0f} images/s instead of {plain:,.0f} on {speeds['device']}"
    return f"compiling {_make_network_key(suite)}, because doctor measured {seen}"


def _make_network_key(suite: SuiteSpec) -> str:
    return f"{suite.model} at {suite.dataset_record.size} pixels by {suite.recipe}"


def _read_speeds(workspace: Workspace) -> dict[str, dict[str, float | str]]:
    """Return all stored speeds; there are none if the file is missing or damaged, which only affects running time."""
    try:
        known = json.loads((workspace.root / _SPEEDS_FILE).read_text())
        return {name: dict(speeds) for name, speeds in dict(known).items()}
    except (OSError, ValueError, TypeError):
        return {}
