"""All faults of a submission and of the harness, in two lists. Nothing here imports torch."""

from enum import StrEnum
from typing import NamedTuple

from roarbench.text import fit_on_one_line, make_printable

LINE = 189  # characters; a refusal has 200 with the prefix "roarbench: "
_TRACE = 4000  # maximum characters of a traceback


class SubmissionFault(StrEnum):
    """Faults of the submitted file."""

    UNREADABLE = "unreadable"  # missing file, folder, or no permission
    TOO_LARGE = "too-large"
    ENCODING = "encoding"
    SYNTAX = "syntax"
    NAMES = "names"  # NAME, DESCRIPTION … are missing or invalid
    IMPORT = "import"  # the file's import raised an exception
    # no `estimate` with four arguments, and no function or class that captum or Quantus would call
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
    TIME = "time"  # CPU time
    CLOCK = "clock"  # wall time: the submission waits, or the machine is far too busy
    MEMORY = "memory"
    FILES = "files"  # more files in /tmp than the limit
    PRINTED = "printed"  # more output than the limit
    DIED = "died"  # the submission ended its process: exit or signal
    ANSWER = "answer"  # the answer is malformed


class HarnessFault(StrEnum):
    """Faults of roarbench or of this machine, which are never attributed to a submission."""

    NO_SANDBOX = "no-sandbox"  # bubblewrap is missing or may not run here
    LEAK = "leak"  # the sandbox starts and does not isolate
    NOT_STARTED = "not-started"  # the sandbox ended before the submission's first line


class Fault(NamedTuple):
    """A fault of a submission."""

    kind: SubmissionFault
    words: str  # observation, expectation and remedy; one line of at most 189 characters
    trace: str = ""  # traceback of the submission's own frames; empty without one


def make_printable_fault(kind: SubmissionFault, words: str, trace: str = "") -> Fault:
    """Make a fault whose strings are safe to show on a terminal and on a web page."""
    lines = [make_printable(line) for line in trace[:_TRACE].splitlines()]
    return Fault(kind, fit_on_one_line(words, LINE), "\n".join(lines))
