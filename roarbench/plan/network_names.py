"""What a network is called in records, by which it can be built anywhere. Nothing here imports torch."""

import hashlib
import re
from pathlib import Path

from roarbench.errors import CallerError, UnknownName
from roarbench.models import MODELS

TORCHVISION, TIMM = "torchvision:", "timm:"
_FILE = re.compile(r"(?P<file>.+\.py):(?P<function>[A-Za-z_]\w*)")
_LONGEST = 2**20  # bytes of a file that makes a network


def named_network(name: str, weights: str, base: Path) -> tuple[str, str, str]:
    """Return what a network is called, the source of its file, and the weights that its trainings begin with.

    Its name is one of `MODELS`, `torchvision:NAME`, `timm:NAME`, or `FILE.py:FUNCTION`, whose path begins at `base`.
    Weights are torchvision's, such as `IMAGENET1K_V1`; random ones if empty.

    Raises:
        CallerError: There is no such file, or the name is none of these.
    """
    start = f"{name}/{weights}" if weights else ""
    if weights and not name.startswith(TORCHVISION):
        raise CallerError(f"weights is '{weights}' and name is '{name}'; weights are those of a torchvision:NAME")
    if name in MODELS or re.fullmatch(rf"({TORCHVISION}|{TIMM})[\w.]+", name):
        return name, "", start
    if found := _FILE.fullmatch(name):
        return _of_file(base / found["file"], found["function"])
    if ":" in name or name.endswith(".py"):
        raise CallerError(f"name is '{name}', expected torchvision:NAME, timm:NAME or FILE.py:FUNCTION")
    raise UnknownName("network", name, sorted(MODELS))


def _of_file(path: Path, function: str) -> tuple[str, str, str]:
    try:
        content = path.read_bytes()
        source = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise CallerError(f"cannot read the network's file {path}: {why}; write FILE.py:FUNCTION") from None
    if len(content) > _LONGEST:
        raise CallerError(f"{path} has {len(content):,} bytes; a file that makes a network has {_LONGEST:,} at most")
    digest = hashlib.sha256(content).hexdigest()[:8]
    stem = re.sub(r"\W+", "-", path.stem)
    return f"{stem}.{function}@{digest}", source, ""
