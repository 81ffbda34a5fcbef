"""Job that scores several explained networks under the maps of one of them."""

import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.devices import choose_device
from roarbench.enums import Split
from roarbench.execution.jobs import (
    check_explained_weights,
    describe_computation,
    exchange_rankings,
    find_removed,
    make_test_inputs,
)
from roarbench.execution.suite_work import ReferenceModel, SuiteWork
from roarbench.kernels.mask_smoothness import compute_smoothness
from roarbench.kernels.scoring import Scored, count_scored_at_once, predict_each
from roarbench.plan.runs import CLEAN, Run, check_fill
from roarbench.plan.suite import find_reference_pair
from roarbench.store.annotations import Kind
from roarbench.store.rankings import Rankings
from roarbench.store.run_result import RunResult, pack_answers

_NETWORKS = 8  # that a process keeps: a suite's references
HASHED = 2  # bytes of the hash of one image's removal mask


class ScoredTogether(NamedTuple):
    """Outcomes of several runs, and what is noted with them."""

    results: tuple[RunResult, ...]
    remarks: Mapping[str, str]  # of the runs in which a reference is scored under its own maps: `Kind.MASKS`
    note: str = ""


def score_networks_under_maps(work: SuiteWork, runs: tuple[Run, ...]) -> ScoredTogether:
    """Score references under the maps of one of them, an estimator's at some levels.

    An answer is correct where the reference that is scored predicts the class that the maps explain: the one that the
    explained reference predicts for the untouched image. Degraded images are made once for all references.
    """
    first, row = runs[0], work.row_spec(runs[0])
    check_fill(first.cell.fill, first.cell.retrain)
    rankings = exchange_rankings(work.images, first, work.rankings.open(row)) if row else None
    weights, explained = check_explained_weights(work, first, rankings), work.explained_by(first)
    judges = {each: _judge(each, each.store.checksum()) for each in map(work.scored_by, runs)}
    results, remarks = list[RunResult](), dict[str, str]()
    for _, found in groupby(sorted(runs, key=_level), key=_level):
        start, level = time.perf_counter(), tuple(found)
        removed = find_removed(work.images, level[0], rankings)
        smooth = None if removed is None else compute_smoothness(removed, work.images.record.shape, first.cell.unit)
        targets = explained.store.predictions(Split.TEST).targets
        kept = _predict(work, level, rankings, removed, judges) == targets
        seconds = (time.perf_counter() - start) / len(level)
        for run, answers in zip(level, kept, strict=True):
            results.append(
                RunResult(
                    run=run,
                    correct=int(answers.sum()),
                    total=len(answers),
                    bits=pack_answers(answers),
                    seconds=seconds,
                    provenance=describe_computation(run),
                    rankings=rankings.checksum if rankings else "",
                    smoothness=smooth,
                    weights=weights,
                )
            )
            own, scored = find_reference_pair(run.seed)
            if removed is not None and own == scored:
                remarks[f"{Kind.MASKS} {run.key}"] = hash_masks(removed)
    return ScoredTogether(tuple(results), remarks)


@lru_cache(maxsize=_NETWORKS)
def _judge(scored: ReferenceModel, weights: str) -> Scored:
    """Return a reference to score, on the device; read once in a process for one checksum `weights`."""
    return Scored(scored.trained().to(choose_device()), scored.norm)


def _level(run: Run) -> float:
    return run.cell.t


def _predict(
    work: SuiteWork,
    runs: Sequence[Run],
    rankings: Rankings | None,
    removed: NDArray[np.uint8] | None,
    judges: Mapping[ReferenceModel, Scored],
) -> NDArray[np.int64]:
    """Return the classes that the references of these runs, of one level, predict for the test images, (runs, n)."""
    scored = [work.scored_by(run) for run in runs]
    if runs[0].cell.estimator == CLEAN:  # which they have said already
        return np.stack([each.store.predictions(Split.TEST).targets for each in scored])
    inputs = make_test_inputs(work.images, runs[0], rankings, removed)
    logits = predict_each([judges[each] for each in scored], inputs, count_scored_at_once(work.images.record.size))
    return np.stack([each.argmax(1).numpy() for each in logits])


def hash_masks(removed: NDArray[np.uint8]) -> str:
    """Return the start of the hash of each image's packed removed bits, uint8 (n, width), as text."""
    digests = (blake2b(mask.tobytes(), digest_size=HASHED).digest() for mask in removed)
    return b64encode(b"".join(digests)).decode()
