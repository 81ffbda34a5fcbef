"""Do maps in bfloat16 change what a suite says of its estimators? The same suite by maps of both precisions.

Both explain the same reference, remove from the same images and train with the same seeds; only what the reference
computes with while its maps are made differs. Printed are, for each estimator, how many features come into another
level bin, and float32's answers beside bfloat16's: accuracies, gains, verdicts and places with their intervals. By
`RULE` a suite may have maps in bfloat16.

Run: OMP_NUM_THREADS=1 python benchmarks/precision_places.py --store DIR
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from precision import moved
from rich.console import Console

from roarbench.errors import RunError
from roarbench.estimators import CONTROLS
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import importance
from roarbench.execution.runner import Finished, Request, run_suite
from roarbench.execution.suite_work import SuiteWork
from roarbench.kernels.bit_planes import encode
from roarbench.kernels.ranking import features, sort_keys, tie_order
from roarbench.plan.suite import Block, Suite
from roarbench.plan.suites import find_suite
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.stats.agreement import agreement
from roarbench.stats.board import Board, Row
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, estimate, half_width
from roarbench.stats.curves import POINTS, Scores
from roarbench.stats.draws import Draws, draw
from roarbench.stats.judging import board, gain_samples
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Making, Retrain, Split, Unit
from roarbench.text import MISSING, place_interval

RULE = """no verdict differs, no two estimators differ significantly in opposite orders, and every gain differs,
with its interval, by less than the minimum detectable difference of the board (80 % power)"""
_SHORT = "~bf16"  # stands for the same estimator by maps in bfloat16
_SAMPLE = 512  # test images of which it is counted what moves
_BOOTSTRAP = Bootstrap()


def suites(name: str, seeds: int) -> tuple[Suite, Suite]:
    """Return the first ROAR block of a suite, with scoring in both orders, by float32 and by bfloat16."""
    whole = find_suite(name)
    roar = next(block for block in whole.blocks if block.protocol == ROAR)
    scored = [Block(protocol, roar.estimators, roar.levels, seeds=1, unit=roar.unit) for protocol in (MORF, LERF)]
    exact = replace(whole, blocks=(replace(roar, seeds=seeds), *scored))
    return exact, replace(exact, maps=Making.BF16)


def planes(work: SuiteWork, estimators: list[str], unit: Unit) -> dict[str, NDArray[np.uint8]]:
    """Return the first test images' bit-planes by estimator, uint8 (n, planes, width), in the precision asked for."""
    count = min(_SAMPLE, len(work.images.test.labels))
    maps = importance.timed_maps(work.explained[0], estimators, Split.TEST, 0, count)
    computed = {part.precision for each in maps.values() for part in each.provenance.batches}
    if computed != {work.suite.maps}:
        raise RunError(f"asked for maps in {work.suite.maps}, this machine makes {', '.join(sorted(computed))}")
    layout = work.ranking_spec(find_estimator(estimators[0]), unit).layout
    ties = tie_order(importance.image_ids(Split.TEST, 0, count).numpy(), layout.features)
    flat = {name: features(each.importance.numpy(), layout.shape, unit) for name, each in maps.items()}
    return {name: encode(sort_keys(values, ties), layout) for name, values in flat.items()}


def merged(exact: Scores, short: Scores, estimators: list[str]) -> Scores:
    """Put both on one board, so that all is paired."""
    added = {(name + _SHORT, t): short.correct[name, t] for name in estimators for t in short.levels}
    rows = (*exact.estimators, *(name + _SHORT for name in estimators))
    return Scores(rows, exact.levels, {**exact.correct, **added})


def told(found: Estimate, scale: float = 1.0) -> str:
    """Write a number with its interval; MISSING where there is none."""
    if found.value is None or found.low is None or found.high is None:
        return MISSING
    return f"{scale * found.value:+.1f} [{scale * found.low:+.1f}, {scale * found.high:+.1f}]"


def verdicts(row: Row) -> str:
    """Return a row's verdicts against Random and Sobel."""
    return ", ".join(found.verdict if found else MISSING for found in (row.random, row.sobel))


