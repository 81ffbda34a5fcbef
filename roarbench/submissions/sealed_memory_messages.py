"""Exchange data with a sandbox in sealed memory: requests with images, model and source, and answers with maps.

A request consists of the length of a JSON header (8 bytes, little endian), the header with type, shape and offset of
every array, and the bytes of the arrays. A request is sealed against all changes before the sandbox reads it. An answer
has a fixed size: the first 64 KiB hold a JSON header, the rest holds float32 maps. Seals fix the answer's size and
forbid further seals. The answer is read once, after its writers have ended, and its content is neither executed nor
trusted.
"""

import fcntl
import json
import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = 65536
_PREFIX = 8
_TYPES = ("float32", "int64", "uint8")

Arrays = dict[str, NDArray[Any]]


def create_request(metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
    """Write plain JSON and arrays to a new sealed memory file; return its descriptor, which the caller must close."""
    places, offset = {}, 0
    for name, array in arrays.items():
        if array.dtype.name not in _TYPES:
            raise ValueError(f"array '{name}' is {array.dtype}, expected one of {', '.join(_TYPES)}")
        places[name] = [array.dtype.name, list(array.shape), offset]
        offset += array.nbytes
    header = json.dumps({"about": metadata, "arrays": places}).encode()
    descriptor = _create_nameless_file("request")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(len(header).to_bytes(_PREFIX, "little") + header)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).data)
    _add_seals(descriptor, "WRITE", "GROW", "SHRINK", "SEAL")
    return descriptor


def read_request(descriptor: int) -> tuple[dict[str, Any], Arrays]:
    """Read a request; the arrays are copies."""
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as memory:
        start = _PREFIX + int.from_bytes(memory[:_PREFIX], "little")
        header = json.loads(memory[_PREFIX:start])
        arrays = {}
        for name, (kind, shape, offset) in header["arrays"].items():
            count = int(np.prod(shape, dtype=np.int64))
            first = start + offset
            data = memory[first : first + count * np.dtype(kind).itemsize]
            arrays[name] = np.frombuffer(bytearray(data), kind).reshape(shape)
    return header["about"], arrays


def create_answer(count: int) -> int:
    """Create an empty answer with space for this many float32 numbers; its size is fixed, and no seal can be added."""
    descriptor = _create_nameless_file("answer")
    os.ftruncate(descriptor, HEADER + 4 * count)
    _add_seals(descriptor, "GROW", "SHRINK", "SEAL")
    return descriptor


def write_map(descriptor: int, offset: int, importance: NDArray[np.float32]) -> None:
    """Write the values of maps into an answer, starting `offset` values after the answer's first map value."""
    data, position = memoryview(importance.tobytes()), HEADER + 4 * offset
    while data:
        written = os.pwrite(descriptor, data, position)
        data, position = data[written:], position + written


def finish_answer(descriptor: int, header: Mapping[str, Any]) -> None:
    """Write the header of an answer, which marks the answer as finished."""
    text = json.dumps(header).encode()
    os.pwrite(descriptor, len(text).to_bytes(_PREFIX, "little") + text, 0)


def read_answer(descriptor: int) -> tuple[dict[str, Any] | None, NDArray[np.float32]]:
    """Return copies of the header and all numbers, float32 (numbers,), of an answer whose writers have ended.

    The header is an empty dict if no header was written, and None if the header is not a JSON object.
    """
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as memory:
        numbers = np.frombuffer(memory[HEADER:], "<f4")
        length = int.from_bytes(memory[:_PREFIX], "little")
        text = memory[_PREFIX : min(HEADER, _PREFIX + length)]
    if not length:
        return {}, numbers
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        return None, numbers
    return (header if isinstance(header, dict) else None), numbers


def _create_nameless_file(name: str) -> int:
    """Create a file in memory or, on systems other than Linux (which have no sandbox), an unnamed file on disk."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _add_seals(descriptor: int, *seals: str) -> None:
    if hasattr(fcntl, "F_ADD_SEALS"):
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, sum(getattr(fcntl, f"F_SEAL_{seal}") for seal in seals))
