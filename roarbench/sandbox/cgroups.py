"""A control group of Linux (cgroup v2) around a sandbox, where one can be had. Nothing here imports torch.

The kernel itself then holds all processes of the sandbox together to their memory, what it needs for them included, and
counts their processor time; the watchdog would see both a moment later, or not at all.
"""

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from roarbench.sandbox.limits import PROCESSES

_MOUNT = Path("/sys/fs/cgroup")
_NEEDED = {"memory", "pids"}
_OWN_PROCESSES = 8  # bubblewrap's beside the submission's
_OLD = 60.0  # seconds after which a group that nobody is in was left by a process that was killed


class ControlGroup(NamedTuple):
    """Group that a sandbox runs in."""

    folder: Path

    def joining(self) -> list[str]:
        """Return the beginning of a command, which joins the group before the rest is run."""
        return ["/bin/sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', str(self.folder)]

    @property
    def cpu(self) -> float:
        """Return the processor seconds of all processes that were ever in it."""
        return self._number("cpu.stat", "usage_usec") / 1e6

    @property
    def overflowed(self) -> bool:
        """Return whether the kernel killed it for want of memory within its limit."""
        return self._number("memory.events", "oom_kill") > 0

    def _number(self, file: str, name: str) -> int:
        with suppress(OSError):
            lines = map(str.split, (self.folder / file).read_text().splitlines())
            return next((int(value) for key, value in lines if key == name), 0)
        return 0


@contextmanager
def make_control_group(memory: int) -> Iterator[ControlGroup | None]:
    """Yield a new group that ends with the block; None where none can be had."""
    parent = find_parent_group()
    with _group_in(parent, memory) if parent else nullcontext() as group:
        yield group


@cache
def find_parent_group() -> Path | None:
    """Return the group, of those around this process from the inside out, where another one can be made and joined."""
    with suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
        inner = _MOUNT / own if own is not None else None
        for folder in (inner, *inner.parents) if inner else ():
            if not folder.is_relative_to(_MOUNT):
                break
            if _serves(folder):
                return folder
    return None


def _serves(parent: Path) -> bool:
    try:
        if not set((parent / "cgroup.subtree_control").read_text().split()) >= _NEEDED:
            return False
        for left in parent.glob("roarbench-*"):
            if time.time() - left.stat().st_mtime > _OLD:
                with suppress(OSError):  # somebody is in it
                    left.rmdir()
        with _group_in(parent, 2**26) as group:
            return subprocess.run([*group.joining(), "/bin/true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@contextmanager
def _group_in(parent: Path, memory: int) -> Iterator[ControlGroup]:
    group = ControlGroup(parent / f"roarbench-{os.getpid()}-{secrets.token_hex(4)}")
    group.folder.mkdir()
    limits = {"memory.max": memory, "memory.oom.group": 1, "pids.max": PROCESSES + _OWN_PROCESSES}
    limits["memory.swap.max"] = 0
    for path, value in ((group.folder / file, value) for file, value in limits.items()):
        if path.exists():  # not every kernel swaps
            path.write_text(str(value))
    try:
        yield group
    finally:
        for _ in range(100):  # the kernel takes a moment to forget processes that are dead
            with suppress(OSError):
                group.folder.rmdir()
                break
            time.sleep(0.01)
