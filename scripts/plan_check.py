"""Holds the plan of a suite, made just before on this machine, against its run: time, disk and memory.

    python scripts/plan_check.py -- --suite quick-specific
    python scripts/plan_check.py -- --suite cifar10 --limit 5000 --data DIR

What follows `--` goes to `roarbench plan --measure` and then to `roarbench run`, both on an empty store of their own.
The plan counts decoding, references, maps, noise, ranking, trainings and scoring; its peak of disk is while rankings
are joined. *Real* disk is the store's largest size, looked at twice a second; *real* memory that of the process that
had the most, with the pages of files that it has open, which the plan leaves out. Nothing else should run beside it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from roarbench.text import markdown_table

PROGRAM = str(Path(sys.executable).with_name("roarbench"))
WITHIN = 0.2  # of the planned time
_LOOK = 0.5  # seconds


class Taken(NamedTuple):
    """Cost of a run: seconds by the clock, core-seconds, most bytes on disk, and of one process in memory."""

    wall: float
    processor: float
    disk: float
    memory: float


def planned(arguments: list[str], workers: int, store: Path) -> tuple[Taken, dict[str, float]]:
    """Return what `roarbench plan` says, and the core-seconds of each part; all disk while rankings are joined."""
    words = [PROGRAM, "plan", *arguments, "--measure", "--workers", str(workers), "--store", str(store)]
    record: dict[str, Any] = json.loads(subprocess.check_output([*words, "--format", "json"]))
    work, first = record["work"], record["estimates"][0]
    disk = work["disk"] + workers * work["sealing"]
    parts = {part: seconds or 0.0 for part, seconds in first["parts"].items()}
    return Taken(record["seconds"], work["core_seconds"], disk, work["memory"]), parts


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder; some may go while they are counted."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(place, name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


@contextmanager
def watched(folder: Path) -> Iterator[list[int]]:
    """Lend a list that a thread adds the folder's size to, twice a second."""
    over, sizes = threading.Event(), [0]

    def look() -> None:
        while not over.wait(_LOOK):
            sizes.append(size_of(folder))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield sizes
    finally:
        over.set()
        thread.join()
        sizes.append(size_of(folder))


def real(arguments: list[str], workers: int, store: Path) -> Taken:
    """Do the run and return what it took; exits where it fails."""
    words = [PROGRAM, "run", *arguments, "--workers", str(workers), "--store", str(store)]
    begun = time.monotonic()
    with watched(store) as sizes:
        command = subprocess.Popen(words)
        _, code, usage = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(code)
    wall = time.monotonic() - begun
    if command.returncode:
        sys.exit(f"{' '.join(words)} ended with exit code {command.returncode}")
    return Taken(wall, usage.ru_utime + usage.ru_stime, max(sizes), usage.ru_maxrss * 1024)


def report(plan: Taken, parts: dict[str, float], run: Taken) -> str:
    """Return plan and run side by side, and whether the time is within 20 % of the plan."""
    units = {"wall": ("s", 1.0), "processor": ("core-s", 1.0), "disk": ("MB", 1e6), "memory": ("MB", 1e6)}
    rows = []
    for name, (unit, scale) in units.items():
        said, took = getattr(plan, name) / scale, getattr(run, name) / scale
        rows.append([name, unit, f"{said:,.1f}", f"{took:,.1f}", f"{took / said:.2f}" if said else "–"])
    table = markdown_table(["", "unit", "planned", "real", "real / planned"], rows)
    counted = ", ".join(f"{part} {seconds:,.1f}" for part, seconds in parts.items() if seconds)
    away = run.wall / plan.wall - 1
    word = "within" if abs(away) <= WITHIN else "beyond"
    return f"{table}\n\nplanned core-s: {counted}\nthe run's time is {away:+.0%} of the plan's: {word} {WITHIN:.0%}"


def main() -> None:
    """Make a plan, run it, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("arguments", nargs="+", help="for roarbench plan and run")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="roarbench-plan-") as folder:
        plan, parts = planned(asked.arguments, asked.workers, Path(folder))
        print(report(plan, parts, real(asked.arguments, asked.workers, Path(folder))))


if __name__ == "__main__":
    main()
