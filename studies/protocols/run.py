"""Which protocol finds the order that is known, on generated images? Writes two tables of tables.md.

Run: roarbench import studies/protocols/planted.parquet --store DIR; python -m studies.protocols.run --store DIR
(or, instead of the import, `roarbench run` of the four planted suites and of examples/planted/*.toml).
The known order comes from the generator (`known_gains`), everything else from the stored rows.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import norm

from roarbench.analysis.evidence import Evidence
from roarbench.analysis.stored_results import collect
from roarbench.analysis.suite_results import SuiteResults
from roarbench.datasets.planted import generate
from roarbench.enums import Order, ScoredNetwork, Split, Unit
from roarbench.errors import RunError
from roarbench.estimators.engine import importance_maps
from roarbench.estimators.inputs import Batch
from roarbench.execution.importance import image_ids
from roarbench.forecast.workload import count_work
from roarbench.kernels.inputs import Normalisation, normalise
from roarbench.plan.points import expand_points
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_file import read_suite
from roarbench.plan.suites import find_suite
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.exchanged import ROAR_EXCHANGED
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.protocol import Protocol
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.specific import SPECIFIC, SPECIFIC_CLASS
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.stats.board import RANDOM, Row
from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.stats.curves import gain
from roarbench.stats.pairwise_differences import Pairs
from roarbench.stats.verdicts import Verdict
from roarbench.store.results import ResultsStore
from roarbench.text import format_signed, markdown_table, percent
from studies.page import by_gain, verdict, write_stored

NAMES = ("planted-protocols", "planted-leaky", "planted-smooth")  # those that the rule was written for
BLIND = "planted-placed"  # where `specific` has to fail; made later, and no part of the rule
NAMED = tuple(map(find_suite, (*NAMES, BLIND)))
ASKED = (ROAR, KAR, ROAR_EXCHANGED, SPECIFIC, AUGMENTED, MORF, LERF)
EQUAL = 2.0  # points of known gain; rows that are nearer to each other are no pair
IGNORANT = ("random-blurred", "leak")  # rows that know nothing of the image
BACKWARD = 2  # passes that a training image takes beside the forward one
PAGE = Path(__file__).with_name("tables.md")
PLANTED = Path(__file__).parents[2] / "examples" / "planted"
FILES = tuple(PLANTED / f"{name}.toml" for name in ("planted", "leaky", "smooth", "placed"))
LENT = (SPECIFIC, SPECIFIC_CLASS, AUGMENTED)  # what is asked of networks that are tuned on masks of test images
HEAD = (
    *("data set", "protocol", "pairs right", "wrong", "open"),
    *("`truth`", "`truth-inverted`", "`random-blurred`", "`leak`"),
    *("z of `truth`", "core-seconds", "power"),
)


class JudgedProtocol(NamedTuple):
    """Results of a protocol on one data set."""

    suite: str  # name of the suite
    dataset: str  # name of its images
    protocol: str  # its name
    right: int  # right, wrong, undecided: pairs of rows by what the intervals of 95% say of their order
    wrong: int
    undecided: int
    rows: Mapping[str, Row]
    z: float  # of the gain of `truth`, in standard errors
    seconds: float  # core-seconds of all its rows

    def better(self, name: str) -> bool:
        """Return whether a row is called better than Random."""
        return name in self.rows and verdict(self.rows[name].random) == Verdict.BETTER

    @property
    def errors(self) -> int:
        """Count pairs the wrong way round and rows that know nothing and are called better than Random."""
        return self.wrong + sum(map(self.better, IGNORANT))

    @property
    def power(self) -> float:
        """Return z by the root of the core-minutes."""
        return self.z / math.sqrt(self.seconds / 60)


@cache
def known_gains(suite: SuiteSpec, order: Order, levels: tuple[float, ...]) -> dict[str, float]:
    """Return by row the area between Random's share of the information and its own, in points.

    The information of a feature is in proportion to the square of its strength (docs/planted.md). Random leaves 1 - t.
    """
    record = suite.dataset_record
    train = generate(record, Split.TRAIN)[0]
    moments = Normalisation(tuple(train.mean((0, 2, 3))), tuple(train.std((0, 2, 3))))
    pixels, labels, truth = generate(record, Split.TEST)
    images, classes = normalise(torch.from_numpy(pixels), moments), torch.from_numpy(labels)
    batch = Batch(images, classes, image_ids(Split.TEST, 0, len(labels)), torch.from_numpy(truth), classes)
    maps = importance_maps(suite.estimator_records, None, batch, torch.zeros(record.channels, 1, 1))
    energy = truth.reshape(len(labels), -1).astype(np.float64) ** 2
    energy /= energy.sum(axis=1, keepdims=True)
    steps = (0.0, *levels)
    random = 1 - np.array(steps)
    return {
        name: float(gain(steps, _left(energy, importance.flatten(1).numpy(), steps, order), random, order))
        for name, importance in maps.items()
    }


def _left(energy: np.ndarray, importance: np.ndarray, levels: Sequence[float], order: Order) -> np.ndarray:
    """Return the share of the information that is left at each level, the mean over images."""
    ranking = np.argsort(-importance if order is Order.MORF else importance, axis=1)
    lost = np.cumsum(np.take_along_axis(energy, ranking, axis=1), axis=1).mean(axis=0)
    return np.array([1.0 - (lost[round(t * len(lost)) - 1] if t else 0.0) for t in levels])


def judge(found: SuiteResults, protocol: Protocol, rate: float) -> JudgedProtocol:
    """Judge one protocol's gains by the known ones.

    Args:
        found: All that a suite asks for.
        protocol: One of the suite's.
        rate: Seconds that a pass of one image through the network takes.
    """
    evidence = Evidence.of(found)
    scores = evidence.drawn(protocol, evidence.unit).scores
    board = evidence.board(protocol, evidence.unit, scores.estimators)
    assert board is not None, "the suite has it"
    rows = by_gain(board)
    truth = rows["truth"].gain
    assert truth.value is not None and truth.high is not None, "every cell has several seeds or references"
    return JudgedProtocol(
        found.suite.name,
        found.suite.dataset,
        protocol.name,
        *pairs(known_gains(found.suite, protocol.order, scores.levels), gains(evidence, protocol)),
        rows,
        truth.value / (truth.high - truth.value) * float(norm.ppf((1 + evidence.bootstrap.confidence) / 2)),
        rate * passes(found.suite, protocol),
    )


def gains(evidence: Evidence, protocol: Protocol) -> dict[str, Sample]:
    """Return the gains of a protocol's rows with their draws; Random's is 0 by construction."""
    drawn = evidence.drawn(protocol, evidence.unit)
    rows = {name: sample for name, sample in drawn.areas.items() if name not in drawn.scores.checks}
    return rows | {RANDOM: Sample(0.0, np.zeros(evidence.bootstrap.resamples))}


def pairs(known: Mapping[str, float], gains: Mapping[str, Sample]) -> tuple[int, int, int]:
    """Count the pairs of rows of different known gains: the right way round, the wrong way round, and undecided."""
    names = list(gains)
    of = Pairs.of([gains[name] for name in names], Bootstrap().confidence)
    truth = np.array([known[name] for name in names])
    apart = truth[:, None] - truth[None, :]
    counted = of.upper & (np.abs(apart) >= EQUAL)
    settled = counted & (np.abs(of.differences) > of.halves)
    right = settled & (np.sign(of.differences) == np.sign(apart))
    return int(right.sum()), int((settled & ~right).sum()), int((counted & ~settled).sum())


def passes(suite: SuiteSpec, protocol: Protocol) -> float:
    """Count the passes of one image through the network that a protocol takes, references aside."""
    part = replace(suite, blocks=tuple(block for block in suite.blocks if block.protocol == protocol))
    work = count_work(part, expand_points(part))
    return (1 + BACKWARD) * work.images_retrained + work.images_scored


def seconds_a_pass(found: Sequence[SuiteResults]) -> float:
    """Return the seconds of a pass of one image in the quickest training: other programs disturb the others."""
    return min(
        result.seconds / ((1 + BACKWARD) * result.run.recipe_record.epochs * each.suite.dataset_record.train_images)
        for each in found
        for result in each.results.values()
        if result.run.cell.retrain is ScoredNetwork.IMAGES
    )


def leader(judged: Sequence[JudgedProtocol]) -> Iterator[list[str]]:
    """Yield name, errors, failures and least power of every protocol, the one first that leads by the rule."""
    sums = []
    for protocol in ASKED:
        own = [one for one in judged if one.protocol == protocol.name and one.suite in NAMES]
        errors, failures = sum(one.errors for one in own), sum(not one.better("truth") for one in own)
        sums.append((errors + failures, -min(one.power for one in own), protocol.name, errors, failures))
    for _, power, name, errors, failures in sorted(sums):
        yield [f"`{name}`", str(errors), str(failures), format_signed(-power)]


def _line(one: JudgedProtocol) -> list[str]:
    asked = ("truth", "truth-inverted", "random-blurred", "leak")
    beside = [verdict(one.rows[name].random) if name in one.rows else "" for name in asked]
    counts = [str(one.right), str(one.wrong), str(one.undecided)]
    return [
        one.dataset,
        f"`{one.protocol}`",
        *counts,
        *beside,
        format_signed(one.z),
        f"{one.seconds:.0f}",
        format_signed(one.power),
    ]


def _masks(found: Sequence[SuiteResults]) -> Iterator[list[str]]:
    """Yield accuracies of networks that see nothing but the removal masks."""
    for each in found:
        scores = each.scores(MASK_ONLY, Unit.SCALAR)
        assert scores is not None, "the suite has it"
        for name in scores.estimators:
            accuracy = float(scores.correct[name, scores.levels[0]].mean())
            yield [each.suite.dataset, f"`{name}`", percent(accuracy)]


def read(store: ResultsStore, suites: Sequence[SuiteSpec] = NAMED) -> list[SuiteResults]:
    """Return the results of these suites.

    Raises:
        RunError: Something is missing.
    """
    found = [collect(suite, store) for suite in suites]
    for each in found:
        if not each.complete:
            missing = len(expand_points(each.suite)) - len(each.results)
            raise RunError(f"{missing} runs of {each.suite.name} are missing; roarbench run --suite {each.suite.name}")
    return found


def tables(store: ResultsStore) -> dict[str, str]:
    """Return what stands on the page; the second is of networks that are tuned on masks of test images."""
    found, lent = read(store), read(store, list(map(read_suite, FILES)))
    rate = seconds_a_pass(found)
    judged = [judge(each, protocol, rate) for each in found for protocol in ASKED]
    known = (
        markdown_table(HEAD, map(_line, judged)),
        markdown_table(["protocol", "errors", "failures", "least power"], leader(judged)),
        markdown_table(["data set", "row", "masks alone"], _masks(found)),
    )
    on_lent = (_line(judge(each, protocol, rate)) for each in lent for protocol in LENT)
    return {"known": "\n\n".join(known), "lent": markdown_table(HEAD, on_lent)}


if __name__ == "__main__":
    write_stored(__doc__, PAGE, tables)
