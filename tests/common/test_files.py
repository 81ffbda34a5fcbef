"""Files that are there whole or not at all, on file systems that can do less than others."""

import errno
import os
import stat

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


def refuse(monkeypatch, number, folders):
    """Let fsync of folders, or of files, fail in this way; what was flushed to the disk."""
    fsync, flushed = os.fsync, []

    def refusing(descriptor):
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if folder is folders:
            raise OSError(number, os.strerror(number))
        flushed.append(folder)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refusing)
    return flushed


def test_a_file_system_that_cannot_flush_folders_is_written_to_but_no_broken_one(tmp_path, monkeypatch):
    flushed = refuse(monkeypatch, errno.ENOTSUP, folders=True)
    path = tmp_path / "whole"
    with convert_write_errors(path):
        write_atomically(path, lambda beside: beside.write_text("all of it"), tmp_path / "beside")
    assert path.read_text() == "all of it"
    assert flushed == [False]  # the file itself is on the disk
    flush_to_disk(tmp_path)
    refuse(monkeypatch, errno.EIO, folders=True)
    with pytest.raises(OSError, match="Input/output error"):
        flush_to_disk(tmp_path)


def test_a_file_that_cannot_be_flushed_is_an_error_and_nothing_is_there(tmp_path, monkeypatch):
    refuse(monkeypatch, errno.EINVAL, folders=False)
    path = tmp_path / "whole"
    with pytest.raises(StoreError, match="cannot write .*whole: Invalid argument"), convert_write_errors(path):
        write_atomically(path, lambda beside: beside.write_text("half"), tmp_path / "beside")
    assert list(tmp_path.iterdir()) == []


def test_a_large_file_is_read_whole_once_and_then_by_a_sample(tmp_path, monkeypatch):
    path, read = tmp_path / "large", []
    path.write_bytes(bytes(range(256)) * 400)
    noted = compute_sha256(path)
    monkeypatch.setattr(files, "LARGE", 100_000)
    monkeypatch.setattr(
        files, "_compute_checksum_once", lambda path, *version: read.append(path) or compute_sha256(path)
    )
    for expected in (1, 1):
        refuse_altered_file(path, noted, "it", "make it again")
        assert len(read) == expected
    refuse_altered_file(path, noted, "it", "make it again", whole=True)
    assert len(read) == 2
    times = path.stat()
    for altered in (b"x" + path.read_bytes()[1:], path.read_bytes() + b"x"):  # same size and time; longer
        path.write_bytes(altered)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(StoreError, match="it: .* was altered"):
            refuse_altered_file(path, noted, "it", "make it again")
    os.utime(path, ns=(0, 0))
    with pytest.raises(StoreError, match="it: .* was altered"):
        refuse_altered_file(path, noted, "it", "make it again")


def test_a_file_that_changes_is_read_again(tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    noted = compute_sha256(path)
    refuse_altered_file(path, noted, "it", "make it again")
    path.write_text("other")
    with pytest.raises(StoreError, match="it: .* was altered: .*; make it again"):
        refuse_altered_file(path, noted, "it", "make it again")
