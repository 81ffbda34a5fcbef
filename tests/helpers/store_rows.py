"""Rows and files of stores: to fill a store with, to select, to change, to damage and to lease."""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
from sqlalchemy import select

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.plan.cells_and_runs import Cell, Run
from roarbench.plan.planned_runs import PlannedRun
from roarbench.store.export_and_import import ImportOutcome, export_results, import_results
from roarbench.store.leases import LeaseRequest, Owner
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import Provenance, RunResult, pack_correctness, pack_probabilities
from roarbench.store.schema import results

ORIGIN = Provenance("0.1.0 1a2b3c4", {"python": "3.11.7", "torch": "2.13.0"}, {"cpu": "some", "cores": 2})


def make_run(seed: int = 0, t: float = 0.9, estimator: str = "var-grad", dataset: str = "planted") -> Run:
    cell = Cell(dataset, "resnet8", estimator, Order.LERF, ScoredNetwork.MASKS, "mean", Unit.PIXEL, t)
    return Run(cell, seed, "fast@1", "da7a", "e571", "4ef")


def make_result(run: Run, total: int = 1001) -> RunResult:
    answers = np.random.default_rng(run.seed).random(total) < 0.6
    chances = np.random.default_rng(run.seed).random(total, dtype=np.float32)
    made = RunResult(
        run, int(answers.sum()), total, pack_correctness(answers), 17.25, ORIGIN, pack_probabilities(chances)
    )
    return replace(made, rankings="7a4c", smoothness=1.0 / 3, weights="3e16", loss=0.1 + 0.2)


def list_result_keys(store: ResultsStore) -> list[str]:
    """Return the keys of all results, in order."""
    with store.database.begin_read() as connection:
        return list(connection.scalars(select(results.c.key).order_by(results.c.key)))


def has_values(point: PlannedRun, **values: object) -> bool:
    """Return whether a point has this seed, and its cell the other values."""
    return all(getattr(point if key == "seed" else point.cell, key) == value for key, value in values.items())


def keep_rows(results: SuiteResults, keep: Callable[[PlannedRun], bool]) -> SuiteResults:
    return replace(results, results={point: row for point, row in results.results.items() if keep(point)})


def remove_rows(results: SuiteResults, **values: object) -> SuiteResults:
    """Leave out the rows whose point has all of these values."""
    return keep_rows(results, lambda point: not has_values(point, **values))


def change_rows(results: SuiteResults, change: Callable[[PlannedRun, RunResult], RunResult]) -> SuiteResults:
    return replace(results, results={point: change(point, row) for point, row in results.results.items()})


def set_correctness(row: RunResult, bits: np.ndarray) -> RunResult:
    return replace(row, bits=pack_correctness(bits), correct=int(bits.sum()))


def set_checksums(
    results: SuiteResults,
    weights: Callable[[PlannedRun], str] = lambda point: "a" * 64,
    rankings: Callable[[PlannedRun], str] = lambda point: "r" * 32,
) -> SuiteResults:
    """Set the checksums of weights and rankings of each row; weights only if the run depends on them."""

    def change(point: PlannedRun, row: RunResult) -> RunResult:
        return replace(row, weights=weights(point) if row.run.reference else "", rankings=rankings(point))

    return change_rows(results, change)


def moved(one: ResultsStore, other: ResultsStore, folder: Path) -> ImportOutcome:
    """Export all rows of a store, as `file.parquet`, and import them into another."""
    export_results(one, folder / "file.parquet")
    return import_results(other, folder / "file.parquet")


def lease(store: ResultsStore, keys: Collection[str], owner: Owner) -> set[str]:
    """Lease those that are free, each for itself; their keys."""
    answer = store.claim_leases([LeaseRequest((key,)) for key in keys], owner, len(keys))
    return {key for wish in answer.granted for key in wish.keys}


def flip(path: Path, after: bytes = b"") -> None:
    """Change one bit of a file: of the first byte of these, or of the byte in its middle."""
    content = bytearray(path.read_bytes())
    content[content.index(after) if after else len(content) // 2] ^= 1
    path.write_bytes(content)


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
