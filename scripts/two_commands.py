"""Measures how two commands share one store: the shards that each made, and their time against that of one alone.

    python scripts/two_commands.py --db postgresql://HOST/ONE postgresql://HOST/TWO -- --suite quick --limit 500
    python scripts/two_commands.py --workers -- --suite quick --limit 2000

What follows `--` goes to each `roarbench run`, which has one worker. A single command fills the first database, two
that begin together the second one, each pair with one folder of rankings; both databases have to be empty, and without
`--db` they are SQLite files. Who made a shard is read from the leases, which a trigger writes down. On a machine with
other programs the processor seconds say more than the wall time: the larger of two commands' against that of one.
With `--workers` one command with two workers takes the place of the two commands. The checksums are those of
`roarbench table --format json` on both stores; the program fails where these differ.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import text

from roarbench.store.results import ResultsStore, default_url

PROGRAM = str(Path(sys.executable).with_name("roarbench"))
KINDS = ("reference", "rank", "seal", "network", "tune", "run")

_TABLE = "CREATE TABLE lease_log (owner text, what text)"
_INTO = "INSERT INTO lease_log VALUES (NEW.owner, coalesce(nullif(NEW.what, ''), 'run ' || NEW.key))"
_TRIGGERS = {
    True: [
        f"CREATE TRIGGER log_insert AFTER INSERT ON leases BEGIN {_INTO}; END",
        f"CREATE TRIGGER log_update AFTER UPDATE OF owner ON leases BEGIN {_INTO}; END",
    ],
    False: [
        f"CREATE FUNCTION log_lease() RETURNS trigger AS 'BEGIN {_INTO.replace(chr(39), 2 * chr(39))};"
        " RETURN NEW; END' LANGUAGE plpgsql",
        "CREATE TRIGGER log_lease AFTER INSERT OR UPDATE OF owner ON leases FOR EACH ROW EXECUTE FUNCTION log_lease()",
    ],
}


class Measured(NamedTuple):
    """Cost of a suite that some commands shared.

    Attributes:
        wall: Seconds from the first one's start to the last one's end.
        processor: Seconds of each command and its workers.
        steps: How many steps each leased, by kind.
        table: Checksum of the table at the end.
    """

    wall: float
    processor: list[float]
    steps: list[Counter[str]]
    table: str


def log_leases(url: str) -> None:
    """Make a store and let it write down who leases what."""
    with ResultsStore.open(url) as store, store.database.write() as connection:
        for statement in [_TABLE, *_TRIGGERS[store.database.is_file]]:
            connection.exec_driver_sql(statement)


def leased(url: str) -> list[Counter[str]]:
    """Return how many steps each command leased, by kind, whoever had the most first."""
    with ResultsStore.open(url, read_only=True) as store, store.database.read() as connection:
        rows = connection.execute(text("SELECT DISTINCT owner, what FROM lease_log")).all()
    owners = {row.owner for row in rows}
    found = [Counter(row.what.split()[0] for row in rows if row.owner == owner) for owner in owners]
    return sorted(found, key=Counter.total, reverse=True)


def measure(count: int, workers: int, arguments: list[str], store: Path, url: str) -> Measured:
    """Let so many commands, each with so many workers, do what is asked for; exits where one fails."""
    log_leases(url)
    place = ["--store", str(store), "--db", url]
    words = [PROGRAM, "run", *arguments, "--workers", str(workers), *place]
    begun, processor = time.monotonic(), []
    commands = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)]
    for command in commands:
        _, code, usage = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(code)
        processor.append(usage.ru_utime + usage.ru_stime)
    if any(command.returncode for command in commands):
        sys.exit(f"{' '.join(words)} ended with exit code {[command.returncode for command in commands]}")
    wall = time.monotonic() - begun
    table = subprocess.check_output([PROGRAM, "table", *reading(arguments), "--format", "json", *place])
    return Measured(wall, processor, leased(url), hashlib.sha256(table).hexdigest())


def reading(arguments: list[str]) -> list[str]:
    """Return those of the arguments that say what a table is of."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [word for before, word in pairs if {before, word} & {"--suite", "--limit"}]


def report(one: Measured, two: Measured) -> str:
    """Return what two commands did and took beside what one took."""
    lines = [f"{'':10} {'one':>8}  two"]
    for kind in KINDS:
        done = [steps[kind] for steps in two.steps]
        share = f" ({min(done) / sum(done):.0%} by the one with fewer)" if sum(done) else ""
        lines.append(f"{kind:10} {sum(steps[kind] for steps in one.steps):8}  {' + '.join(map(str, done))}{share}")
    seconds = " + ".join(f"{each:.1f}" for each in two.processor)
    lines.append(f"{'processor':10} {one.processor[0]:8.1f}  {seconds} s")
    lines.append(f"{'wall':10} {one.wall:8.1f}  {two.wall:.1f} s")
    lines.append(f"{'table':10} {one.table[:8]}  {two.table[:8]}")
    ratios = max(two.processor) / one.processor[0], two.wall / one.wall, one.wall / two.wall
    found = "two against one: {:.3f} processor, {:.3f} wall, so {:.2f} times as fast".format(*ratios)
    return "\n".join([*lines, found])


def main() -> None:
    """Measure one command and two, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", nargs=2, default=["", ""], metavar="URL", help="two empty databases")
    parser.add_argument("--workers", action="store_true", help="one command with two workers, not two commands")
    parser.add_argument("arguments", nargs="+", help="for roarbench run")
    asked = parser.parse_args()
    two = (1, 2) if asked.workers else (2, 1)
    with tempfile.TemporaryDirectory(prefix="roarbench-two-") as folder:
        found: list[Measured] = []
        for (count, workers), url in zip(((1, 1), two), asked.db, strict=True):
            store = Path(folder, str(len(found)))
            found.append(measure(count, workers, asked.arguments, store, url or default_url(store)))
    print(report(*found))
    if found[0].table != found[1].table:
        sys.exit("the tables of both stores differ; they must be the same to the byte")


if __name__ == "__main__":
    main()
