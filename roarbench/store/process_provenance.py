"""Describe the software and hardware that compute a result: code, libraries and machine. Nothing here imports torch."""

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("torch", "torchvision", "numpy", "captum", "datasets", "pyarrow", "pillow", "sqlalchemy")


@dataclass(frozen=True)
class Provenance:
    """Code, libraries and machine that computed a result."""

    code_version: str  # version of roarbench, with the commit if it runs from a checkout
    versions: dict[str, str]  # versions of Python and of installed libraries that can change a result
    # `machine`, `cpu`, usable `cores`, `device` of the tensors, and training `precision`
    hardware: dict[str, str | int]

    @property
    def known_values(self) -> dict[str, str]:
        """Return a dict from names to versions and hardware, without characters that markup may interpret.

        Results without a precision come from versions of roarbench that always recorded the device `cpu`, so the device
        of such results is left out.
        """
        values: dict[str, str | int] = {**self.versions, **self.hardware}
        if "precision" not in values:
            values.pop("device", None)
        return {name: re.sub(r"[^\w .,@+()/-]", "", str(value))[:60] for name, value in values.items()}

    @property
    def rounding_settings(self) -> dict[str, str]:
        """Return the known values that only change the rounding of a result; keys are the usual names."""
        known = self.known_values
        return {usual: known[name] for name, usual in _USUAL_NAMES.items() if name in known}


_USUAL_NAMES = {"device": "device", "precision": "precision", "cpu": "processor", "cuda": "CUDA", "cudnn": "cuDNN"}


def read_provenance(device: str = "cpu", precision: str = "float32", libraries: Mapping[str, str] = {}) -> Provenance:
    """Return the provenance of this process's results; `device` is `cpu` or a GPU's name, `libraries` adds versions."""
    versions = {"python": platform.python_version()}
    versions |= {name: version for name in LIBRARIES if (version := read_package_version(name))}
    hardware: dict[str, str | int] = {"machine": platform.machine(), "cpu": _name_processor(), "cores": count_cores()}
    hardware |= {"device": device, "precision": precision}
    return Provenance(read_code_version(), {**versions, **libraries}, hardware)


@cache
def read_code_version() -> str:
    """Return the version of roarbench: `0.1.0`, or in a checkout with changed code `0.1.0 1a2b3c4+dirty`."""
    commit = _read_commit(Path(__file__).parents[1])
    return f"{read_package_version('roarbench') or '0'} {commit}".rstrip()


@cache  # reading metadata takes milliseconds, and every run records versions
def read_package_version(name: str) -> str:
    """Return the version of an installed package; empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _read_commit(package: Path) -> str:
    """Return the short hash of a package's commit, with `+dirty` for changed code; empty outside of a checkout."""
    try:
        # a virtual environment may lie in another project's checkout
        _run_git(package, "ls-files", "--error-unmatch", "__init__.py")
        dirty = _run_git(package, "status", "--porcelain", "--untracked-files=no", "--", ".")
        return _run_git(package, "rev-parse", "--short", "HEAD") + ("+dirty" if dirty else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _run_git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=10).stdout.strip()


@cache
def _name_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def count_cores() -> int:
    """Count the cores that this process may use, which a container may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
