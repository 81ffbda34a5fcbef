"""Judge the same simulated tables with the bootstrap that the formula replaced.

The package of commit c65aca64 and these simulations are copied into a temporary folder, where this program runs with
`--judge` and prints its results; `run.py` writes them to before.md. A clone needs the whole history for this.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from studies.coverage.simulate import (
    CONTROLS,
    Counts,
    Interval,
    Judged,
    Results,
    count_right_own_network,
    simulate_all,
)

COMMIT = "c65aca64"  # statistics 3: 2,000 draws with seed 0, verdicts adjusted over all comparisons of a protocol


def run_in_copy_of_old_package(program: str, *arguments: str) -> Any:
    """Run a program of this folder with the old package and the results published then; return the JSON it prints."""
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        old = ["git", "archive", COMMIT, "roarbench", "results"]
        packed = subprocess.run(old, cwd=here.parents[1], stdout=-1, check=True)
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        shutil.copytree(here, Path(folder, "studies", "coverage"), ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, "-m", f"studies.coverage.{program}", "--judge", *arguments]
        return json.loads(subprocess.run(command, cwd=folder, stdout=-1, check=True, text=True).stdout)


def simulate_and_judge(tables: int) -> dict[str, Results]:
    """Simulate all tables, and judge them with the package of the current folder, which is the old one."""
    from importlib import import_module

    board, own = (import_module(f"roarbench.stats.{name}") for name in ("compute_board", "own_network_gain"))
    draws, variances = (import_module(f"roarbench.stats.{name}") for name in ("resampling", "variance_components"))
    ranks, intervals = (import_module(f"roarbench.stats.{name}") for name in ("rank_intervals", "bootstrap_intervals"))
    roar, morf = import_module("roarbench.plan.protocols").ROAR, import_module("roarbench.common.enums").Order.MORF
    untouched = import_module("roarbench.stats.correctness_and_gain").UNTOUCHED
    bootstrap = intervals.Bootstrap()
    # no verdict depends on the permutation test, which takes most of the time
    setattr(own, "_permute_maps_among_networks", lambda *_: None)  # noqa: B010

    def make_interval(estimate: Any) -> Interval:
        return Interval(estimate.low, estimate.high)

    def judge_table(scores: Any) -> Judged:
        components = variances.estimate_variance_components([scores])
        drawn = draws.draw_resamples(scores, bootstrap, components)
        judge = board.Judge.from_draws(scores, roar, bootstrap, components, drawn)
        rows = [name for name in judge.gains if name not in CONTROLS]
        return Judged(
            {name: make_interval(judge.estimate_gain(name)) for name in rows},
            {pair: make_interval(judge.estimate_difference(*pair)) for pair in pairwise(rows)},
            make_interval(judge.estimate_accuracy(*untouched)),
            {pair: comparison.verdict for pair, comparison in judge.comparisons.items()},
            {name: make_interval(rank) for name, rank in judge.rank_intervals.items()},
        )

    def judge_own_network_table(unchanged: Any) -> Counts:
        found = own.compute_own_network_gain_per_row(unchanged, morf, bootstrap)
        gains = {name: gain.gain for name, gain in found.items()}
        verdicts = own.judge_own_network_gains(gains).values()
        pairs = ranks.Pairs.from_samples(list(gains.values()), bootstrap.confidence)
        estimates = [intervals.make_estimate(gain, bootstrap.confidence) for gain in gains.values()]
        return count_right_own_network(
            [make_interval(estimate) for estimate in estimates],
            [verdict is not own.OwnNetworkVerdict.OPEN for verdict in verdicts],
            [make_interval(rank) for rank in ranks.compute_rank_intervals(pairs)],
        )

    return simulate_all(tables, judge_table, judge_own_network_table)


def main() -> None:
    """Print the results as the package of the current folder judges them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--judge", action="store_true", help="run here, with the old package")
    print(json.dumps(simulate_and_judge(parser.parse_args().tables)))


if __name__ == "__main__":
    main()
