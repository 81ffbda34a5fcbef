"""What can go wrong, and whose fault it is: a `CallerError` ends a command with exit code 2, a `RunError` with 1.

Every message says what was seen, what was expected and what to write. A submission that is not accepted is a `Refusal`,
a `CallerError` of `submissions.file`.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
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


class UnknownName(CallerError):
    """A name that is not in a table."""

    def __init__(self, kind: str, name: str, known: Iterable[str], command: str = "") -> None:
        names = sorted(known)
        ways = {one.partition("@")[0]: one for one in names if _HASH.search(one)}  # `mine` for `mine@1a2b3c4d(n=2)`
        ways |= {_HASH.sub("", one): one for one in names} | {one: one for one in names}
        close = get_close_matches(name, ways, n=1)
        guess = f"did you mean '{ways[close[0]]}'?" if close else f"known: {', '.join(names[:8])}"
        super().__init__(f"no {kind} '{name}'; {guess}", Hint(" (list: {})", command) if command else None)


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
