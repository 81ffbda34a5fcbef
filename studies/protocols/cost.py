"""What does a verdict cost? Core-minutes against the share of the verdicts that all networks together give.

Run: python -m studies.protocols.cost --quick QUICK --planted PLANTED; QUICK is a store with quick-2.parquet and
quick-specific-1.parquet of studies/replication, PLANTED one with planted.parquet.

On photographs: `quick` 2 and `quick-specific` with their replications hold twelve networks under every protocol, each
with a reference of its own. What a board of them all says of its rows beside Random is what a cheaper one should say:
one, two or three of them in a chance order, or a course of three looks that stops where verdicts are settled
(`run --until-decided --difference 2`). On generated images: the pairs of rows whose known order is found.

Cost is counted: passes of one image through the network (a training image counts three, an explained one as the
forecast counts it) for maps, references, trainings and scoring of these rows, times the seconds of a pass in the
quickest training of the store. Writes `roarbench/data/ways.json`, which `plan --question` reads, and a table.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from roarbench.analysis.collecting import collect
from roarbench.estimators import CONTROLS
from roarbench.forecast.question import Way
from roarbench.forecast.rates import operations
from roarbench.forecast.workload import count_work, suite_cost
from roarbench.plan.points import expand, select, with_seeds
from roarbench.plan.suite import Suite
from roarbench.plan.suites import find_suite
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.board import RANDOM, Board
from roarbench.stats.curves import Scores
from roarbench.stats.verdicts import POWER, Verdict
from roarbench.store.results import ResultsStore, default_url
from roarbench.text import markdown_table
from studies.coverage.run import share_images
from studies.page import program, write
from studies.protocols import run as known_order
from studies.protocols.networks import Looks, beside_random, networks_of, together

QUICK = find_suite("quick@2")
RECORD = Path(__file__).parents[2] / "roarbench" / "data" / "ways.json"
MOST = 3  # seeds of the suites
DIFFERENCE = 2.0  # points; the smallest of interest in a course
ORDERS = 40  # chance orders of the networks


class SuitePart(NamedTuple):
    """Rows of a suite under one protocol."""

    suite: Suite
    protocol: Protocol


ASKED = (
    SuitePart(find_suite("quick-specific"), SPECIFIC),
    *(SuitePart(QUICK, protocol) for protocol in (SPECIFIC, AUGMENTED, ROAR)),
)


def rows_of(scores: Scores) -> tuple[str, ...]:
    """Return the rows that explain a network."""
    return tuple(name for name in scores.estimators if any(at == name for at, _ in scores.references))


def alike(board: Board, whole: Mapping[str, Verdict]) -> float:
    """Return the share of the verdicts of `whole` that a board gives, too, in [0, 1]."""
    said = dict(beside_random(board))
    return float(np.mean([said.get(name) is verdict for name, verdict in whole.items()]))


def detectable(board: Board) -> float | None:
    """Return the true gain that a row's comparison with Random finds with 80% power, the median over rows."""
    halves = [
        row.gain.high - row.gain.value
        for row in board.rows
        if row.estimator not in CONTROLS and row.gain.high is not None and row.gain.value is not None
    ]
    confidence = max(1 - (1 - board.bootstrap.confidence) / max(row.looks or 1 for row in board.rows), 0.0)
    return float(np.median(halves) * (1 + norm.ppf(POWER) / norm.ppf((1 + confidence) / 2))) if halves else None


def cost(suite: Suite, seconds: float) -> float:
    """Return the core-minutes of a part of a suite, at so many seconds for the forward pass of an image."""
    work = count_work(suite, expand(suite))
    flops = suite_cost(suite).flops
    return operations(work, flops) / flops * seconds / 60


def part_of(asked: SuitePart, seeds: Mapping[str, int]) -> Suite:
    """Return what of a suite has to be run for these rows with so many trainings."""
    part = select(asked.suite, seeds, protocol=asked.protocol)
    return with_seeds(part, {(asked.protocol.retrain, name): count for name, count in seeds.items()})


