"""Errors and exit codes: a `CallerError` ends a command with 2, a `RunError` with 1.

Every message says what was seen, what was expected and what to write. A rejected submission is a `Refusal`, a
`CallerError` of `submissions.file`.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

_HASH = re.compile("@[0-9a-f]{8}")  # hash of a submission's file in its id


class Hint(NamedTuple):
    """A helpful command as data: the command line adds it to an error, Python leaves it out."""

    text: str  # text with {} for the command
    command: str  # name of the command, such as `run`
    words: tuple[str, ...] = ()  # additional options and arguments; the others come from the current command


class RoarbenchError(Exception):
    """Base of all errors that roarbench raises on purpose.

    Attributes:
        hint: A helpful command; None where the message suffices.
    """

    def __init__(self, message: str = "", hint: Hint | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class CallerError(RoarbenchError):
    """A mistake of the caller."""


_SHOWN = 24  # maximum names that a message lists in full


class UnknownName(CallerError):
    """A name that is not in a table, with the nearest name, and the list or the command that prints it."""

    def __init__(self, kind: str, name: str, known: Iterable[str], command: str = "") -> None:
        names = sorted(known)
        ways = {one.partition("@")[0]: one for one in names if _HASH.search(one)}  # `mine` for `mine@1a2b3c4d(n=2)`
        ways |= {_HASH.sub("", one): one for one in names} | {one: one for one in names}
        small = {one.lower(): known for one, known in ways.items()} | ways
        close = get_close_matches(name, small, n=1) or get_close_matches(name.lower(), small, n=1)
        listed = ", ".join(names) if len(names) <= _SHOWN else f"{', '.join(names[:8])}, …"
        guess = [f"did you mean '{small[close[0]]}'?"] if close else []
        guess += [] if close and command else [f"known: {listed}"]
        super().__init__(f"no {kind} '{name}'; {' '.join(guess)}", Hint(" (list: {})", command) if command else None)


def make_missing_file_error(path: Path, ending: str, advice: str) -> CallerError:
    """Make the error for a missing file, with the nearest file name of this ending in its folder."""
    beside = [one.name for one in path.parent.glob(f"*{ending}")] if path.parent.is_dir() else []
    close = get_close_matches(path.name, beside, n=1, cutoff=0.75)
    guess = f"did you mean '{path.parent / close[0]}'?" if close else advice
    return CallerError(f"there is no file '{path}'; {guess}")


class DataError(CallerError):
    """Images that cannot be reached, read or trusted."""


class StoreError(CallerError):
    """A store that cannot be used: missing, read-only, full, newer than this version, or not a store."""


class EmptyStore(StoreError):
    """A results store that does not exist yet; a command that runs a suite creates it."""

    def __init__(self, seen: str, *suite: str) -> None:
        super().__init__(seen, Hint("; `{}` makes one", "run", suite))


class SandboxError(CallerError):
    """A sandbox that does not start or does not isolate; nothing was run."""


class LostLease(RoarbenchError):
    """A lease that another process now holds; no work under it is written."""


class RunError(RoarbenchError):
    """A failed run; its reason is stored and the other runs continue."""


class MachineError(RunError):
    """A job that its machine cut off: its process died, memory ran out, the GPU was lost. A retry may succeed."""


class NoRoom(MachineError):
    """A training step that exceeds this process's share of the device's memory."""


class Diverged(RunError):
    """A training loss that is not finite."""
