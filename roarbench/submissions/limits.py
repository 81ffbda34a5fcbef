"""Define the time, memory and other resources that a submission may use. Nothing here imports torch."""

from dataclasses import dataclass

MIB = 2**20
SCRATCH = 64 * MIB  # bytes of private files in /tmp
FILES = 10_000  # maximum files, folders and links in /tmp; each of these takes about 1 KiB of kernel memory
PROCESSES = 64
OPEN_FILES = 256
OUTPUT = 256 * 1024  # bytes of standard output and error together


@dataclass(frozen=True)
class Limits:
    """Limits of one sandbox."""

    cpu: float  # CPU seconds of all processes together, from the start of the submission's code
    wall: float  # wall seconds from the same start, far more than `cpu`, because the machine may be busy
    idle: float = 60  # wall seconds in which no process uses the CPU, because the submission waits
    memory: int = 4096 * MIB  # bytes of private and shared memory and page tables, all processes together


CHECK = Limits(cpu=20, wall=600)  # for each sandbox of `validate`
_IMPORT = 60  # CPU seconds for the submission's imports
_IMAGE = 10  # CPU seconds per image of a small network
_PASSES, _SPEED = 300, 5e9  # an image of a large network may take 300 forward passes at 5e9 operations per second


def compute_limits(images: int, flops: int) -> Limits:
    """Return the limits of a sandbox that explains this many images; one forward pass of an image takes `flops`."""
    cpu = _IMPORT + images * max(_IMAGE, _PASSES * flops / _SPEED)
    return Limits(cpu=cpu, wall=10 * cpu)
