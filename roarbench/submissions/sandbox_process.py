"""Start a sandbox, watch all its processes together in a control group, and end it. Nothing here imports torch.

With a control group, the kernel limits the total memory of the sandbox's processes, including the kernel memory that
the processes need, and measures their CPU time. Without a control group, the watchdog notices an exceeded limit only a
moment later, or not at all.
"""

import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from roarbench.submissions.limits_and_faults import MAX_FILES, MAX_OUTPUT_BYTES, MAX_PROCESSES, Limits, SubmissionFault

_MOUNT = Path("/sys/fs/cgroup")
_MAX_EMPTY_SECONDS = 60  # an empty control group is removed afterwards
_NEEDED_CONTROLLERS = {"memory", "pids"}
_OWN_PROCESSES = 8  # maximum processes of bubblewrap itself
_MAX_START_SECONDS = 300  # for the start of Python and torch on a busy machine
_CHECK_INTERVAL = 0.05  # seconds between checks; at 10 GB/s a process can take half a gigabyte between two checks
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# begins a command that joins the control group of the next argument and then runs the rest of the command
_JOIN = ("/bin/sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"')


def _read_number(file: Path, name: str) -> int:
    """Return the number after a name in a file of the kernel; 0 if there is none."""
    with suppress(OSError):
        lines = map(str.split, file.read_text().splitlines())
        return next((int(value) for key, value in lines if key == name), 0)
    return 0


def _count_kills_for_lack_of_memory() -> int:
    """Return how often the kernel has ended a process for lack of memory since the machine started."""
    return _read_number(Path("/proc/vmstat"), "oom_kill")


@cache
def find_parent_control_group() -> Path | None:
    """Return the innermost control group of this process that may have new subgroups; None if there is none."""
    with suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
        inner = _MOUNT / own if own is not None else None
        for folder in (inner, *inner.parents) if inner else ():
            if not folder.is_relative_to(_MOUNT):
                break
            if _can_create_group(folder):
                for group in folder.glob("roarbench-*"):  # empty groups that killed processes left behind
                    with suppress(OSError):  # the group has processes, another process removed it, or this user may not
                        if time.time() - group.stat().st_mtime > _MAX_EMPTY_SECONDS:
                            group.rmdir()
                return folder
    return None


def _can_create_group(parent: Path) -> bool:
    try:
        if not set((parent / "cgroup.subtree_control").read_text().split()) >= _NEEDED_CONTROLLERS:
            return False
        with _create_group(parent, 2**26) as group:
            command = [*_JOIN, str(group), "/bin/true"]
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@contextmanager
def _create_group(parent: Path, memory: int) -> Iterator[Path]:
    """Create a control group with limits of memory and processes; yield its folder."""
    group = parent / f"roarbench-{os.getpid()}-{secrets.token_hex(4)}"
    group.mkdir()
    limits = {"memory.max": memory, "memory.oom.group": 1, "pids.max": MAX_PROCESSES + _OWN_PROCESSES}
    for name, value in {**limits, "memory.swap.max": 0}.items():
        if (group / name).exists():  # kernels without swap have no file `memory.swap.max`
            (group / name).write_text(str(value))
    try:
        yield group
    finally:
        for _ in range(100):  # the kernel needs a moment to remove dead processes
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.01)


class SandboxExit(NamedTuple):
    """Exit status, output and resource use of a sandbox whose processes have all ended."""

    started: bool  # the submission's code started
    stopped: SubmissionFault | None  # exceeded limit; None if the sandbox ended by itself
    code: int  # exit status; 128 plus the signal's number after a signal
    output: bytes
    cpu: float  # observed CPU seconds
    wall: float  # wall seconds
    peak: int  # observed peak memory, bytes
    waited: float  # wall seconds in which no process used the CPU, from the start of the submission's code
    machine_lacked_memory: bool  # the kernel killed a process, here or elsewhere, for lack of memory


def run_within_limits(command: Sequence[str], descriptors: Sequence[int], started: int, limits: Limits) -> SandboxExit:
    """Run bubblewrap or Python with an empty environment and these file descriptors, until it ends or exceeds a limit.

    The command writes a byte into the pipe `started` when the submission's code begins.
    """
    start_time, parent = time.monotonic(), find_parent_control_group()
    with _create_group(parent, limits.memory) if parent else nullcontext() as group:
        process = subprocess.Popen(
            [*((*_JOIN, str(group)) if group else ()), *command],
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            start_new_session=True,
        )
        assert process.stdout is not None  # Popen has stdout=PIPE
        with process.stdout as pipe:
            os.set_blocking(pipe.fileno(), False)
            return _Watchdog(process, group, pipe.fileno(), started, limits, start_time).watch_until_end()


