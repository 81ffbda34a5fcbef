"""A small task for a sandbox."""

import torch

from roarbench.compute.networks import build_network
from roarbench.submissions.run_in_sandbox import ExplainedPart, Network, SandboxTask

NETWORK = Network("resnet-planted", classes=4, channels=3, size=16)
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
    part = ExplainedPart(model, images, torch.arange(n) % 4, torch.arange(n) + 2**32, batch)
    return SandboxTask(source.encode(), NETWORK, (part,))
