"""Errors and exit codes: a command exits with 2 after a `CallerError`, with 1 after a `RunError`.

Every message states the value seen, the value expected and the remedy. `Refusal`, a subclass of `CallerError` for
rejected submissions, is in `submissions.limits_and_faults`.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

_HASH = re.compile("@[0-9a-f]{8}")  # hash of a submission's file, as in the submission's id


class Hint(NamedTuple):
    """A command that helps after an error; the command line adds the hint to the message, the Python API does not."""

    text: str  # text of the hint, with {} in place of the command
    command: str  # name of the command, such as `run`
    words: tuple[str, ...] = ()  # further options and arguments; the command also gets those of the current command


class RoarbenchError(Exception):
    """Base class of all errors that roarbench raises on purpose; `hint` is a command that helps, or None."""

    def __init__(self, message: str = "", hint: Hint | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class CallerError(RoarbenchError):
    """Raised for an invalid input, option or request."""


_SHOWN = 24  # a message lists all known names if there are at most this many, else the first eight


class UnknownName(CallerError):
    """Raised for an unknown name; the message suggests `meant` or the nearest known name, or lists known names."""

    nearest = ""  # the suggested name; empty if there is none

    def __init__(self, kind: str, given: object, known: Iterable[str], command: str = "", meant: str = "") -> None:
        name, names = str(given), sorted(known)
        ways = {one.partition("@")[0]: one for one in names if _HASH.search(one)}  # `mine` for `mine@1a2b3c4d(n=2)`
        ways |= {_HASH.sub("", one): one for one in names} | {one: one for one in names}
        small = {one.lower(): known for one, known in ways.items()} | ways
        close = get_close_matches(name, small, n=1) or get_close_matches(name.lower(), small, n=1)
        listed = ", ".join(names) if len(names) <= _SHOWN else f"{', '.join(names[:8])}, …"
        self.nearest = ways.get(name) or meant or (small[close[0]] if close else "")
        guess = [f"did you mean '{self.nearest}'?"] if self.nearest else []
        guess += [] if self.nearest and command else [f"known: {listed}"]
        super().__init__(f"no {kind} '{name}'; {' '.join(guess)}", Hint(" (list: {})", command) if command else None)


class RemovedName(UnknownName):
    """Raised for the name of a suite or protocol that was removed."""

    def __init__(self, kind: str, name: str) -> None:
        CallerError.__init__(
            self, f"{kind} '{name}' was removed; its stored rows are kept, and commit 33fdbc1c has the program for them"
        )


def make_missing_suite_file_error(path: Path, advice: str) -> CallerError:
    """Make the error for a suite's file that is missing; the message suggests a file of similar name, or `advice`."""
    beside = [one.name for one in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    close = get_close_matches(path.name, beside, n=1, cutoff=0.75)
    guess = f"did you mean '{path.parent / close[0]}'?" if close else advice
    return CallerError(f"there is no file '{path}'; {guess}")


class DataError(CallerError):
    """Raised for images that cannot be found, read or verified."""


class StoreError(CallerError):
    """Raised for a store that is missing, read-only, full, newer than this version, or not a store."""


class EmptyStore(StoreError):
    """Raised for a results store that does not exist yet; a command that runs a suite creates the store."""

    def __init__(self, seen: str) -> None:
        super().__init__(seen, Hint("; `{}` creates one", "run"))


class SandboxError(CallerError):
    """Raised if a sandbox does not start, would not isolate a submission, or ends because the machine lacks memory."""


class LostLease(RoarbenchError):
    """Raised if another process now holds a run's lease; results computed under the lost lease are not stored."""


class RunError(RoarbenchError):
    """Raised for a failed run; the reason is stored, and the other runs continue."""


class MachineError(RunError):
    """Raised if the machine ended a job: the process died, memory ran out, or the GPU was lost. A retry may succeed."""


class NoRoom(MachineError):
    """Raised for a training step that exceeds this process's share of the device's memory."""


class Diverged(RunError):
    """Raised for a training loss that is not finite."""
