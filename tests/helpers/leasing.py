"""Leases of runs, one by one."""

from collections.abc import Collection

from roarbench.store.leases import Owner, Wanted
from roarbench.store.results import ResultsStore


def lease(store: ResultsStore, keys: Collection[str], owner: Owner) -> set[str]:
    """Lease those that are free, each for itself; their keys."""
    answer = store.claim([Wanted((key,)) for key in keys], owner, len(keys))
    return {key for wish in answer.granted for key in wish.keys}
