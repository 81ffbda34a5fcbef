"""What can go wrong, and whose fault it is: a `CallerError` ends a command with exit code 2, a `RunError` with 1.

Every message says what was seen, what was expected and what to write. A submission that is not accepted is a `Refusal`,
a `CallerError` of `submissions.file`.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

_HASH = re.compile("@[0-9a-f]{8}")  # of a submission's file, in its id


class Hint(NamedTuple):
    """A command that helps, as data: the command line words it and adds it to an error; from Python it is left out."""

    text: str  # what is added; {} is the command
    command: str  # its name, such as `run`
    words: tuple[str, ...] = ()  # its own options and arguments; the others are those of the call under way


class RoarbenchError(Exception):
    """Base of all errors that roarbench raises on purpose.

    Attributes:
        hint: A command that helps; None where the message says all.
    """

    def __init__(self, message: str = "", hint: Hint | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class CallerError(RoarbenchError):
    """The caller's mistake."""


_SHOWN = 24  # names of a table that a message lists whole


class UnknownName(CallerError):
    """A name that is not in a table: the nearest one, and the list, or the command that has it."""

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
    """Return the error for a file that is not there, with the nearest one beside it that has this ending."""
    beside = [one.name for one in path.parent.glob(f"*{ending}")] if path.parent.is_dir() else []
    close = get_close_matches(path.name, beside, n=1, cutoff=0.75)
    guess = f"did you mean '{path.parent / close[0]}'?" if close else advice
    return CallerError(f"there is no file '{path}'; {guess}")


class DataError(CallerError):
    """Images that cannot be reached, read or trusted."""


class StoreError(CallerError):
    """A store that cannot be used as it is: missing, read-only, full, newer than this version, or no store."""


class EmptyStore(StoreError):
    """A results store that is still to be made, by a command that runs a suite."""

    def __init__(self, seen: str, *suite: str) -> None:
        super().__init__(seen, Hint("; `{}` makes one", "run", suite))


class SandboxError(CallerError):
    """A sandbox that does not start or does not hold; nothing was run, and no submission is to blame."""


class LostLease(RoarbenchError):
    """A lease that another process holds by now: nothing is written of what was done under it."""


class RunError(RoarbenchError):
    """One run failed; its reason is recorded and the others go on."""


class MachineError(RunError):
    """A job was cut off by what it ran on: its process died, memory ran out, the GPU is lost. It may succeed again."""


class NoRoom(MachineError):
    """A step of a training takes more memory than this process's share of the device; another one may have it."""


class Diverged(RunError):
    """The training loss is no longer a finite number."""
