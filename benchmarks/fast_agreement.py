"""Do a fast recipe and the suite's own put the estimators in the same order? Kendall's tau on a small version.

Both are given the same images, reference and rankings; only the networks that are retrained differ. What is printed
is what `roarbench suites` says of the fast suites (roarbench/plan/suites/__init__.py).

Run: python benchmarks/fast_agreement.py --data FOLDER --store DIR
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from roarbench.analysis.evidence import Evidence
from roarbench.execution.runner import Request, run_suite
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite
from roarbench.protocols.roar import ROAR
from roarbench.stats.agreement import agreement
from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Unit

ESTIMATORS = ("random", "sobel", "grad", "grad-sq", "gb", "var-grad")
LEVELS = (0.5, 0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="cifar10")
    parser.add_argument("--limit", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--store", type=Path, required=True)
    asked = parser.parse_args()
    slow = replace(find_suite(asked.suite), blocks=(Block(ROAR, ESTIMATORS, LEVELS, asked.seeds),))
    fast = replace(slow, name=f"{slow.name}-fast", recipe=f"{slow.name}-fast@1")
    console, bootstrap = Console(), Bootstrap()
    gains: list[dict[str, Sample]] = []
    report: dict[str, Any] = {}
    with ResultsStore.open(default_url(asked.store)) as store:
        for suite in (slow, fast):
            start = time.monotonic()
            request = Request(suite, asked.data, asked.limit, workers=asked.workers)
            done = run_suite(request, Workspace(asked.store), store, console)
            drawn = Evidence(done.suite_results, Unit.SCALAR, bootstrap).roar
            gains.append(drawn.areas)
            seconds = sum(result.seconds for result in done.suite_results.results.values())
            report[suite.recipe] = {
                "training seconds": round(seconds),
                "wall seconds": round(time.monotonic() - start),
                "gains": {name: drawn.area(name)._asdict() for name in ESTIMATORS},
                "clean": drawn.accuracy("none", 0.0)._asdict(),
            }
    found = agreement(gains[0], gains[1], bootstrap.confidence)
    report["agreement"] = found and found._asdict() | {"tau": found.tau._asdict()}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
