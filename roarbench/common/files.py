"""Write files atomically, lock them, and check their checksums."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import TypeVar

from roarbench.common.errors import CallerError, StoreError

Made = TypeVar("Made")
ARRAY_LOADERS = {".npy": "np.load", ".npz": "np.load", ".pt": "torch.load", ".pth": "torch.load"}  # by suffix
LARGE = 2**28  # bytes from which a file that was once read completely is compared by a sample (`refuse_altered_file`)
_SAMPLED, _BLOCK = 256, 2**14  # number of blocks in a sample; bytes per block
# errors of fsync(2) for a folder on a file system that cannot flush folders
_NO_FOLDERS = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}


def write_atomically(path: Path, write: Callable[[Path], Made], temporary: Path | None = None) -> Made:
    """Write a temporary file, flush it to the disk, and rename it to `path`; return the result of `write`.

    `temporary` is a path on the same file system that no other process uses; the default is `.NAME.partial` beside
    `path`. If `write` fails, the temporary file is removed; it stays only if this process is killed.
    """
    temporary = temporary or path.with_name(f".{path.name}.partial")
    try:
        outcome = write(temporary)
        flush_to_disk(temporary)
        os.replace(temporary, path)  # noqa: PTH105 (one name for every rename in the project, which tests can cut off)
    finally:
        temporary.unlink(missing_ok=True)
    flush_to_disk(path.parent)
    return outcome


def write_file_refusing_existing(path: Path, write: Callable[[Path], Made]) -> Made:
    """Write a file and return the result of `write`; raise CallerError if the file exists already."""
    if path.exists():
        raise CallerError(f"{path} already exists; name a new file")
    with convert_write_errors(path):
        return write_atomically(path, write)


def is_picture_of(path: Path, software: str) -> bool:
    """Return whether a file is a picture whose metadata name this program, which may then replace it."""
    from PIL import Image  # most users of this module draw nothing

    try:
        with Image.open(path) as image:
            return bool(image.info.get("Software") == software)
    except (OSError, ValueError, SyntaxError):
        return False


@contextmanager
def convert_write_errors(path: Path) -> Iterator[None]:
    """Convert write errors in this block, for example on a full or read-only disk, to a one-line StoreError."""
    try:
        yield
    except OSError as error:
        why = f"{error.strerror or error}; free disk space or write to another folder"
        if isinstance(error, FileNotFoundError) and not path.parent.exists():
            why = f"there is no folder {path.parent}; create it, or name another folder"
        raise StoreError(f"cannot write {path}: {why}") from error


@contextmanager
def convert_read_errors(path: Path | str, remedy: str = "", kind: type[CallerError] = StoreError) -> Iterator[None]:
    """Convert errors of reading a file, or of decoding it as UTF-8, to a one-line error with the remedy."""
    try:
        yield
    except OSError as error:
        seen = f"cannot read {error.filename or path}: {error.strerror or error}"
        raise kind("; ".join(filter(None, (seen, remedy)))) from error
    except UnicodeDecodeError as error:
        raise kind(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None


@contextmanager
def lock_file(path: Path, *folders: Path) -> Iterator[None]:
    """Let only one process at a time run this block, by a lock file; the file and its folder are created if missing.

    After the process has acquired the lock, it lists the `folders`, which other processes may have changed, so that it
    sees new files (`refresh_folder_listings`).
    """
    from filelock import FileLock  # tables need no lock, and the import takes a tenth of their time

    lock = FileLock(path)
    with convert_write_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        refresh_folder_listings(*folders)
        yield
    finally:
        lock.release()


def refresh_folder_listings(*folders: Path) -> None:
    """List the entries of folders, parents first, so that the file system looks up their names again.

    The client of a network file system may remember that a file is missing until the file's folder is listed (nfs(5),
    "Directory entry caching"). A process that has waited for a lock needs the files that were written meanwhile.
    """
    for folder in folders:
        with suppress(OSError):  # the folder does not exist yet
            list(folder.iterdir())


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits; raise StoreError if the file cannot be read."""
    with convert_read_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_altered_file(path: Path, checksum: str, description: str, remedy: str, whole: bool = False) -> None:
    """Raise StoreError if a file does not have the checksum that was recorded when it was written.

    A process reads each version of a file only once. If this or another process has read a large file completely
    before, only the file's size, modification time and a sample of its bytes are compared, unless `whole` is True.
    """
    with convert_read_errors(path, remedy):
        status = path.stat()
    if not whole and status.st_size >= LARGE:
        with suppress(OSError):
            if _make_verification_note_path(path).read_text() == _make_sampled_signature(path, checksum):
                return
    if _compute_checksum_once(path, status.st_size, status.st_mtime_ns, status.st_ino) != checksum:
        raise StoreError(f"{description}: {path} was altered: it does not have the recorded checksum; {remedy}")
    record_verified_checksum(path, checksum)


@cache
def _compute_checksum_once(path: Path, *version: int) -> str:
    return compute_sha256(path)


def record_verified_checksum(path: Path, checksum: str) -> None:
    """Record beside a large file that the file was read completely and has this checksum, if the folder is writable."""
    if path.stat().st_size >= LARGE:
        with suppress(OSError):
            text = _make_sampled_signature(path, checksum)
            write_atomically(_make_verification_note_path(path), lambda temporary: temporary.write_text(text))


def _make_verification_note_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.read")


def _make_sampled_signature(path: Path, checksum: str) -> str:
    """Return a line with checksum, size, modification time and a hash of blocks sampled with the checksum as seed."""
    status, digest = path.stat(), hashlib.sha256()
    offsets = Random(checksum).choices(range(status.st_size), k=_SAMPLED)
    with path.open("rb") as file:
        for offset in (0, *sorted(offsets)):
            file.seek(offset)
            digest.update(file.read(_BLOCK))
    return f"{checksum} {status.st_size} {status.st_mtime_ns} {digest.hexdigest()}\n"


def flush_to_disk(path: Path) -> None:
    """Flush a file or folder to the disk, as far as the file system supports it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network and FUSE file systems cannot flush a folder
        if not path.is_dir() or error.errno not in _NO_FOLDERS:
            raise
    finally:
        os.close(descriptor)
