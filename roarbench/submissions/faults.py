"""List the faults of a submission, and the faults of the harness. Nothing here imports torch."""

from enum import StrEnum
from typing import NamedTuple

from roarbench.common.text import fit_on_one_line, make_printable

LINE = 189  # maximum characters of a fault's line; the terminal shows 200 with the prefix "roarbench: "
_TRACE = 4000  # maximum characters of a traceback


class SubmissionFault(StrEnum):
    """Faults of the submitted file."""

    UNREADABLE = "unreadable"  # missing file, folder, or no permission
    TOO_LARGE = "too-large"
    ENCODING = "encoding"
    SYNTAX = "syntax"
    NAMES = "names"  # NAME, DESCRIPTION … are missing or invalid
    IMPORT = "import"  # the file's import raised an exception
    # the file has no entry point or several, or `estimate` does not take four arguments
    SIGNATURE = "signature"
    RAISED = "raised"  # `estimate` raised an exception
    OUTPUT_TYPE = "output-type"
    OUTPUT_SHAPE = "output-shape"
    OUTPUT_DTYPE = "output-dtype"
    NOT_FINITE = "not-finite"
    CHANGED_INPUTS = "changed-inputs"
    CHANGED_MODEL = "changed-model"
    NOT_REPEATABLE = "not-repeatable"  # two fresh sandboxes gave different bytes
    BATCH_DEPENDENT = "batch-dependent"  # a map depends on the other images of its batch or on their order
    TIME = "time"  # more CPU time than the limit
    CLOCK = "clock"  # more wall time than the limit: the submission waits, or the machine is far too busy
    MEMORY = "memory"  # more memory than the limit
    FILES = "files"  # more files in /tmp than the limit
    PRINTED = "printed"  # more output than the limit
    DIED = "died"  # the submission ended its process: exit or signal
    ANSWER = "answer"  # the answer is malformed


class HarnessFault(StrEnum):
    """Faults of roarbench or of this machine, which are never attributed to a submission."""

    NO_SANDBOX = "no-sandbox"  # bubblewrap is missing or may not run here
    LEAK = "leak"  # the sandbox starts but does not isolate
    NOT_STARTED = "not-started"  # the sandbox ended before the submission's first line


class Fault(NamedTuple):
    """A fault of a submission."""

    kind: SubmissionFault
    words: str  # observation, expectation and remedy; one line of at most 189 characters
    trace: str = ""  # traceback with the submission's own frames only; empty if no exception was raised


def make_printable_fault(kind: SubmissionFault, words: str, trace: str = "") -> Fault:
    """Make a fault whose strings are safe to show on a terminal and on a web page."""
    lines = [make_printable(line) for line in trace[:_TRACE].splitlines()]
    return Fault(kind, fit_on_one_line(words, LINE), "\n".join(lines))
