"""Define the resource limits of a submission, the faults for which a submission is refused, and those of the harness.

Nothing here imports torch.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from roarbench.common.errors import CallerError
from roarbench.common.text import blank_control_characters, fit_on_one_line

_MIB = 2**20
MAX_SCRATCH_BYTES = 64 * _MIB  # bytes of private files in /tmp
MAX_FILES = 10_000  # maximum files, folders and links in /tmp; each of these takes about 1 KiB of kernel memory
MAX_PROCESSES = 64
MAX_OPEN_FILES = 256
MAX_OUTPUT_BYTES = 256 * 1024  # bytes of standard output and error together


@dataclass(frozen=True)
class Limits:
    """Limits of one sandbox."""

    cpu: float  # CPU seconds of all processes together, from the start of the submission's code
    wall: float  # wall seconds from the same start, far more than `cpu`, because the machine may be busy
    idle: float = 60  # wall seconds in which no process uses the CPU, because the submission waits
    waiting: float = float("inf")  # the same, all waits together
    memory: int = 4096 * _MIB  # bytes of private and shared memory and page tables, all processes together


CHECK_LIMITS = Limits(cpu=20, wall=600)  # for six images, and in proportion for more, in each sandbox of `validate`
MAX_CHECK_WAITING = 60  # wall seconds that a submission may wait in all sandboxes of `validate` together
_IMPORT_SECONDS = 60  # CPU seconds for the submission's imports
_SECONDS_PER_IMAGE = 10  # CPU seconds per image of a small network
# an image of a large network may take 300 forward passes at 5e9 operations per second
_PASSES_PER_IMAGE, _OPERATIONS_PER_SECOND = 300, 5e9


def compute_sandbox_limits(images: int, flops: int) -> Limits:
    """Return the limits of a sandbox that explains this many images; one forward pass of an image takes `flops`."""
    cpu = _IMPORT_SECONDS + images * max(_SECONDS_PER_IMAGE, _PASSES_PER_IMAGE * flops / _OPERATIONS_PER_SECOND)
    return Limits(cpu=cpu, wall=10 * cpu)


MAX_LINE = 189  # maximum characters of a refusal; the terminal shows 200 with the prefix "roarbench: "
_MAX_TRACE = 4000  # maximum characters of a traceback


# description of maps that `compute.ranking.have_byte_values` recognises
BYTE_VALUES = (
    "at most 256 different values, as after a cast to bytes: equal features are ranked at random, and negative values "
    "have wrapped around if they were cast; use floats"
)

OF_LOSS = (
    "is the gradient of the loss, or of minus the logit, so it ranks the most important features last; negate it, or "
    "take absolute values"
)
TURNED = "follows a change of a corner of the image in another corner; it seems to be transposed, mirrored or rotated"


class SubmissionFault(StrEnum):
    """Kind of a submission's fault."""

    UNREADABLE = "unreadable"  # missing file, folder, no permission, or no Python file
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
    TIME = "time"  # the submission used more CPU time than the limit
    CLOCK = "clock"  # more wall time passed than the limit: the submission waits, or the machine is far too busy
    MEMORY = "memory"  # the submission used more memory than the limit
    FILES = "files"  # the submission created more files in /tmp than the limit
    PRINTED = "printed"  # the submission printed more than the limit
    DIED = "died"  # the submission ended its process by an exit or a signal
    ANSWER = "answer"  # the sandbox's answer is malformed


class HarnessFault(StrEnum):
    """Kind of a fault of roarbench or of this machine; a submission is never blamed for such a fault."""

    NO_SANDBOX = "no-sandbox"  # bubblewrap is missing or may not run here
    LEAK = "leak"  # the sandbox starts but does not isolate
    NOT_STARTED = "not-started"  # the sandbox ended before the submission's first line
    NO_MEMORY = "no-memory"  # the kernel ended the sandbox because the machine, not the submission, lacked memory


class ValidationFinding(StrEnum):
    """Finding of `validate` about an accepted submission, as spelt in stores and exported files.

    Attributes:
        description: What the check observed; maps may still depend on the suite's networks, which `validate` lacks.
    """

    description: str

    def __new__(cls, spelling: str, description: str = "") -> Self:
        finding = str.__new__(cls, spelling)
        finding._value_, finding.description = spelling, description
        return finding

    NETWORK = "ignores the network", "two networks with other weights than the suite's have the same map"
    CLASS = "ignores the class", "two classes have the same map"
    CONSTANT = "has maps that are the same everywhere", "a map is constant, so its ranking is random"
    BYTES = "has maps of bytes", f"the maps have {BYTE_VALUES}"
    TRANSPOSED = "has transposed maps", f"a map {TURNED}"
    OF_LOSS = "has gradients of the loss", f"a map {OF_LOSS}"


class Refusal(CallerError):
    """Raised for a rejected submission, or a fault during a run; safe to show on a terminal and on a web page.

    Attributes:
        kind: Kind of the fault.
        trace: Traceback with the submission's own frames only; empty if no exception was raised.
    """

    def __init__(self, kind: SubmissionFault, message: str, trace: str = "") -> None:
        super().__init__(fit_on_one_line(message, MAX_LINE))
        self.kind = kind
        self.trace = "\n".join(blank_control_characters(line) for line in trace[:_MAX_TRACE].splitlines())

    def add_subject(self, subject: str) -> "Refusal":
        """Return the refusal with a message that begins with `subject`, a file or submission."""
        return Refusal(self.kind, f"{subject}: {self}", self.trace)