def ways(store: Path, seconds: float) -> Iterator[Way]:
    """Yield all ways, each of its protocol's networks in the same chance orders."""
    pools = {asked: together(store, asked.protocol, asked.suite) for asked in ASKED}
    whole = {
        asked: dict(beside_random(Looks(pool, asked.protocol, 0).fixed(_networks(pool))))
        for asked, pool in pools.items()
    }
    for asked, pool in pools.items():
        suite, protocol = asked
        rows = rows_of(pool)
        orders = [np.random.default_rng([0, number]).permutation(_networks(pool))[:MOST] for number in range(ORDERS)]
        looks = [Looks(networks_of(pool, order), protocol, number) for number, order in enumerate(orders)]
        for seeds, until in (*((n, False) for n in range(1, MOST + 1)), (MOST, True)):
            boards, taken, costs = [], [], []
            for each in looks:
                if until:
                    board, counts = each.until_decided(DIFFERENCE, MOST)
                else:
                    board, counts = each.fixed(seeds), dict.fromkeys(pool.estimators, seeds)
                boards.append(board)
                taken.append(float(np.mean([counts[name] for name in rows])))
                costs.append(cost(part_of(asked, counts), seconds))
            same = [alike(board, whole[asked]) for board in boards]
            found = [value for board in boards if (value := detectable(board)) is not None]
            yield Way(
                f"{suite.name}@{suite.version}",
                protocol.name,
                seeds,
                until,
                round(float(np.mean(taken)), 2),
                round(float(np.mean(same)), 3),
                round(float(np.std(same) / np.sqrt(ORDERS)), 3),
                round(float(np.mean([alike(board, whole[ASKED[-1]]) for board in boards])), 3),
                round(float(np.mean(found)), 2) if found else None,
                round(float(np.mean(costs)), 2),
            )


def _networks(pool: Scores) -> int:
    return len(pool.correct[RANDOM, pool.levels[0]])


class Known(NamedTuple):
    """A protocol on generated images: pairs of rows in the order that is known, and what they cost."""

    protocol: str
    found: float
    core_minutes: float


def known(store: ResultsStore) -> list[Known]:
    """Return by protocol the share of the pairs that it settles rightly, and core-minutes, over all data sets."""
    found = [each for each in known_order.read(store) if each.suite.name in known_order.NAMES]
    rate = known_order.seconds_a_pass(found)
    made = []
    for protocol in known_order.ASKED:
        judged = [known_order.judge(each, protocol, rate) for each in found]
        pairs = sum(one.right + one.wrong + one.undecided for one in judged)
        right, minutes = sum(one.right for one in judged), sum(one.seconds for one in judged) / 60
        made.append(Known(protocol.name, round(right / pairs, 3), round(minutes, 2)))
    return made


@cache
def seconds_a_pass(store: Path) -> float:
    """Return the seconds of a forward pass of one image in the quickest training of `quick`."""
    with ResultsStore.open(default_url(store), read_only=True) as results:
        return known_order.seconds_a_pass([collect(QUICK, results)])


def table(made: Sequence[Way], on_planted: Sequence[Known]) -> str:
    """Return the tables of the page."""
    rows = [
        [
            f"`{way.suite.partition('@')[0]}`",
            f"`{way.protocol}`",
            way.trained,
            f"{way.trainings:.1f}",
            "" if way.detectable is None else f"{way.detectable:.1f}",
            f"{100 * way.same:.0f} ± {100 * way.same_error:.0f}",
            f"{100 * way.same_as_roar:.0f}",
            f"{way.core_minutes:.1f}",
        ]
        for way in made
    ]
    heads = ["suite", "protocol", "trainings", "of a row", "detectable"]
    heads += ["verdicts recovered, %", "of ROAR's, %", "core-minutes"]
    generated = [[f"`{one.protocol}`", f"{100 * one.found:.0f}", f"{one.core_minutes:.1f}"] for one in on_planted]
    return "\n\n".join(
        (
            markdown_table(heads, rows),
            markdown_table(["protocol", "pairs in the known order, %", "core-minutes"], generated),
        )
    )


def record(made: Sequence[Way], on_planted: Sequence[Known]) -> dict[str, Any]:
    """Return what is shipped, as plain values."""
    return {
        "difference": DIFFERENCE,
        "orders": ORDERS,
        "ways": [way._asdict() for way in made],
        "planted": [one._asdict() for one in on_planted],
    }


def main() -> None:
    """Write record and table."""
    parser = program(__doc__)
    parser.add_argument("--quick", type=Path, required=True, help="with `quick` 2, `quick-specific`, replications")
    parser.add_argument("--planted", type=Path, required=True, help="with the suites of generated images")
    options = parser.parse_args()
    share_images()
    made = list(ways(options.quick, seconds_a_pass(options.quick)))
    with ResultsStore.open(default_url(options.planted), read_only=True) as store:
        on_planted = known(store)
    RECORD.write_text(json.dumps(record(made, on_planted), indent=1) + "\n", "utf-8")
    write(Path(__file__).with_name("tables.md"), {"cost": table(made, on_planted)})


if __name__ == "__main__":
    main()
