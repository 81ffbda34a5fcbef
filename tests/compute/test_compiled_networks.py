"""Compiled networks; tests/compute/test_steps.py has failures of the compiler."""

from functools import partial

import pytest
import torch

from roarbench.compute.compiled_networks import VARIANTS, compile_network
from roarbench.compute.networks import build_network

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of torch's compiler


@pytest.mark.slow
def test_compile_network_compiles_each_image_size_once(monkeypatch):
    """After eight variants of a class of networks torch stops compiling, and only its log says so."""
    graphs = []

    def count_graph(graph, examples):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=count_graph))
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 8)  # torch's default; restored after the test
    torch.compiler.reset()
    for seed, side in enumerate([8, 8, *range(10, 26, 2), 8]):
        forward = compile_network(build_network("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed)))
        forward(torch.zeros(2, 3, side, side))
    assert len(graphs) == 9 < VARIANTS
    torch.compiler.reset()


def test_compile_network_switches_off_slow_option_of_compiler():
    import torch._inductor.config as inductor

    compile_network(torch.nn.Linear(3, 2))
    assert not getattr(inductor, "loop_reindexing_after_fusion", False)
