"""Measures what leases take of a database: transactions of idle commands, and claims and heartbeats in a second.

    python scripts/lease_rates.py --db postgresql://HOST/NAME --commands 1,64,512 --seconds 60

Idle commands are threads that do what an idle command's scheduler does: all runs of a suite are in other hands. The
database has to be empty; its own count of transactions (`pg_stat_database`) is what is printed.
"""

import argparse
import random
import threading
import time
from collections.abc import Callable

from sqlalchemy import text

from roarbench.execution.scheduler import LAST_LOOK
from roarbench.store.leases import PULSE, Owner, Wanted
from roarbench.store.results import ResultsStore

OPEN = 1005  # runs of `imagenet`
_ONE = threading.Semaphore()


def transactions(store: ResultsStore) -> int:
    """Return how many transactions the database has seen."""
    count = text("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
    with store.database.read() as connection:
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        return int(connection.execute(count).scalar_one())


def idle(store: ResultsStore, wishes: list[Wanted], over: threading.Event) -> None:
    """Ask now and then whether anything is free, as a command does whose runs are all in other hands."""
    owner = Owner.here()
    time.sleep(random.uniform(0, LAST_LOOK))
    while not over.wait(LAST_LOOK * random.uniform(0.5, 1.5)):
        with _ONE:  # this process is one, and has the time of one
            store.claim(wishes, owner, 1)


def rate_of(call: Callable[[int], object], seconds: float) -> float:
    """Return how often something can be done in a second, one after the other."""
    begun, count = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        call(count)
        count += 1
    return count / (time.monotonic() - begun)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--db", required=True)
    parser.add_argument("--commands", default="1,64,512")
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    with ResultsStore.open(asked.db) as store:
        holder = Owner.here()
        wishes = [Wanted((f"{number:032x}",)) for number in range(OPEN)]
        store.claim(wishes, holder, OPEN)
        for count in map(int, asked.commands.split(",")):
            over = threading.Event()
            commands = [threading.Thread(target=idle, args=(store, wishes, over), daemon=True) for _ in range(count)]
            for command in commands:
                command.start()
            time.sleep(LAST_LOOK)  # until all have begun
            before, start = transactions(store), time.monotonic()
            time.sleep(asked.seconds)
            taken = (transactions(store) - before) / (time.monotonic() - start)
            over.set()
            for command in commands:
                command.join()
            print(f"{count} idle commands, {OPEN} open runs: {taken:.1f} transactions a second")
        owner = Owner.here()
        claims = rate_of(lambda n: store.claim([Wanted((f"{n + OPEN:032x}",))], owner, 1), 5.0)
        print(f"one process claims {claims:.0f} runs a second")
        for leases in (1, 8, 64):
            store.leave(owner)
            store.claim([Wanted((f"{n + OPEN:032x}",)) for n in range(leases)], owner, leases)
            beats = rate_of(lambda n: store.beat(owner), 5.0)
            print(
                f"one process renews {leases} leases {beats:.0f} times a second; a command does so every {PULSE:.0f} s"
            )
        store.leave(owner)
        store.leave(holder)


if __name__ == "__main__":
    main()
