"""Build a seccomp filter that blocks system calls that no estimator needs. Nothing here imports torch.

libseccomp knows the names and numbers of system calls. Blocked calls return "not permitted"; the filter kills programs
that were compiled for another processor type.
"""

import errno
import mmap
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pyseccomp

_REFUSED = (
    # network and inter-process communication; the network namespace is empty anyway
    *("socket", "socketpair", "shmget", "msgget", "semget", "mq_open", "add_key", "request_key", "keyctl"),
    # memory outside the limits
    *("memfd_create", "memfd_secret", "userfaultfd"),
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp", "perf_event_open"),
    # new namespaces and mounts, and handles to files outside the tree
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "mount_setattr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "open_by_handle_at", "name_to_handle_at", "fanotify_init", "quotactl"),
    # parts of the kernel with frequent vulnerabilities
    *("bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "personality", "lookup_dcookie", "vmsplice"),
    # settings of the machine
    *("acct", "reboot", "swapon", "swapoff", "init_module", "finit_module", "delete_module", "kexec_load", "syslog"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "iopl", "ioperm"),
)
_NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)  # CLONE_NEW* flags
_SHARED = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS  # such memory stays allocated even if no page table maps its pages
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: input into the terminal of the command


@cache
def build_filter(gpu: bool = False) -> bytes:
    """Return the filter in the kernel's format; `gpu` permits shared anonymous memory, which NVIDIA's driver needs."""
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    refused = pyseccomp.ERRNO(errno.EPERM)
    for name in _REFUSED:
        rules.add_rule(refused, name)
    for flag in _NAMESPACES:
        rules.add_rule(refused, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    for request in _TERMINAL:
        rules.add_rule(refused, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    # no process may handle or ignore SIGCHLD: if a parent ignores it, the kernel does not count the children's CPU time
    ends = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 0xFFFFFFFF, signal.SIGCHLD)
    rules.add_rule(refused, "rt_sigaction", ends, pyseccomp.Arg(1, pyseccomp.NE, 0))
    if not gpu:
        rules.add_rule(refused, "mmap", pyseccomp.Arg(3, pyseccomp.MASKED_EQ, _SHARED, _SHARED))
    # clone3 has its flags in memory, where a filter cannot read them; after ENOSYS the C library calls `clone` instead
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        return os.pread(file.fileno(), 2**20, 0)


@contextmanager
def open_filter(gpu: bool = False) -> Iterator[int]:
    """Yield the descriptor of a memory file that contains the filter, positioned at its start."""
    descriptor = os.memfd_create("policy")
    try:
        os.write(descriptor, build_filter(gpu))
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
