"""Compiled networks: each image size is compiled once, and any failure of the compiler leaves the network eager."""

from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from roarbench.compute import compiled_networks
from roarbench.compute.compiled_networks import (
    VARIANTS,
    CompilerFailed,
    compile_network,
    describe_compilation_failure,
    run_compiled_backward,
)
from roarbench.compute.networks import build_network

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of torch's compiler


@pytest.fixture(autouse=True)
def nothing_compiled_yet(monkeypatch):
    """Forget earlier failures of the compiler, and the shapes it logged."""
    monkeypatch.setattr(compiled_networks, "_COMPILER_FAILURES", [])
    monkeypatch.setattr(compiled_networks, "_COMPILED_SHAPES", set())


def replace_compiled_code(monkeypatch, forward):
    """Let torch compile every network to this function."""
    monkeypatch.setattr(torch, "compile", lambda model, **options: forward)


@pytest.mark.slow
def test_compile_network_compiles_each_image_size_once(monkeypatch):
    """After eight variants of a class of networks torch stops compiling, and only its log says so."""
    graphs = []

    def counting(graph, examples):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counting))
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 8)  # torch's default; restored after the test
    torch.compiler.reset()
    for seed, side in enumerate([8, 8, *range(10, 26, 2), 8]):
        forward = compile_network(build_network("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed)))
        forward(torch.zeros(2, 3, side, side))
    assert len(graphs) == 9 < VARIANTS
    torch.compiler.reset()


@pytest.mark.slow
def test_compile_network_falls_back_when_compiler_is_missing(monkeypatch):
    def failing(graph, examples):
        raise RuntimeError("Failed to find\nC compiler.")

    tries, images = [], torch.randn(2, 3, 16, 16)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=failing))
    torch.compiler.reset()
    assert describe_compilation_failure() == ""
    for seed in (0, 1):
        model = build_network("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed)).eval()
        assert torch.equal(compile_network(model)(images), model(images))
        monkeypatch.setattr(torch, "compile", lambda model, **rest: lambda images: tries.append(1) or model(images))
    assert tries == []  # each try would take seconds
    line = "training is not compiled and therefore slower (Failed to find C compiler.); see roarbench doctor"
    assert describe_compilation_failure() == line
    torch.compiler.reset()


class TritonMissing(Exception):
    """A compiler error that is no class of torch's dynamo."""


@pytest.mark.parametrize("kind", [TritonMissing, AssertionError, RuntimeError])
def test_compile_network_falls_back_after_any_compiler_error(kind, monkeypatch):
    model, images = torch.nn.Linear(3, 2), torch.randn(4, 3)
    replace_compiled_code(monkeypatch, Mock(side_effect=kind("Triton 1.0 is too old")))
    assert torch.equal(compile_network(model)(images), model(images))
    assert "Triton 1.0 is too old" in describe_compilation_failure()


def test_compile_network_logs_each_shape_once(monkeypatch, caplog):
    replace_compiled_code(monkeypatch, lambda images: caplog.messages.copy())
    said = []
    for images in (torch.zeros(4, 3), torch.zeros(4, 3), torch.zeros(2, 3)):  # of three networks of one kind
        said.append(len(compile_network(torch.nn.Linear(3, 2))(images)))
    assert said == [1, 1, 2], "before the compiler is called"
    assert caplog.messages[0] == "compiling the network for images of shape (4, 3); this can take minutes"


def test_compile_network_raises_out_of_memory_error(monkeypatch):
    def forward(images):
        raise ValueError("of the compiler") from torch.OutOfMemoryError("CUDA out of memory")

    replace_compiled_code(monkeypatch, forward)
    with pytest.raises(torch.OutOfMemoryError):
        compile_network(torch.nn.Linear(3, 2))(torch.randn(4, 3))
    assert describe_compilation_failure() == ""


def test_run_compiled_backward_distinguishes_compiler_errors():
    def run_backward(error):
        run_compiled_backward(SimpleNamespace(backward=Mock(side_effect=error)))

    with pytest.raises(torch.OutOfMemoryError):
        run_backward(torch.OutOfMemoryError("CUDA out of memory"))
    assert describe_compilation_failure() == ""
    with pytest.raises(CompilerFailed):
        run_backward(TritonMissing("ptxas is too old"))
    assert "ptxas is too old" in describe_compilation_failure()
    with pytest.raises(ValueError, match="the network's own"):  # nothing is compiled any more
        run_backward(ValueError("the network's own"))


def test_compile_network_disables_loop_reindexing_option(monkeypatch):
    import torch._inductor.config as inductor

    if not hasattr(inductor, "loop_reindexing_after_fusion"):
        pytest.skip("this version of torch lacks the option")
    monkeypatch.setattr(inductor, "loop_reindexing_after_fusion", True)
    compile_network(torch.nn.Linear(3, 2))
    assert inductor.loop_reindexing_after_fusion is False


def test_compile_network_works_without_loop_reindexing_option(monkeypatch):
    """Older versions of torch lack the option, and their module of options rejects unknown names."""
    import torch._inductor.config as inductor

    monkeypatch.delitem(inductor._config, "loop_reindexing_after_fusion", raising=False)
    with pytest.raises(AttributeError):
        inductor.loop_reindexing_after_fusion = False
    replace_compiled_code(monkeypatch, lambda images: "compiled")
    assert compile_network(torch.nn.Linear(3, 2))(torch.zeros(1, 3)) == "compiled"


def test_compile_network_returns_model_when_compiler_cannot_start(monkeypatch):
    """torch rejects versions of Python that are newer than itself."""
    model, refused = torch.nn.Linear(3, 2), Mock(side_effect=RuntimeError("not supported on Python 3.99+"))
    monkeypatch.setattr(torch, "compile", refused)
    assert compile_network(model) is model
    assert "not supported on Python 3.99+" in describe_compilation_failure()
