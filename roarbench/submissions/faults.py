"""The faults of a submission and of the harness, two closed lists. Nothing here imports torch."""

from enum import StrEnum
from typing import NamedTuple

from roarbench.text import fit_on_one_line, make_printable

LINE = 189  # characters; with "roarbench: " before it, a refusal has 200
_TRACE = 4000  # characters kept of a traceback


class SubmissionFault(StrEnum):
    """Faults of the submitted file."""

    UNREADABLE = "unreadable"  # no such file, a folder, no right to read it
    TOO_LARGE = "too-large"
    ENCODING = "encoding"
    SYNTAX = "syntax"
    NAMES = "names"  # NAME, DESCRIPTION … are missing or not what they must be
    IMPORT = "import"  # it raised while it was imported
    SIGNATURE = "signature"  # no `estimate` with the contract's four arguments, nor what captum or Quantus call
    RAISED = "raised"  # `estimate` raised
    OUTPUT_TYPE = "output-type"
    OUTPUT_SHAPE = "output-shape"
    OUTPUT_DTYPE = "output-dtype"
    NOT_FINITE = "not-finite"
    CHANGED_INPUTS = "changed-inputs"
    CHANGED_MODEL = "changed-model"
    NOT_REPEATABLE = "not-repeatable"  # two fresh sandboxes, other bytes
    BATCH_DEPENDENT = "batch-dependent"  # a map depends on the other images of its batch or on their order
    TIME = "time"  # of the processor
    CLOCK = "clock"  # it waits for something, or the machine was far too busy
    MEMORY = "memory"
    FILES = "files"  # more of them in /tmp than memory should hold
    PRINTED = "printed"  # more output than anybody reads
    DIED = "died"  # it ended its process: exit, signal
    ANSWER = "answer"  # what lies in the answer's place is not an answer


class HarnessFault(StrEnum):
    """Faults of roarbench or of this machine, never held against a submission."""

    NO_SANDBOX = "no-sandbox"  # bubblewrap is missing or may not work here
    LEAK = "leak"  # the sandbox starts and does not hold
    NOT_STARTED = "not-started"  # it ended before the submission's first line


class Fault(NamedTuple):
    """A fault of a submission."""

    kind: SubmissionFault
    words: str  # what was seen, what was expected, what to write; one line of at most 189 characters
    trace: str = ""  # traceback of the submission's own frames; empty where there is none


def make_fault(kind: SubmissionFault, words: str, trace: str = "") -> Fault:
    """Make a fault whose texts are safe for terminal and page."""
    lines = [make_printable(line) for line in trace[:_TRACE].splitlines()]
    return Fault(kind, fit_on_one_line(words, LINE), "\n".join(lines))
