"""A small task for a sandbox, and one process that runs many submissions."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from roarbench.compute.builtin_network_table import NetworkSpec
from roarbench.compute.networks import build_network
from roarbench.submissions.run_in_sandbox import SandboxTask, derive_image_seeds
from roarbench.submissions.sandbox_process import SandboxExit
from roarbench.submissions.submission_calls import ExplainedPart
from tests.helpers.processes import PATIENCE

NETWORK = NetworkSpec("resnet-planted", classes=4, channels=3, size=16)
GRADIENT = """
import torch
def estimate(model, images, targets, generator):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]
"""


def make_task(source: str, n: int = 5, batch: int = 2) -> SandboxTask:
    generator = torch.Generator().manual_seed(0)
    model = build_network(**NETWORK._asdict(), generator=generator).eval()
    images = torch.randn(n, 3, 16, 16, generator=generator)
    part = ExplainedPart(model, images, torch.arange(n) % 4, derive_image_seeds(torch.arange(n) + 2**32), batch)
    return SandboxTask(source.encode(), NETWORK, (part,))


_SERVER = """
import os, socket, sys
asking = socket.socket(fileno=int(sys.argv.pop()))
sys.path[:0] = sys.argv[1].split(os.pathsep)
from roarbench.submissions import sandbox_program
while descriptors := socket.recv_fds(asking, 1, 3)[1]:
    if not os.fork():
        sandbox_program.main(*descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    status = os.wait()[1]
    asking.send(bytes([status >> 8 or status and 128 + status % 128]))
os._exit(0)
"""


@contextmanager
def serve_submissions(
    make_command: Callable[[str, list[str]], list[str]], *kept: int
) -> Iterator[Callable[..., SandboxExit]]:
    """Start a process that imports torch once and forks for each submission; it replaces `_run_and_close_pipe`."""
    here, there = socket.socketpair()
    here.settimeout(PATIENCE)
    with there:
        command = make_command("SERVER", [str(there.fileno())])
        (at,) = (at for at, word in enumerate(command) if word.endswith("/SERVER"))
        command[at : at + 1] = ["-c", _SERVER]
        process = subprocess.Popen(command, env={}, pass_fds=[*kept, there.fileno()])
    one_at_a_time = threading.Lock()

    def run(device: str, descriptors: list[int], started: int, *_: object) -> SandboxExit:
        assert device == "cpu"
        with one_at_a_time:
            socket.send_fds(here, [b"-"], descriptors)
            os.close(descriptors[-1])
            begun, (code,) = os.read(started, 1) == b".", here.recv(1)
        return SandboxExit(
            begun,
            stopped=None,
            code=code,
            output=b"",
            cpu=0.0,
            wall=0.0,
            peak=0,
            waited=0.0,
            machine_lacked_memory=False,
        )

    with here:
        yield run
    process.wait()
