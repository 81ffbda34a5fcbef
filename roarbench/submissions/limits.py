"""Limits of submissions. Nothing here imports torch."""

from dataclasses import dataclass

MIB = 2**20
SCRATCH = 64 * MIB  # private files in /tmp
FILES = 10_000  # of them, folders and links included: each takes about 1 KiB of the kernel's own memory
PROCESSES = 64
OPEN_FILES = 256
OUTPUT = 256 * 1024  # bytes printed, standard output and error together


@dataclass(frozen=True)
class Limits:
    """Limits of one sandbox."""

    cpu: float  # processor seconds of all its processes together, from where the submission's code begins
    wall: float  # seconds from there to the end, far more than the processor's: a busy machine is nobody's fault
    memory: int = 4096 * MIB  # bytes of private and shared memory and of page tables, of all its processes together


CHECK = Limits(cpu=20, wall=600)  # of each sandbox that `validate` starts
_IMPORT = 60  # seconds that the submission's own imports may take
_IMAGE = 10  # processor seconds per image, of a small network
_PASSES, _SPEED = 300, 5e9  # of a large one the worth of so many passes at so many operations a second


def compute_limits(images: int, flops: int) -> Limits:
    """Return the limits of a sandbox for this many maps; `flops` are those of one forward pass."""
    cpu = _IMPORT + images * max(_IMAGE, _PASSES * flops / _SPEED)
    return Limits(cpu=cpu, wall=10 * cpu)
