"""Try to reach files, sockets and processes of the machine from a sandbox; uses only the standard library."""

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Print a JSON list of the files, sockets, processes, variables and rights that the probe could reach."""
    file, port, path, process, variable, value, namespaces = sys.argv[2:]
    tries: dict[str, Callable[[], bool]] = {
        "a file": lambda: bool(Path(file).stat()),
        "a TCP socket": lambda: _connect_or_raise(socket.AF_INET, ("127.0.0.1", int(port))),
        "a Unix socket": lambda: _connect_or_raise(socket.AF_UNIX, path),
        "another process": lambda: value in Path(f"/proc/{process}/cmdline").read_text(),
        "an environment variable": lambda: variable in os.environ or _is_in_process_environments(value),
        "a namespace of this machine": lambda: any(
            Path(f"/proc/self/ns/{name}").stat().st_ino == number for name, number in json.loads(namespaces).items()
        ),
        # PR_GET_SECCOMP, SECCOMP_MODE_FILTER
        "every system call": lambda: ctypes.CDLL(None).prctl(21, 0, 0, 0, 0) != 2,
        "root's rights": lambda: os.geteuid() == 0,
        "new rights": lambda: ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) != 1,  # PR_GET_NO_NEW_PRIVS
        "a writable tree": _can_write,
    }
    reached = []
    for name, reach in tries.items():
        with suppress(OSError):
            reached += [name] if reach() else []
    print(json.dumps(reached))


def _connect_or_raise(family: int, address: object) -> bool:
    with socket.socket(family) as connection:
        connection.settimeout(1)
        connection.connect(address)  # type: ignore[arg-type]
    return True


def _is_in_process_environments(value: str) -> bool:
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if value.encode() in (process / "environ").read_bytes():
                return True
    return False


def _can_write() -> bool:
    for folder in ("/", "/usr/lib", *sys.argv[1].split(os.pathsep)):
        with suppress(OSError):
            os.close(os.open(f"{folder}/canary", os.O_CREAT | os.O_WRONLY))
            return True
    return False


if __name__ == "__main__":
    main()
