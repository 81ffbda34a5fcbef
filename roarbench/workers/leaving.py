"""When a worker that fails its jobs is replaced no more, and what is said when there is none left."""

from collections.abc import Collection

from roarbench.errors import MachineError

IN_A_ROW = 3  # jobs that a worker fails before it leaves


def has_failed(in_a_row: Collection[str]) -> bool:
    """Return whether a worker leaves that failed jobs of these names since it last did one."""
    return len(set(in_a_row)) >= IN_A_ROW


def all_left(last: str) -> MachineError:
    """Return the error of an engine whose workers have all left, the last one for this reason."""
    seen = f"every worker failed {IN_A_ROW} jobs in a row, the last one: {last}"
    return MachineError(f"{seen}; look at this machine, then write the same command again")
