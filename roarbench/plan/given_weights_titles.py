"""Make titles of given weights, `NAME@CHECKSUM`. Nothing here imports torch."""

from pathlib import Path
from typing import NamedTuple

from roarbench.common.errors import CallerError
from roarbench.common.files import compute_sha256


class PublishedWeights(NamedTuple):
    """Weights that torchvision publishes."""

    file: str  # file name; after the hyphen come the first digits of the file's SHA-256
    model: str
    classes: int  # number of classes of the training images
    channels: int  # number of channels of the training images


PUBLISHED_WEIGHTS = {
    "torchvision:resnet50-v1": PublishedWeights("resnet50-0676ba61.pth", "resnet50", 1000, 3),
    "torchvision:resnet50-v2": PublishedWeights("resnet50-11ad3fa6.pth", "resnet50", 1000, 3),
}


def make_weights_title(reference: str) -> str:
    """Return `NAME@CHECKSUM` for a weights file or a name of `PUBLISHED_WEIGHTS`; copies of one file share a title.

    Raises CallerError if `reference` is neither a readable file nor a name of `PUBLISHED_WEIGHTS`.
    """
    titles = {
        f"{name}@{Path(weights.file).stem.rpartition('-')[2]}": name for name, weights in PUBLISHED_WEIGHTS.items()
    }
    for title, name in titles.items():
        if reference == name:
            return title
    try:
        checksum = compute_sha256(Path(reference)) if Path(reference).is_file() else ""
    except OSError as error:  # no permission to read, or an invalid file name
        seen = f"cannot read --reference {reference[:80]} ({error.strerror})"
        raise CallerError(f"{seen}; name a file of weights") from None
    if not checksum:
        names = ", ".join(PUBLISHED_WEIGHTS)
        raise CallerError(f"--reference {reference} is not a file; name a file of weights, or use one of {names}")
    return next((title for title in titles if checksum.startswith(title.rpartition("@")[2])), f"file@{checksum[:32]}")
