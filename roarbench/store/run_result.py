"""Define the result and the failure of a run, and convert results to and from rows of the database."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roarbench.common.identity import encode_canonically, make_json_record
from roarbench.plan.cells_and_runs import Run, read_run_record
from roarbench.store.process_provenance import Provenance


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


def pack_probabilities(probabilities: NDArray[np.float32]) -> bytes:
    """Pack float32 (n,) into four bytes per test image, little-endian."""
    return probabilities.astype("<f4").tobytes()


def read_run(row: Any, parsed_runs: Mapping[str, Run] = {}) -> Run:
    """Return the run of a row of `results` or `failures`; raise ValueError if the stored record was altered."""
    if hashlib.sha256(row.record.encode()).hexdigest()[:32] != row.key:
        raise ValueError(f"the record of {row.key} was altered: its hash is not the key")
    return parsed_runs.get(row.key) or read_run_record(json.loads(row.record))


def read_result(row: Any, parsed_runs: Mapping[str, Run] = {}) -> RunResult:
    """Return the result in a row of `results`; raise ValueError for a damaged row."""
    provenance, run = Provenance(row.code_version, row.versions, row.hardware), read_run(row, parsed_runs)
    try:
        return RunResult(run=run, provenance=provenance, **{name: getattr(row, name) for name in _OUTCOME_COLUMNS})
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
