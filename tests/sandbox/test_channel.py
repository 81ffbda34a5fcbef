"""Bytes in sealed memory: what goes in comes out, and a lying answer is only numbers."""

import fcntl
import mmap
import os

import numpy as np
import pytest

from roarbench.sandbox import channel
from roarbench.sandbox.channel import HEADER, new_answer, read_answer, read_request, write_map

ARRAYS = {
    "images": np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 2, 2),
    "count": np.array(7, np.int64),
    "source": np.frombuffer(b"import torch", np.uint8),
    "nothing": np.zeros((0, 3), np.float32),
}


@pytest.fixture
def answer():
    descriptor = new_answer(6)
    yield descriptor
    os.close(descriptor)


def test_a_request_is_read_as_it_was_written_and_cannot_be_changed():
    descriptor = channel.write_request({"batch": 4, "network": {"name": "resnet8"}}, ARRAYS)
    about, arrays = read_request(descriptor)
    assert about == {"batch": 4, "network": {"name": "resnet8"}}
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)
    arrays["images"][:] = 0  # a copy, which can be written
    np.testing.assert_array_equal(read_request(descriptor)[1]["images"], ARRAYS["images"])
    for change in (lambda: os.pwrite(descriptor, b"x", 0), lambda: os.ftruncate(descriptor, 1)):
        with pytest.raises(PermissionError):
            change()
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, 0)
    os.close(descriptor)


def test_an_answer_is_read_as_it_was_written(answer):
    write_map(answer, 0, np.array([1, 2], np.float32))
    write_map(answer, 2, np.array([[3, 4], [5, np.nan]], np.float32))
    channel.write_header(answer, {"fault": None, "dims": 3})
    header, numbers = read_answer(answer)
    assert header == {"fault": None, "dims": 3}
    np.testing.assert_array_equal(numbers, np.array([1, 2, 3, 4, 5, np.nan], np.float32))


def test_an_answer_neither_grows_nor_is_sealed_and_what_was_read_stays(answer):
    for seal in (fcntl.F_SEAL_WRITE, fcntl.F_SEAL_SEAL):
        with pytest.raises(PermissionError):
            fcntl.fcntl(answer, fcntl.F_ADD_SEALS, seal)
    for length in (2**30, 0):
        with pytest.raises(PermissionError):
            os.ftruncate(answer, length)
    header, numbers = read_answer(answer)
    os.pwrite(answer, b"x" * (HEADER + 4), 0)
    assert header == {}
    assert numbers[0] == 0


def test_what_is_no_object_is_no_header_and_a_header_ends_where_the_map_begins(answer):
    for text in (b"", b"[1, 2]", b"{", b"[" * 60000, b"\xff\xfe", b"null", b"1" * 60000):
        os.pwrite(answer, (len(text) or 2**63).to_bytes(8, "little") + text, 0)
        assert read_answer(answer)[0] is None
    write_map(answer, 0, np.frombuffer(b'"x"}' * 6, np.float32))
    os.pwrite(answer, (HEADER + 20).to_bytes(8, "little") + b'{"a": ', 0)
    assert read_answer(answer)[0] is None