def compared(protocol: Protocol, done: list[Finished], unit: Unit, estimators: list[str]) -> Iterator[str]:
    """Write a protocol by both precisions, line by line."""
    exact, short = (_scores(each, protocol, unit) for each in done)
    both = merged(exact, short, estimators)
    spread = done[0].suite_results.spread(protocol)
    draws = draw(both, _BOOTSTRAP, spread if protocol.retrain is not Retrain.NONE else None)
    boards = [board(scores, protocol, _BOOTSTRAP, spread) for scores in (exact, short)]
    rows = [{row.estimator: row for row in each.rows} for each in boards]
    gains = gain_samples(both, protocol, draws)
    heads = [f"accuracy at t = {t:g}, bf16 - float32" for t in both.levels]
    yield f"**{protocol.name.upper()}**, differences in accuracy points\n"
    yield f"| estimator | {' | '.join(heads)} | gain, float32 | gain, bf16 | difference | vs Random, Sobel | place |"
    yield "|---" * (6 + len(heads)) + "|"
    for name in estimators:
        cells = [told(difference(draws, name, t), POINTS) for t in both.levels]
        cells += [told(each[name].gain) for each in rows]
        cells += [told(estimate(gains[name + _SHORT].minus(gains[name]), _BOOTSTRAP.confidence))]
        cells += [changed(*(verdicts(each[name]) for each in rows))]
        cells += [changed(*(place_interval(each[name].place) for each in rows))]
        yield f"| `{name}` | {' | '.join(cells)} |"
    own, theirs = ({name: gains[name + mark] for name in estimators} for mark in ("", _SHORT))
    alike = agreement(own, theirs, _BOOTSTRAP.confidence)
    if alike is None:
        raise RunError(f"an order of {len(estimators)} estimator is none; name a suite with two or more")
    assert alike.opposed is not None, "both have two trainings per cell"
    pairs = len(estimators) * (len(estimators) - 1) // 2
    settled = f"{alike.settled} of {pairs} pairs settled under both, {alike.opposed} of them opposed"
    yield f"\nKendall's tau of the gains {alike.tau.value:.2f} [{alike.tau.low:.2f}, {alike.tau.high:.2f}]; {settled}."
    yield f"{judged(boards, gains, estimators, alike.opposed)}\n"


def _scores(done: Finished, protocol: Protocol, unit: Unit) -> Scores:
    """Return the answers of a protocol, which both suites have."""
    found = done.suite_results.scores(protocol, unit)
    assert found is not None, "`suites` gives both all three protocols"
    return found


def difference(draws: Draws, name: str, t: float) -> Estimate:
    """Estimate accuracy by bfloat16 maps minus accuracy by float32 maps."""
    short, exact = draws.accuracy((name + _SHORT, t)), draws.accuracy((name, t))
    return estimate(short.minus(exact), _BOOTSTRAP.confidence) if short and exact else Estimate()


def changed(exact: str, short: str) -> str:
    return exact if exact == short else f"**{exact}; in bf16 {short}**"


def judged(boards: list[Board], gains: dict[str, Sample], estimators: list[str], opposed: int) -> str:
    """Say whether `RULE` lets maps be bfloat16, with what speaks against it."""
    margin = boards[0].detectable
    if margin is None:
        return "The rule says nothing: one training per cell has no intervals."
    exact, short = ({row.estimator: verdicts(row) for row in each.rows} for each in boards)
    faults = [f"{name} has another verdict" for name in estimators if exact[name] != short[name]]
    faults += [f"{opposed} pairs are opposed"] if opposed else []
    for name in estimators:
        change = gains[name + _SHORT].minus(gains[name])
        most = abs(change.value) + half_width(change, _BOOTSTRAP.confidence)  # the far end of its interval
        if most >= margin:
            faults.append(f"{name}'s gain may differ by {most:.1f}")
    return f"By the rule (margin {margin:.1f} points): {'; '.join(faults) if faults else 'bfloat16 may be used'}."


def main() -> None:
    """Run both, then print what moved and what changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="quick")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--store", type=Path, required=True)
    asked = parser.parse_args()
    both = suites(asked.suite, asked.seeds)
    unit, console = both[0].blocks[0].unit, Console(stderr=True)
    estimators = [name for name in both[0].blocks[0].estimators if name not in CONTROLS]
    with ResultsStore.open(default_url(asked.store)) as store:
        requests = [Request(suite, asked.data, asked.limit, workers=asked.workers) for suite in both]
        done = [run_suite(request, Workspace(asked.store), store, console) for request in requests]
    layout = done[0].work.ranking_spec(find_estimator(estimators[0]), unit).layout
    levels = ", ".join(f"{t:g}" for t in layout.levels)
    print(f"Percent of features in another bin, and of those removed at {levels}; the first {_SAMPLE} test images\n")
    exact, short = (planes(each.work, estimators, unit) for each in done)
    for name in estimators:
        found = moved(exact[name], short[name], layout)
        print(f"| `{name}` | {100 * found.bins:.2f} | {', '.join(f'{100 * share:.2f}' for share in found.removed)} |")
    print()
    for protocol in (ROAR, MORF, LERF):
        print("\n".join(compared(protocol, done, unit, estimators)))
    print(f"The rule: {' '.join(RULE.split())}.")


if __name__ == "__main__":
    main()