@dataclass
class _Watchdog:
    """Watchdog that ends a sandbox at a limit, and measures its use of resources."""

    process: "subprocess.Popen[bytes]"
    group: Path | None  # folder of the control group
    output_pipe: int
    start_pipe: int  # has a byte when the submission's code has started
    limits: Limits
    start_time: float
    output: bytearray = field(default_factory=bytearray)
    submission_started: bool = False
    output_is_open: bool = True  # the output pipe still has writers
    cpu: float = 0.0
    # seconds since the CPU time last changed; a pause of the whole machine adds at most `_CHECK_INTERVAL`
    idle: float = 0.0
    waited: float = 0.0  # all such seconds together, after the submission's start
    last_check: float = 0.0  # wall time of the most recent check
    peak: int = 0
    cpu_and_wall_at_start: tuple[float, float] | None = None  # times at the start of the submission's code
    first_process: int = 0  # id of the sandbox's first process: killing this process kills all others
    first_descriptor: int | None = None  # descriptor of the same process
    kills_before: int = field(default_factory=lambda: _count_kills_for_lack_of_memory())

    def watch_until_end(self) -> SandboxExit:
        stopped: SubmissionFault | None = None
        try:
            while self.process.poll() is None and stopped is None:
                select.select([self.output_pipe] if self.output_is_open else [], [], [], _CHECK_INTERVAL)
                stopped = self._find_exceeded_limit()
        finally:
            # with the sandbox's first process, all processes of its namespace end; then bubblewrap is killed
            self._find_first_process()
            if self.first_descriptor is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self.first_descriptor, signal.SIGKILL)
                select.select([self.first_descriptor], [], [])
                os.close(self.first_descriptor)
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._read_output()
        # `oom` counts this group's own limit; `oom_kill` also counts kills because the machine lacks memory
        if stopped is None and self.group and _read_number(self.group / "memory.events", "oom"):
            stopped, self.peak = SubmissionFault.MEMORY, max(self.peak, self.limits.memory)
        stopped = stopped or (SubmissionFault.PRINTED if len(self.output) > MAX_OUTPUT_BYTES else None)
        code = self.process.returncode
        return SandboxExit(
            started=self._has_submission_started(),
            stopped=stopped,
            code=128 - code if code < 0 else code,
            output=bytes(self.output[:MAX_OUTPUT_BYTES]),
            cpu=self.cpu,
            wall=time.monotonic() - self.start_time,
            peak=self.peak,
            waited=self.waited,
            machine_lacked_memory=_count_kills_for_lack_of_memory() > self.kills_before,
        )

    def _find_exceeded_limit(self) -> SubmissionFault | None:
        self._read_output()
        self._find_first_process()
        cpu, memory = _measure_cpu_and_memory(self.process.pid)
        cpu = _read_number(self.group / "cpu.stat", "usage_usec") / 1e6 if self.group else cpu
        # the sum counts pages that forked processes share several times, so measure exactly, which is slow, before
        # stopping the sandbox: shared pages are divided among processes
        if memory > self.limits.memory:
            memory = 0
            for process in _list_process_tree(self.process.pid):
                with suppress(OSError, ValueError):  # the process has ended
                    page_tables = _sum_bytes(process, "status", ("VmPTE",))
                    memory += page_tables + _sum_bytes(process, "smaps_rollup", ("Pss_Anon", "Pss_Shmem"))
        now = time.monotonic()
        waited = min(now - self.last_check, _CHECK_INTERVAL) if cpu == self.cpu else 0.0
        self.idle = self.idle + waited if waited else 0.0
        self.waited += waited if self.cpu_and_wall_at_start else 0.0
        self.last_check = now
        self.cpu, self.peak = max(self.cpu, cpu), max(self.peak, memory)
        if memory > self.limits.memory:
            return SubmissionFault.MEMORY
        if len(self.output) > MAX_OUTPUT_BYTES:
            return SubmissionFault.PRINTED
        with suppress(OSError):
            inside = Path(f"/proc/{self.first_process}/root/tmp")
            files = os.statvfs(inside)
            is_private = inside.stat().st_dev != Path("/tmp").stat().st_dev  # not this machine's own /tmp
            if is_private and files.f_files - files.f_ffree > MAX_FILES:
                return SubmissionFault.FILES
        if not self._has_submission_started():
            return SubmissionFault.TIME if now - self.start_time > _MAX_START_SECONDS else None
        self.cpu_and_wall_at_start = self.cpu_and_wall_at_start or (cpu, now)
        cpu_at_start, wall_at_start = self.cpu_and_wall_at_start
        if cpu - cpu_at_start > self.limits.cpu:
            return SubmissionFault.TIME
        waits = now - wall_at_start > self.limits.wall
        waits |= self.idle > self.limits.idle or self.waited > self.limits.waiting
        return SubmissionFault.CLOCK if waits else None

    def _has_submission_started(self) -> bool:
        self.submission_started = self.submission_started or bool(
            select.select([self.start_pipe], [], [], 0)[0] and os.read(self.start_pipe, 1)
        )
        return self.submission_started

    def _read_output(self) -> None:
        with suppress(BlockingIOError):
            while self.output_is_open and len(self.output) <= MAX_OUTPUT_BYTES:
                piece = os.read(self.output_pipe, 65536)
                self.output_is_open = bool(piece)
                self.output += piece

    def _find_first_process(self) -> None:
        if self.first_descriptor is None:
            for child in _list_children(self.process.pid):
                with suppress(OSError):
                    self.first_descriptor, self.first_process = os.pidfd_open(child), child


def _measure_cpu_and_memory(process: int) -> tuple[float, int]:
    """Return CPU time and memory of a process and its descendants, including the CPU time of ended descendants."""
    cpu, memory = 0.0, 0
    for member in _list_process_tree(process):
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
            # utime, stime, cutime, cstime, see proc_pid_stat(5)
            cpu += sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
            # private memory, shared memory and page tables; mapped files are not counted
            memory += _sum_bytes(member, "status", ("RssAnon", "RssShmem", "VmPTE"))
    return cpu, memory


def _sum_bytes(process: int, file: str, names: tuple[str, ...]) -> int:
    """Return the sum, in bytes, of the lines that begin with these names in a file of `/proc` about the process."""
    lines = Path(f"/proc/{process}/{file}").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(names))


def _list_process_tree(process: int) -> Iterator[int]:
    front = [process]
    while front:
        member = front.pop()
        yield member
        front += _list_children(member)


def _list_children(process: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                children += map(int, (thread / "children").read_text().split())
    return children
