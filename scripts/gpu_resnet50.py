"""Run the suite `imagenette128-resnet50` on a GPU, in the parts and the order of studies/resnet50/plan.md.

    python scripts/gpu_resnet50.py [--data FOLDER] [--out FOLDER] [--minutes 12]

Each part prints its times beside the plan's. OUT/rows.parquet has all rows so far, for `roarbench import`; explained
networks and rankings stay in OUT/store. The command stops after the time limit, and the same command resumes.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path

from roarbench.api.suites import load_suite, make_console
from roarbench.common.device_settings import list_gpu_ids
from roarbench.common.enums import Order, ScoredNetwork
from roarbench.common.errors import RoarbenchError
from roarbench.common.job_interface import Engine
from roarbench.execution.forecast import CORE, GPU, Rates, assume_rates
from roarbench.execution.job_graph import build_job_graph
from roarbench.execution.rate_measurement import measure_or_assume_rates
from roarbench.execution.run_suite import (
    check_and_count_missing_work,
    collect_stored_results,
    decode_images_and_check_weights,
    do_steps_on_workers,
    start_local_workers,
)
from roarbench.execution.workload import WorkCounts, count_work, find_existing_shared_inputs
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import build_run, list_planned_runs, list_shared_inputs
from roarbench.store.export_and_import import export_results
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import count_cores
from roarbench.store.workspace import Workspace

SUITE = "imagenette128-resnet50"
PARTS = ("networks", "roar-0.9", "roar-0.5", "scores", "kar-0.9", "sgsq-ig")
_STAGES = {"reference": "networks", "rank": "maps", "seal": "maps", "run": "runs"}  # by kind of step
_KINDS = {  # kinds of work of a stage, as plans name them
    "networks": ("reference",),
    "maps": ("attribution", "noise", "ranking"),
    "runs": ("retraining", "scoring"),
}
_ON_CORES = "noise"  # kind of work that each worker does on its own core, even with a GPU
_GPU_WORKERS = 4  # workers that share a GPU, because the noise of one worker's maps would keep the GPU waiting
_AGAIN = 20.0  # seconds after which the end of the time is signalled again: Python drops an interrupt in a finaliser
_FACTOR = 1.5  # a plan agrees with a time that differs by at most this factor


def name_part(cell: Cell) -> str:
    """Return the part of a cell: one of `PARTS`."""
    if cell.estimator == CLEAN and cell.retrain is ScoredNetwork.NONE:
        return "networks"
    if cell.estimator.startswith("sgsq-ig"):
        return "sgsq-ig"
    if not cell.retrain.trains:
        return "scores"
    return f"{'roar' if cell.order is Order.MORF else 'kar'}-{cell.t or 0.9:g}"


def plan_stages(work: WorkCounts, rates: Rates, workers: int) -> dict[str, float]:
    """Return the wall seconds of each stage by these rates."""
    seconds = {kind: known or 0.0 for kind, known in rates.estimate_seconds(work).items()}
    for kind in seconds:
        seconds[kind] /= workers if not rates.gpus or kind == _ON_CORES else 1
    return {stage: sum(seconds[kind] for kind in kinds) for stage, kinds in _KINDS.items()}


def compare_with_plans(part: str, measured: Mapping[str, float], plans: Mapping[str, Mapping[str, float]]) -> str:
    """Return one line: wall seconds of a part and of its stages beside the seconds of each plan."""

    def describe(seconds: float, planned: Mapping[str, float]) -> str:
        agrees = {name: plan > 0 and 1 / _FACTOR <= seconds / plan <= _FACTOR for name, plan in planned.items()}
        shown = ", ".join(f"{name} {plan:.0f}{'' if agrees[name] else ' (!)'}" for name, plan in planned.items())
        return f"{seconds:.0f} s ({shown})"

    total = describe(sum(measured.values()), {name: sum(plan.values()) for name, plan in plans.items()})
    stages = [
        f"{stage} {describe(seconds, {name: plan[stage] for name, plan in plans.items()})}"
        for stage, seconds in measured.items()
    ]
    return "; ".join([f"{part}: {total}", *stages])


def write_rows(store: ResultsStore, workspace: Workspace, path: Path) -> None:
    """Write all rows of the store to a Parquet file, which replaces the file of the part before."""
    temporary = path.with_name(f".{os.getpid()}.parquet")
    export_results(store, temporary, RankingsStore(workspace.rankings).read_annotations())
    temporary.replace(path)


def run_parts(data: Path | None, out: Path, workers: int, suite_name: str = SUITE, limit: int | None = None) -> int:
    """Run all missing parts of the suite, write lines and rows into `out`, and return the number of failed steps."""
    started, failed = time.monotonic(), 0

    def say(line: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {line}", flush=True)
        with (out / "log.txt").open("a") as log:
            log.write(f"{line}\n")

    loaded, console = load_suite(suite_name, out / "store", data=data, limit=limit), make_console(quiet=True)
    request, workspace = loaded.make_request(loaded.plan, workers), Workspace(out / "store")
    suite = request.suite
    with loaded.open_store_for_writing(console) as store:
        work = decode_images_and_check_weights(request, store, console)
        results = collect_stored_results(suite, store, work.images)
        missing = [planned for planned in list_planned_runs(suite) if planned not in results.results]
        say(f"images decoded; {len(missing)} of {len(list_planned_runs(suite))} runs to do")
        if not missing:
            return 0
        todo = {planned: build_run(suite, planned, results.data, results.limit) for planned in missing}
        _, counts = check_and_count_missing_work(results, work, list(todo.values()), store, console, workers)
        with start_local_workers(workers) as engine:
            all_rates = {
                "plan": assume_rates(suite, GPU if list_gpu_ids() else CORE),
                "measured": measure_or_assume_rates(engine, suite, counts, say),
            }
            for name, rates in all_rates.items():
                speeds = {"training": rates.train, "passes": rates.explain, "scoring": rates.predict}
                shown = ", ".join(f"{kind} {1 / value:,.0f}/s" for kind, value in speeds.items() if value)
                say(f"rates, {name}: {shown}")

            def start(workers: int) -> AbstractContextManager[Engine]:
                return nullcontext(engine)  # the parts share the workers

            for part in PARTS:
                runs = {planned: run for planned, run in todo.items() if name_part(planned.cell) == part}
                if not runs:
                    continue
                needed = list_shared_inputs(suite, runs)
                existing = find_existing_shared_inputs(workspace, suite, results.data, needed)
                of_part = count_work(suite, runs, limit, existing, needed)
                plans = {name: plan_stages(of_part, rates, workers) for name, rates in all_rates.items()}
                measured, failures, before = dict[str, float](), list[str](), time.monotonic()
                title = f"{part}, stopped"
                graph = build_job_graph(work, list(runs.values()), needed)
                sharing, measure = replace(request, start=start), lambda _: all_rates["measured"]
                steps = do_steps_on_workers(sharing, store, console, work, graph, measure)
                ended: BaseException | None = None
                try:
                    with closing(steps):
                        for event in steps:
                            stage, now = _STAGES[event.step.kind], time.monotonic()
                            measured[stage] = measured.get(stage, 0.0) + now - before
                            before = now
                            failures += [event.failure] * bool(event.failure)
                    title, failed = part, failed + len(failures)
                except BaseException as error:
                    signal.setitimer(signal.ITIMER_REAL, 0)  # no other interrupts while rows are written
                    ended = error.with_traceback(None)  # whose frames may hold a statement that blocks the database
                say(compare_with_plans(title, measured, plans))
                for failure in failures[:3]:
                    say(f"{part}: {len(failures)} steps failed: {failure}")
                write_rows(store, workspace, out / "rows.parquet")
                if ended:
                    raise ended
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of both parquet files; without it, the Hugging Face hub")
    parser.add_argument("--out", type=Path, default=Path("build/resnet50"))
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--workers", type=int, help=f"default: one per core, but at most {_GPU_WORKERS} on a GPU")
    parser.add_argument("--suite", default=SUITE, help="for trials: a smaller suite with the same parts")
    parser.add_argument("--max-images", type=int, help="for trials: images per split")
    arguments = parser.parse_args()
    (arguments.out / "store").mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGALRM, signal.default_int_handler)  # the end of the time is Ctrl-C: workers save their state
    signal.setitimer(signal.ITIMER_REAL, 60 * arguments.minutes, _AGAIN)
    try:
        workers = arguments.workers or (min(_GPU_WORKERS, count_cores()) if list_gpu_ids() else count_cores())
        failed = run_parts(arguments.data, arguments.out, workers, arguments.suite, arguments.max_images)
        sys.exit(1 if failed else 0)
    except RoarbenchError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(f"stopped after {arguments.minutes:g} minutes; the same command resumes", flush=True)


if __name__ == "__main__":
    main()
