"""Kill `roarbench run` at random moments and see whether its table is that of a store that was never killed.

    python scripts/kill_test.py --kills 20 -- --suite planted --limit 40 --seeds 1

What follows `--` goes to `roarbench run`. One store is filled without a kill, another one by the same command, killed
with SIGKILL again and again; then the tables of all protocols are compared, byte for byte.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("roarbench")
PROTOCOLS = ("roar", "kar", "morf", "lerf", "mask-only")


def main() -> None:
    """Exit code 0 if all tables are the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("arguments", nargs="+", help="for roarbench run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="roarbench-kill-") as folder:
        whole, killed = Path(folder, "whole"), Path(folder, "killed")
        seconds = timed_run(options.arguments, whole)
        start = timed_run(options.arguments, whole)
        print(f"never killed: {seconds:.1f} s, and {start:.1f} s to find that nothing is missing", flush=True)
        kills = kill_often(options.arguments, killed, options.kills, random.Random(options.seed), start, seconds)
        timed_run(options.arguments, killed)
        same = [same_table(options.arguments, protocol, whole, killed) for protocol in PROTOCOLS]
    if not all(same) or kills < options.kills:
        sys.exit(1)


def kill_often(
    arguments: list[str], store: Path, kills: int, generator: random.Random, start: float, seconds: float
) -> int:
    """Start the command and kill it, again and again; how often it was killed before it ended by itself.

    The moments are spread so that all kills together leave some work for the last one: in each turn between no time
    and twice its share of the whole, beyond the seconds that the command takes to start.
    """
    for kill in range(kills):
        moment = generator.uniform(0, start) + generator.uniform(0, max(0.0, seconds - start) / kills)
        process = subprocess.Popen(command(arguments, store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            code = process.wait(moment)
            print(f"ended by itself with exit code {code} after {kill} kills")
            return kill
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        print(f"kill {kill + 1:2} after {moment:6.2f} s: {rows(arguments, store)} runs done", flush=True)
    return kills


def command(arguments: list[str], store: Path) -> list[str]:
    """The command that is killed."""
    return [str(PROGRAM), "run", "--store", str(store), *arguments]


def timed_run(arguments: list[str], store: Path) -> float:
    """Run the command to its end; how long it took."""
    start = time.monotonic()
    subprocess.run(command(arguments, store), check=True, capture_output=True)
    return time.monotonic() - start


def reading(arguments: list[str]) -> list[str]:
    """Those of the arguments that name what is read."""
    return [word for at, word in enumerate(arguments) if word in READ or (at and arguments[at - 1] in READ)]


READ = ("--suite", "--limit")


def rows(arguments: list[str], store: Path) -> int:
    """Number of finished runs; 0 while there is no store."""
    status = [str(PROGRAM), "status", "--store", str(store), *reading(arguments), "--format", "json"]
    found = subprocess.run(status, capture_output=True, text=True)
    return json.loads(found.stdout)["done"] if found.returncode == 0 else 0


def same_table(arguments: list[str], protocol: str, whole: Path, killed: Path) -> bool:
    """Whether both stores give the same bytes; a protocol that the suite does not have counts as the same."""
    table = [str(PROGRAM), "table", *reading(arguments), "--protocol", protocol, "--format", "json"]
    one, other = (subprocess.run([*table, "--store", str(s)], capture_output=True) for s in (whole, killed))
    if one.returncode == other.returncode == 0:
        verdict = "the same" if one.stdout == other.stdout else "DIFFERENT"
        print(f"table of {protocol}: {len(one.stdout):,} bytes, {verdict}")
    return (one.returncode, one.stdout) == (other.returncode, other.stdout)


if __name__ == "__main__":
    main()
