"""Atomic writes, also on file systems without folder flushes, and checksums of stored files."""

import errno
import os
import stat
from functools import partial

import pytest

from roarbench.common import files
from roarbench.common.errors import StoreError
from roarbench.common.files import (
    compute_sha256,
    convert_write_errors,
    flush_to_disk,
    refuse_altered_file,
    write_atomically,
)


@pytest.fixture
def fail_fsync(monkeypatch):
    """Return a function that makes fsync fail with this error number, for folders or for files."""
    fsync = os.fsync

    def fail(number, folders):
        def refuse(descriptor):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode) is folders:
                raise OSError(number, os.strerror(number))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", refuse)

    return fail


def test_write_atomically_ignores_unsupported_folder_flush(tmp_path, fail_fsync):
    fail_fsync(errno.ENOTSUP, folders=True)
    path = tmp_path / "whole"
    write_atomically(path, lambda beside: beside.write_text("all of it"), tmp_path / "beside")
    assert path.read_text() == "all of it"
    fail_fsync(errno.EIO, folders=True)
    with pytest.raises(OSError, match="Input/output error"):
        flush_to_disk(tmp_path)


def test_write_atomically_leaves_no_file_when_flush_fails(tmp_path, fail_fsync):
    fail_fsync(errno.EINVAL, folders=False)
    path = tmp_path / "whole"
    with pytest.raises(StoreError, match="cannot write .*whole: Invalid argument"), convert_write_errors(path):
        write_atomically(path, lambda beside: beside.write_text("half"), tmp_path / "beside")
    assert list(tmp_path.iterdir()) == []


def test_refuse_altered_file_samples_large_files(tmp_path, monkeypatch):
    path, read = tmp_path / "large", []
    path.write_bytes(bytes(range(256)) * 400)
    check = partial(refuse_altered_file, path, compute_sha256(path), "it", "make it again")

    def compute_and_note(path, *version):
        read.append(path)
        return compute_sha256(path)

    monkeypatch.setattr(files, "LARGE", 100_000)
    monkeypatch.setattr(files, "_compute_checksum_once", compute_and_note)
    for whole, expected in ((False, 1), (False, 1), (True, 2)):
        check(whole=whole)
        assert len(read) == expected
    times = path.stat()
    for altered in (b"x" + path.read_bytes()[1:], path.read_bytes() + b"x"):  # same size and time; longer
        path.write_bytes(altered)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(StoreError, match="it: .* was altered"):
            check()
    os.utime(path, ns=(0, 0))
    with pytest.raises(StoreError, match="it: .* was altered"):
        check()


def test_refuse_altered_file_raises_after_change(tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    check = partial(refuse_altered_file, path, compute_sha256(path), "it", "make it again")
    check()
    path.write_text("other")
    with pytest.raises(StoreError, match="it: .* was altered: .*; make it again"):
        check()
