"""Measure the overhead of a job for `rates.JOB_OVERHEAD`: processor time of the command and of its worker.

    python benchmarks/bench_jobs.py FOLDER      # FOLDER must be empty

The jobs of MoRF also train the networks and compute the rankings of a small table; those of LeRF only score 114 test
rows at three levels each, so their time is mostly overhead.
"""

import argparse
import os
import time
from pathlib import Path

from rich.console import Console

from roarbench.common.local_workers import LocalEngine
from roarbench.execution.run_suite import Request, decode_images_and_check_weights
from roarbench.execution.scheduler import run_missing
from roarbench.plan.change_suite import apply_selection_options
from roarbench.plan.planned_runs import build_run, list_planned_runs
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.results import ResultsStore
from roarbench.store.workspace import Workspace


def read_worker_seconds(engine: LocalEngine) -> float:
    stats = (Path(f"/proc/{worker.process.pid}/stat").read_text() for worker in engine._list_workers())
    ticks = sum(int(text) for stat in stats for text in stat.rpartition(")")[2].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    suite, workspace = find_builtin_suite("benchmark-breast-cancer"), Workspace(folder)
    with ResultsStore.open(f"sqlite:///{folder}/results.sqlite") as store, LocalEngine(1) as engine:
        for protocol in ("morf", "lerf"):
            part = apply_selection_options(suite, protocol=protocol)
            context = decode_images_and_check_weights(Request(part), workspace, store, Console())
            runs = [build_run(part, point, context.images.fingerprint, None) for point in list_planned_runs(part)]
            start, command_start, worker_start = time.monotonic(), time.process_time(), read_worker_seconds(engine)
            steps = list(run_missing(context, runs, store, engine))
            costs = {
                "command": time.process_time() - command_start,
                "worker": read_worker_seconds(engine) - worker_start,
                "wall time": time.monotonic() - start,
            }
            texts = (f"{name} {1000 * seconds / len(steps):.0f} ms" for name, seconds in costs.items())
            print(f"{protocol}: {len(steps)} jobs; per job: {', '.join(texts)}")


if __name__ == "__main__":
    main()
