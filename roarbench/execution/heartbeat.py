"""The heartbeat of a command, by a thread of its own: a terminal that takes no more lines costs it no lease."""

import random
import threading
from collections.abc import Iterable
from typing import Self

from roarbench.errors import StoreError
from roarbench.store.leases import PULSE, Owner
from roarbench.store.results import ResultsStore


class Heartbeat:
    """Leases that a command holds, kept alive all together while it is used as a context manager."""

    def __init__(self, store: ResultsStore, owner: Owner) -> None:
        self._store, self.owner = store, owner
        self._held: dict[str, int] = {}
        self._lost: set[str] = set()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(0.5)  # it may be waiting for a database that is gone

    def hold(self, keys: Iterable[str], number: int) -> None:
        """Keep the leases of a step."""
        with self._lock:
            self._held |= dict.fromkeys(keys, number)

    def let_go(self, keys: Iterable[str]) -> None:
        """Keep the leases of a step no longer."""
        with self._lock:
            for key in keys:
                self._held.pop(key, None)
            self._lost.difference_update(keys)

    def lost(self, keys: Iterable[str]) -> bool:
        """Return whether another process has a lease of a step that was held here."""
        with self._lock:
            return not self._lost.isdisjoint(keys)

    def beat(self) -> None:
        """Say once that the owner still works, and find out what it has lost; StoreError if the database stays away."""
        with self._lock:
            before = dict(self._held)
        if not before:
            return
        there = self._store.beat(self.owner)
        with self._lock:
            gone = {key for key, number in before.items() if there.get(key) != number}
            self._lost |= {key for key in gone if self._held.get(key) == before[key]}

    def _beat_on(self) -> None:
        while not self._over.wait(PULSE * random.uniform(0.75, 1.25)):
            try:
                self.beat()
            except StoreError:  # the next one may get through; meanwhile the work goes on
                continue
