"""Define the result and the failure of a run, and their provenance: code, libraries and machine.

Nothing here imports torch.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roarbench.common.identity import check_field_values, encode_canonically, make_json_record
from roarbench.plan.cells_and_runs import Run, read_run_record

_ARCHIVED = "$Format:%H %ct$"  # `git archive` replaces this by the commit's hash and time (.gitattributes)
_COMMIT_DIGITS = 8  # git's own short hashes have more digits in larger copies of the same repository
LIBRARIES = ("torch", "torchvision", "numpy", "captum", "datasets", "pyarrow", "pillow", "sqlalchemy")

# settings by which oneDNN, torch and MKL use fewer instructions, and so compute other bits, than the processor has
_INSTRUCTION_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS")


@dataclass(frozen=True)
class Provenance:
    """Code, libraries and machine that computed a result."""

    code_version: str  # version of roarbench, with the commit if it runs from a checkout
    versions: dict[str, str]  # versions of Python and of installed libraries that can change a result
    # `machine`, `cpu`, usable `cores`, `device` of the tensors, and training `precision`
    hardware: dict[str, str | int]

    @property
    def known_values(self) -> dict[str, str]:
        """Return a dict from names to versions and hardware, without characters that markup may interpret."""
        values: dict[str, str | int] = {**self.versions, **self.hardware}
        return {name: _drop_markup(str(value)) for name, value in values.items()}

    @property
    def rounding_settings(self) -> dict[str, str]:
        """Return the known values that only change the rounding of a result; keys are the usual names."""
        found = {usual: self.hardware.get(name, self.versions.get(name)) for name, usual in _USUAL_NAMES.items()}
        return {usual: _drop_markup(str(value)) for usual, value in found.items() if value is not None}


@lru_cache(256)  # most rows of a file have the same values
def parse_provenance(code_version: str, versions: str, hardware: str) -> Provenance:
    """Return the provenance in the JSON texts of a row; raise an error for wrong types."""
    provenance = Provenance(code_version, json.loads(versions), json.loads(hardware))
    check_field_values(provenance)
    return provenance


_USUAL_NAMES = {
    "device": "device",
    "precision": "precision",
    "cpu": "processor",
    "torch": "torch",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
}


_LONGEST = 200  # characters of a value; all limits of instructions before a processor's name of 48 characters fit


@lru_cache(1000)  # most results of a store have the same values
def _drop_markup(text: str) -> str:
    return re.sub(r"[^\w .,@+()/-]", "", text)[:_LONGEST]


def read_provenance(device: str = "cpu", precision: str = "float32", libraries: Mapping[str, str] = {}) -> Provenance:
    """Return the provenance of this process's results; `device` is `cpu` or a GPU's name, `libraries` adds versions."""
    versions = {"python": platform.python_version()}
    versions |= {name: version for name in LIBRARIES if (version := read_package_version(name))}
    limits = [f"{name} {os.environ[name]}" for name in _INSTRUCTION_LIMITS if os.environ.get(name)]
    cpu = ", ".join([*limits, _name_processor()])
    hardware: dict[str, str | int] = {"machine": platform.machine(), "cpu": cpu, "cores": count_cores()}
    hardware |= {"device": device, "precision": precision}
    return Provenance(read_code_version(), {**versions, **libraries}, hardware)


@cache
def read_code_version() -> str:
    """Return the version of roarbench: `0.1.0`, or in a checkout with changed code `0.1.0 1a2b3c4+dirty`.

    Source that is not installed has the version `unknown`.
    """
    commit = _read_commit(Path(__file__).parents[1])
    return f"{read_package_version('roarbench') or 'unknown'} {commit}".rstrip()


@cache  # reading metadata takes milliseconds, and every run records versions
def read_package_version(name: str) -> str:
    """Return the version of an installed package; empty if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # tables need neither versions nor this import

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _read_commit(package: Path) -> str:
    """Return the first digits of a package's commit, with `+dirty` for changed code; empty if the commit is unknown."""
    try:
        # the second name fails in a virtual environment that lies in another project's checkout
        commit, _ = _run_git(package, "rev-parse", "HEAD", "HEAD:./__init__.py").split()
        dirty = _run_git(package, "status", "--porcelain", "--untracked-files=no", "--", ".")
        return commit[:_COMMIT_DIGITS] + ("+dirty" if dirty else "")
    except (OSError, subprocess.SubprocessError):
        return _read_archived_commit(package, _ARCHIVED)


def _read_archived_commit(package: Path, archived: str) -> str:
    """Return the commit of a package that was unpacked from `git archive`; empty if a file is younger than it.

    `archived` is the commit's hash and time. `tar` and `unzip` set the time of each file to that of the commit.
    """
    commit, _, seconds = archived.partition(" ")
    if not seconds.isdecimal():  # not from an archive
        return ""
    files = [*package.rglob("*.py"), *package.rglob("*.toml")]
    return "" if any(file.stat().st_mtime > int(seconds) for file in files) else commit[:_COMMIT_DIGITS]


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


