"""Files as a failing disk or a stranger leaves them."""

from pathlib import Path


def flip(path: Path, after: bytes = b"") -> None:
    """Change one bit of a file: of the first byte of these, or of the byte in its middle."""
    content = bytearray(path.read_bytes())
    content[content.index(after) if after else len(content) // 2] ^= 1
    path.write_bytes(content)


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
