"""Atomic writes, locks and checksums of files."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import TypeVar

from filelock import FileLock

from roarbench.errors import CallerError, StoreError

Made = TypeVar("Made")
LARGE = 2**28  # larger files, in bytes, are not read completely by every command
_SAMPLED, _BLOCK = 256, 2**14  # blocks of a sample; bytes per block
# errors of fsync(2) on folders without support
_NO_FOLDERS = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}


def write_atomically(path: Path, write: Callable[[Path], Made], temporary: Path) -> Made:
    """Write a temporary file, flush it to the disk, and rename it to `path`; return the result of `write`.

    Args:
        path: The final name.
        write: Writes the file at the path that it receives.
        temporary: A path on the same file system that no other process uses; removed unless this process is killed.
    """
    try:
        made = write(temporary)
        flush_to_disk(temporary)
        os.replace(temporary, path)  # noqa: PTH105 (one name for every rename in the project, which tests can cut off)
    finally:
        temporary.unlink(missing_ok=True)
    flush_to_disk(path.parent)
    return made


def write_new(path: Path, write: Callable[[Path], Made]) -> Made:
    """Write a file that does not exist yet; return the result of `write`.

    Raises:
        CallerError: It exists.
        StoreError: It cannot be written.
    """
    if path.exists():
        raise CallerError(f"{path} already exists; name a new file")
    with convert_write_errors(path):
        return write_atomically(path, write, path.with_name(f".{path.name}.partial"))


@contextmanager
def convert_write_errors(path: Path) -> Iterator[None]:
    """Turn errors of a full or read-only disk into a one-line StoreError."""
    try:
        yield
    except OSError as error:
        why = f"{error.strerror or error}; free space or choose another --store"
        if isinstance(error, FileNotFoundError) and not path.parent.exists():
            why = f"there is no folder {path.parent}; make it, or name another"
        raise StoreError(f"cannot write {path}: {why}") from error


@contextmanager
def lock_file(path: Path, *anew: Path) -> Iterator[None]:
    """Let one process at a time into the block, by a lock file, made with its folder where it is not there.

    Folders that may have changed meanwhile are listed as soon as the lock is there, see `refresh_folders`.

    Raises:
        StoreError: The folder cannot be written.
    """
    lock = FileLock(path)
    with convert_write_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        refresh_folders(*anew)
        yield
    finally:
        lock.release()


def refresh_folders(*folders: Path) -> None:
    """List folders, parents first, so that names in them are looked up afresh.

    The client of a network file system may remember that a name does not exist until its folder is listed (nfs(5),
    "Directory entry caching"), and a process that waited for a lock asks for files made meanwhile.
    """
    for folder in folders:
        with suppress(OSError):  # the folder does not exist yet
            list(folder.iterdir())


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits; StoreError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error


def refuse_altered(path: Path, noted: str, what: str, remedy: str, whole: bool = False) -> None:
    """Refuse a file that lacks the checksum recorded when it was written; each version is read once.

    A large file that was read whole before is compared by size, time and a sample of its bytes, unless `whole`.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}; {remedy}") from error
    if not whole and _read_before(path, noted):
        return
    if _checksum(path, found.st_size, found.st_mtime_ns, found.st_ino) != noted:
        raise StoreError(f"{what}: {path} was altered, its checksum is not the manifest's; {remedy}")
    record_whole_read(path, noted)


@cache
def _checksum(path: Path, *version: int) -> str:
    return compute_sha256(path)


def record_whole_read(path: Path, checksum: str) -> None:
    """Record beside a large file that it was read whole and has this checksum; nothing where that cannot be written."""
    if path.stat().st_size >= LARGE:
        with suppress(OSError):
            text, temporary = _signs(path, checksum), path.with_name(f".{path.name}.new")
            write_atomically(_note(path), lambda new: new.write_text(text), temporary)


def _read_before(path: Path, checksum: str) -> bool:
    if path.stat().st_size < LARGE:
        return False
    with suppress(OSError):
        return _note(path).read_text() == _signs(path, checksum)
    return False


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.read")


def _signs(path: Path, checksum: str) -> str:
    """Return a version's size, time and sampled blocks, at positions drawn from its checksum."""
    found, digest = path.stat(), hashlib.sha256()
    places = Random(checksum).choices(range(found.st_size), k=_SAMPLED)
    with path.open("rb") as file:
        for place in (0, *sorted(places)):
            file.seek(place)
            digest.update(file.read(_BLOCK))
    return f"{checksum} {found.st_size} {found.st_mtime_ns} {digest.hexdigest()}\n"


def flush_to_disk(path: Path) -> None:
    """Flush a file or folder to the disk, as far as the file system supports it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # network and FUSE file systems keep folder entries safe in their own way, or not at all
        if not path.is_dir() or error.errno not in _NO_FOLDERS:
            raise
    finally:
        os.close(descriptor)