@dataclass(frozen=True)
class RunResult:
    """Result of one run."""

    run: Run
    correct: int  # number of correctly classified test images
    total: int  # number of test images
    bits: bytes  # one bit per test image, 1 if correct (`pack_correctness`)
    seconds: float  # wall time of training and scoring
    provenance: Provenance  # code, libraries and machine
    # softmax probability of the class that the network predicts for the untouched image (`pack_probabilities`); None
    # except for `ScoredNetwork.NONE`
    probability: bytes | None = None
    rankings: str = ""  # checksum of the rankings by which features were removed; empty without removal
    # smoothness of the removal masks (`compute_smoothness_vs_random`); None without removal
    smoothness: float | None = None
    # checksum of the explained network's weights; empty if neither the ranking nor the score depends on the network, or
    # if not recorded
    weights: str = ""
    # mean training loss of the final epoch, in nats; None if no network was trained, or if not recorded
    loss: float | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))  # end of the run, UTC

    def __post_init__(self) -> None:
        length = (self.total + 7) // 8
        if self.total < 1 or len(self.bits) != length:
            raise ValueError(f"the correctness of {self.total} images needs {length} bytes, got {len(self.bits)}")
        packed = int.from_bytes(self.bits, "big")
        if packed.bit_count() != self.correct or packed % (1 << (8 * length - self.total)):
            raise ValueError(f"correct is {self.correct} of {self.total} images, which contradicts the bits")
        if self.probability is not None and len(self.probability) != 4 * self.total:
            expected = f"the probabilities of {self.total} images need {4 * self.total} bytes"
            raise ValueError(f"{expected}, got {len(self.probability)}")

    @property
    def correctness(self) -> NDArray[np.bool_]:
        """Return whether each test image was classified correctly, bool (total,)."""
        return np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.total).view(np.bool_)

    @property
    def probabilities(self) -> NDArray[np.float32] | None:
        """Return the softmax probability of the class predicted at t = 0, float32 (total,); None if not stored."""
        return None if self.probability is None else np.frombuffer(self.probability, "<f4").astype(np.float32)


_OUTCOME_COLUMNS = [column.name for column in fields(RunResult) if column.name not in ("run", "provenance")]
READ_COLUMNS = ["key", "record", *(column.name for column in fields(Provenance)), *_OUTCOME_COLUMNS]  # of `read_result`


@dataclass(frozen=True)
class Failure:
    """Failure of a run."""

    run: Run
    reason: str  # one line, at most 500 characters
    code_version: str  # version of roarbench
    created: datetime  # time of the failure, UTC


def pack_correctness(correctness: NDArray[np.bool_]) -> bytes:
    """Pack bool (n,) into one bit per test image; the first image is the highest bit of the first byte."""
    return np.packbits(correctness).tobytes()


def unpack_correctness(results: Sequence[RunResult]) -> NDArray[np.bool_]:
    """Return the correctness of results on the same images, bool (results, images)."""
    packed = np.frombuffer(b"".join(result.bits for result in results), np.uint8).reshape(len(results), -1)
    return np.unpackbits(packed, axis=1, count=results[0].total).view(np.bool_)


def pack_probabilities(probabilities: NDArray[np.float32]) -> bytes:
    """Pack float32 (n,) into four bytes per test image, little-endian."""
    return probabilities.astype("<f4").tobytes()


def read_run(key: str, record: str, parsed_runs: Mapping[str, Run] = {}) -> Run:
    """Return the run of a row of `results` or `failures`; raise ValueError if the stored record was altered."""
    if hashlib.sha256(record.encode()).hexdigest()[:32] != key:
        raise ValueError(f"the record of {key} was altered: its hash is not the key")
    return parsed_runs.get(key) or read_run_record(json.loads(record))


def read_result(row: Iterable[Any], parsed_runs: Mapping[str, Run] = {}) -> RunResult:
    """Return the result in a row of `results`, the values of `READ_COLUMNS`; raise ValueError for a damaged row."""
    key, record, code_version, versions, hardware, *outcome = row
    provenance, run = Provenance(code_version, versions, hardware), read_run(key, record, parsed_runs)
    try:
        return RunResult(run=run, provenance=provenance, **dict(zip(_OUTCOME_COLUMNS, outcome, strict=True)))
    except ValueError as error:
        name = f"{run.cell.estimator} t={run.cell.t:g} seed {run.seed}, {run.key}"
        raise ValueError(f"{name}: {error}") from None


def make_result_row(result: RunResult) -> dict[str, Any]:
    """Convert a result to a row of `results`."""
    run = result.run
    return {
        "key": run.key,
        "record": encode_canonically(make_json_record(run)),
        **{name: str(value) if isinstance(value, StrEnum) else value for name, value in vars(run.cell).items()},
        **{name: getattr(run, name) for name in ("seed", "recipe", "data", "reference")},
        "estimator_fingerprint": run.estimator,
        **{name: getattr(result, name) for name in _OUTCOME_COLUMNS},
        **vars(result.provenance),
    }
