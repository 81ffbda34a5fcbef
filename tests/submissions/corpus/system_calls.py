import ctypes

import torch

NAME = "system-calls"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    libc = ctypes.CDLL(None, use_errno=True)
    PTRACE_ATTACH, CLONE_NEWUSER, CLONE_NEWNS = 16, 0x10000000, 0x20000
    calls = {
        "ptrace": lambda: libc.ptrace(PTRACE_ATTACH, 1, 0, 0),
        "unshare user": lambda: libc.unshare(CLONE_NEWUSER),
        "unshare mounts": lambda: libc.unshare(CLONE_NEWNS),
        "mount": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
        "memfd_create": lambda: libc.memfd_create(b"x", 0),
        "bpf": lambda: libc.syscall(321, 0, 0, 0),
        "io_uring_setup": lambda: libc.syscall(425, 1, 0),
        "keyctl": lambda: libc.syscall(250, 0, 0),
        "userfaultfd": lambda: libc.syscall(323, 0),
        "shmget": lambda: libc.shmget(0, 4096, 0o1600),
    }
    through = [name for name, call in calls.items() if call() != -1]
    assert not through, through
    return gradient(model, images, targets)
