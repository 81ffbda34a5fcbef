"""Kill `roarbench run` at random moments and see whether its tables are those of a store that was never killed.

    python scripts/kill_test.py --kills 20 -- --suite planted --limit 40 --seeds 1

What follows `--` goes to `roarbench run`. One store is filled without a kill, another one by the same command, killed
with SIGKILL again and again, at moments spread over the length of the first; then the tables of all protocols are
compared, byte for byte. If the command gets to its end before it was killed often enough, it begins anew in an empty
store.
"""

import argparse
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

PROGRAM = str(Path(sys.executable).with_name("roarbench"))
PROTOCOLS = ("roar", "kar", "morf", "lerf", "mask-only")
READING = ("--suite", "--limit")  # the options of `run` that say what a table is of


def main() -> None:
    """Kill and repeat as the options say; exit with 0 if all tables are the same, else with 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("arguments", nargs="+", help="for roarbench run")
    options = parser.parse_args()
    generator, kills, same = random.Random(options.seed), 0, True
    with tempfile.TemporaryDirectory(prefix="roarbench-kill-") as folder:
        whole = Path(folder, "whole")
        seconds, first = run_to_end(options.arguments, whole)
        print(f"never killed: {rows(whole)} runs in {seconds:.1f} s, the first after {first:.1f} s", flush=True)
        while kills < options.kills:
            store = Path(folder, f"killed-{kills}")
            kills = kill_until_done(options.arguments, store, kills, options.kills, generator, seconds)
            run_to_end(options.arguments, store)
            same &= same_tables(options.arguments, whole, store)
    sys.exit(not same)


def kill_until_done(
    arguments: list[str], store: Path, kills: int, wanted: int, generator: random.Random, seconds: float
) -> int:
    """Kill the command until it was killed `wanted` times or comes to its end; return how often it was killed.

    Moments are spread over `seconds`, the length of a command that is not killed, counted from the first line of the
    plan on: each command begins by measuring and by starting its workers, however much was done before.
    """
    while kills < wanted:
        moment = generator.uniform(0, seconds)
        process = start(arguments, store)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.kill()
        if process.wait() == 0:
            print(f"came to its end after {kills} kills", flush=True)
            break
        kills += 1
        print(f"kill {kills:2} after {moment:6.2f} s: {rows(store)} runs done", flush=True)
    return kills


def run_to_end(arguments: list[str], store: Path) -> tuple[float, float]:
    """Run the command to its end; return the seconds from its plan's first line to its end, and to its first result."""
    process, began, first = start(arguments, store), time.monotonic(), 0.0
    while process.poll() is None:
        time.sleep(0.05)
        first = first or (time.monotonic() - began if rows(store) else 0.0)
    if process.returncode:
        sys.exit(f"roarbench run ended with exit code {process.returncode}")
    return time.monotonic() - began, first


def start(arguments: list[str], store: Path) -> subprocess.Popen[str]:
    """Start the command and wait until it has imported its libraries and read its images."""
    log = store.with_suffix(".log")
    with log.open("w") as file:
        command = [PROGRAM, "run", "--store", str(store), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, text=True)
    while process.poll() is None and " runs" not in log.read_text():
        time.sleep(0.02)
    return process


def reading(arguments: list[str]) -> list[str]:
    """Return those of the arguments that name what is read."""
    return [word for before, word in zip(["", *arguments], arguments, strict=False) if {before, word} & {*READING}]


def rows(store: Path) -> int:
    """Count the finished runs; 0 while there is no store."""
    try:
        with closing(sqlite3.connect(f"file:{store}/results.sqlite?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def same_tables(arguments: list[str], whole: Path, killed: Path) -> bool:
    """Return whether both stores give the same bytes for every protocol that the suite has."""
    same = True
    for protocol in PROTOCOLS:
        table = [PROGRAM, "table", *reading(arguments), "--protocol", protocol, "--format", "json"]
        one, other = (subprocess.run([*table, "--store", str(s)], capture_output=True) for s in (whole, killed))
        if one.returncode == 2:  # the suite does not have it
            continue
        same &= one.stdout == other.stdout
        verdict = "the same" if one.stdout == other.stdout else "DIFFERENT"
        print(f"table of {protocol}: {len(one.stdout):,} bytes, {verdict}", flush=True)
    return same


if __name__ == "__main__":
    main()
