"""Errors and exit codes: a command exits with 2 after a `CallerError`, with 1 after a `RunError`.

Every message states the value seen, the value expected and the remedy. `Refusal`, the error for a rejected
submission, is a `CallerError` in `submissions.file`.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

_HASH = re.compile("@[0-9a-f]{8}")  # hash of a submission's file in its id


class Hint(NamedTuple):
    """A command that helps after an error: the command line adds it to the message, the Python API does not."""

    text: str  # text with {} for the command
    command: str  # name of the command, such as `run`
    words: tuple[str, ...] = ()  # additional options and arguments; the others come from the current command


class RoarbenchError(Exception):
    """Base class of all errors that roarbench raises on purpose; `hint` is a command that helps, or None."""

    def __init__(self, message: str = "", hint: Hint | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class CallerError(RoarbenchError):
    """An invalid input, option or request."""


_SHOWN = 24  # maximum names that a message lists in full


class UnknownName(CallerError):
    """An unknown name; the message suggests `meant` or the nearest known name, or lists the known names."""

    def __init__(self, kind: str, given: object, known: Iterable[str], command: str = "", meant: str = "") -> None:
        name, names = str(given), sorted(known)
        ways = {one.partition("@")[0]: one for one in names if _HASH.search(one)}  # `mine` for `mine@1a2b3c4d(n=2)`
        ways |= {_HASH.sub("", one): one for one in names} | {one: one for one in names}
        small = {one.lower(): known for one, known in ways.items()} | ways
        close = get_close_matches(name, small, n=1) or get_close_matches(name.lower(), small, n=1)
        listed = ", ".join(names) if len(names) <= _SHOWN else f"{', '.join(names[:8])}, …"
        nearest = ways.get(name) or meant or (small[close[0]] if close else "")
        guess = [f"did you mean '{nearest}'?"] if nearest else []
        guess += [] if nearest and command else [f"known: {listed}"]
        super().__init__(f"no {kind} '{name}'; {' '.join(guess)}", Hint(" (list: {})", command) if command else None)


def make_missing_suite_file_error(path: Path, advice: str) -> CallerError:
    """Make the error for a missing suite's file: it suggests a file of a similar name, otherwise `advice`."""
    beside = [one.name for one in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    close = get_close_matches(path.name, beside, n=1, cutoff=0.75)
    guess = f"did you mean '{path.parent / close[0]}'?" if close else advice
    return CallerError(f"there is no file '{path}'; {guess}")


class DataError(CallerError):
    """Images that cannot be found, read or verified."""


class StoreError(CallerError):
    """A store that cannot be used: missing, read-only, full, newer than this version, or not a store."""


class EmptyStore(StoreError):
    """A results store that does not exist yet; a command that runs a suite creates it."""

    def __init__(self, seen: str) -> None:
        super().__init__(seen, Hint("; `{}` creates one", "run"))


class SandboxError(CallerError):
    """A sandbox that does not start or does not isolate the submission; nothing was run."""


class LostLease(RoarbenchError):
    """A lease that another process now holds; results computed under the lost lease are not stored."""


class RunError(RoarbenchError):
    """A failed run; its reason is stored and the other runs continue."""


class MachineError(RunError):
    """A job that its machine ended: its process died, memory ran out or the GPU was lost. A retry may succeed."""


class NoRoom(MachineError):
    """A training step that exceeds this process's share of the device's memory."""


class Diverged(RunError):
    """A training loss that is not finite."""
