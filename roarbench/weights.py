"""What given weights are called: a name with a checksum, in records and titles. Nothing here imports torch."""

from pathlib import Path

from roarbench.errors import CallerError, UnknownName
from roarbench.store.files import sha256

PUBLISHED = {  # torchvision's files; the end of a name is the start of its SHA-256
    "torchvision:resnet50-v1": "resnet50-0676ba61.pth",
    "torchvision:resnet50-v2": "resnet50-11ad3fa6.pth",
}


def title(reference: str) -> str:
    """`NAME@CHECKSUM`: what given weights are in the records of a suite, the explained model and its runs.

    Args:
        reference: What `--reference` takes: a file, or a name of `PUBLISHED`. A file that is one of those has its name.

    Raises:
        CallerError: There is neither.
    """
    if reference in PUBLISHED:
        return f"{reference}@{checksum_start(reference)}"
    path = Path(reference)
    try:
        checksum = sha256(path) if path.is_file() else ""
    except OSError as error:  # no right to read it, or a name that no file can have
        seen = f"cannot read --reference {reference[:80]} ({error.strerror})"
        raise CallerError(f"{seen}; write a file of weights") from None
    if not checksum:
        if reference.startswith("torchvision:"):
            raise UnknownName("reference", reference, PUBLISHED)
        names = ", ".join(PUBLISHED)
        raise CallerError(f"--reference {reference} is no file; write a file of weights, or one of {names}")
    return next(
        (title(name) for name in PUBLISHED if checksum.startswith(checksum_start(name))), f"file@{checksum[:32]}"
    )


def checksum_start(name: str) -> str:
    """First digits of the SHA-256 of published weights."""
    return Path(PUBLISHED[name]).stem.rpartition("-")[2]
