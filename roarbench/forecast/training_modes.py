"""Measurement of the modes by which a network can be trained on a GPU: uncompiled, compiled, with CUDA graphs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from roarbench.devices import COMPILING, explain_no_compilation
from roarbench.forecast.measurement import time_training
from roarbench.plan.suite import SuiteSpec
from roarbench.store.training_modes import COMPILED, GRAPHS, UNCOMPILED, Speeds
from roarbench.text import fit_on_one_line

_MODES = {UNCOMPILED: "", COMPILED: "default", GRAPHS: "reduce-overhead"}  # of torch's compiler
_LETTERS = 80  # of an error that are shown


def measure_training_modes(suite: SuiteSpec) -> Speeds:
    """Measure the images a second that the suite's network trains with by each mode, at full size, on this device.

    ResNet-50 takes minutes, nearly all of them to compile it twice.
    """
    return {name: _measure(suite, mode) for name, mode in _MODES.items()}


def describe_training_modes(speeds: Speeds) -> str:
    """Return what was measured in words."""
    return ", ".join(
        f"{name} {found:,.0f} images/s" if isinstance(found, float) else f"{name} {found}"
        for name, found in speeds.items()
    )


def _measure(suite: SuiteSpec, mode: str) -> float | str:
    with _compiling(mode):
        try:
            rate = 1 / time_training(suite, replace(suite.recipe_record, sides=(1.0,)))
        except Exception as error:  # whatever a compiler of somebody's machine raises is the finding
            return f"fails ({type(error).__name__}: {fit_on_one_line(str(error), _LETTERS)})"
    return explain_no_compilation() if mode and explain_no_compilation() else rate


@contextmanager
def _compiling(mode: str) -> Iterator[None]:
    """Let trainings of this process compile by a mode of torch's compiler, or not where it is empty."""
    before = os.environ.pop(COMPILING, None)
    try:
        os.environ |= {COMPILING: mode} if mode else {}
        yield
    finally:
        os.environ.pop(COMPILING, None)
        os.environ |= {} if before is None else {COMPILING: before}
