"""Device settings: selection, memory, precision and compilation."""

from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from roarbench.common import device_settings
from roarbench.common.device_settings import (
    SHARING,
    CompilerFailed,
    choose_device,
    compile_network,
    compute_gpu_bytes_per_worker,
    count_available_gpu_bytes,
    list_gpu_ids,
)
from roarbench.common.errors import CallerError, MachineError
from roarbench.compute.networks import build_network
from roarbench.compute.train import use_fastest_exact_kernels
from roarbench.datasets.catalogue import find_dataset
from roarbench.estimators.compute_maps import IMAGES_PER_PASS
from roarbench.execution import count_and_start_workers, importance_maps
from roarbench.execution import run_inputs as inputs
from roarbench.store.software_and_hardware import count_cores
from tests.helpers.tiny_suite import TEST, TRAIN, make_work

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of torch's compiler


@pytest.fixture(autouse=True)
def nothing_compiled_yet(monkeypatch):
    """Forget earlier failures of the compiler, and the shapes it logged."""
    monkeypatch.setattr(device_settings, "_COMPILER_FAILURES", [])
    monkeypatch.setattr(device_settings, "_COMPILED_SHAPES", set())


def replace_compiled_code(monkeypatch, forward):
    """Let torch compile every network to this function."""
    monkeypatch.setattr(torch, "compile", lambda model, **options: forward)


def test_list_gpu_ids_follows_cuda_visible_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert list_gpu_ids() == ("0", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5a,3")
    assert list_gpu_ids() == ("GPU-5a", "3")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert list_gpu_ids() == ()
    assert count_and_start_workers.count_default_workers() == count_cores()
    monkeypatch.setattr(count_and_start_workers, "list_gpu_ids", lambda: ("0", "1", "2"))
    assert count_and_start_workers.count_default_workers() == 3
    for count, side, workers in ((64, 64, 24), (64, 65, 3), (7, 32, 6), (1, 32, 3)):
        monkeypatch.setattr(count_and_start_workers, "count_cores", lambda count=count: count)
        assert count_and_start_workers.count_default_workers(side) == workers, "up to 8 per GPU, one per core"


def test_list_gpu_ids_raises_cuda_error_message(monkeypatch):
    """NVML still lists GPUs under a driver that is too old; CUDA is a mock, because tests run on a CPU."""

    def too_old():
        raise RuntimeError("The NVIDIA driver on your system is too old\n(found version 11040).")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "init", too_old)
    with pytest.raises(CallerError) as refused:
        list_gpu_ids()
    assert str(refused.value) == (
        "the driver lists 1 GPU, but CUDA fails: The NVIDIA driver on your system is too old (found version 11040).; "
        "see `roarbench doctor`, or set CUDA_VISIBLE_DEVICES= to use the CPU"
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert list_gpu_ids() == ()


@pytest.fixture
def gpu_of_8_gb(monkeypatch):
    monkeypatch.delenv(SHARING, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    held = SimpleNamespace(free=8 * 10**9, own=0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda where: (held.free, 8 * 10**9))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda where: held.own)
    return held


def test_available_gpu_bytes_are_shared_between_workers(gpu_of_8_gb, monkeypatch, tmp_path):
    work = make_work(tmp_path)
    width = 10**9 // (TRAIN + TEST)  # bytes of removed bits of an image: 1 GB in all
    assert (count_available_gpu_bytes(), inputs.fits_in_memory(work.images, width)) == (8e9, True)
    assert importance_maps.choose_map_batch_size(work.suite, 18) == 4096
    monkeypatch.setenv(SHARING, "8")
    assert (count_available_gpu_bytes(), inputs.fits_in_memory(work.images, width)) == (1e9, False)
    assert importance_maps.choose_map_batch_size(work.suite, 18) == 512
    gpu_of_8_gb.free = 0
    assert importance_maps.choose_map_batch_size(work.suite, 18) == IMAGES_PER_PASS
    for free, own, workers, bytes_each, why in (  # memory that other processes hold is not available
        (3, 4, 1, 7, "memory of this process counts"),
        (3, 0, 2, 3, "less than its share"),
        (1, 3, 2, 4, "all of its share"),
        (6, 0, 2, 4, "no more than its share"),
    ):
        monkeypatch.setenv(SHARING, str(workers))
        gpu_of_8_gb.free, gpu_of_8_gb.own = free * 10**9, own * 10**9
        assert count_available_gpu_bytes() == bytes_each * 10**9, why
        assert compute_gpu_bytes_per_worker() == 8 / workers * 10**9


def test_choose_device_raises_when_worker_gpu_is_lost(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    monkeypatch.setenv(SHARING, "1")
    with pytest.raises(MachineError, match="the GPU of this process is no longer available"):
        choose_device()


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
    assert len(graphs) == 9 < device_settings.VARIANTS
    torch.compiler.reset()


@pytest.mark.slow
def test_compile_network_falls_back_when_compiler_is_missing(monkeypatch):
    def failing(graph, examples):
        raise RuntimeError("Failed to find\nC compiler.")

    tries, images = [], torch.randn(2, 3, 16, 16)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=failing))
    torch.compiler.reset()
    assert device_settings.describe_compilation_failure() == ""
    for seed in (0, 1):
        model = build_network("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed)).eval()
        assert torch.equal(compile_network(model)(images), model(images))
        monkeypatch.setattr(torch, "compile", lambda model, **rest: lambda images: tries.append(1) or model(images))
    assert tries == []  # each try would take seconds
    line = "training is not compiled and therefore slower (Failed to find C compiler.); see roarbench doctor"
    assert device_settings.describe_compilation_failure() == line
    torch.compiler.reset()


class TritonMissing(Exception):
    """A compiler error that is no class of torch's dynamo."""


@pytest.mark.parametrize("kind", [TritonMissing, AssertionError, RuntimeError])
def test_compile_network_falls_back_after_any_compiler_error(kind, monkeypatch):
    model, images = torch.nn.Linear(3, 2), torch.randn(4, 3)
    replace_compiled_code(monkeypatch, Mock(side_effect=kind("Triton 1.0 is too old")))
    assert torch.equal(compile_network(model)(images), model(images))
    assert "Triton 1.0 is too old" in device_settings.describe_compilation_failure()


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
    assert device_settings.describe_compilation_failure() == ""


def test_run_compiled_backward_distinguishes_compiler_errors():
    def run_backward(error):
        device_settings.run_compiled_backward(SimpleNamespace(backward=Mock(side_effect=error)))

    with pytest.raises(torch.OutOfMemoryError):
        run_backward(torch.OutOfMemoryError("CUDA out of memory"))
    assert device_settings.describe_compilation_failure() == ""
    with pytest.raises(CompilerFailed):
        run_backward(TritonMissing("ptxas is too old"))
    assert "ptxas is too old" in device_settings.describe_compilation_failure()
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
    assert "not supported on Python 3.99+" in device_settings.describe_compilation_failure()


def test_let_cudnn_choose_kernels_keeps_float32_exact():
    cudnn = torch.backends.cudnn
    with use_fastest_exact_kernels():
        assert (cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (True, False, False)


def test_gpu_clock_reads_wall_time_after_synchronization(monkeypatch):
    """Processor time would count other threads that draw noise, and the wait for the GPU."""
    done = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: done.append("waited"))
    monkeypatch.setattr(device_settings.time, "perf_counter", lambda: done.append("read") or 7.0)
    assert device_settings.choose_processor_or_gpu_clock(torch.device("cuda"))() == 7.0
    assert done == ["waited", "read"]
    assert device_settings.choose_processor_or_gpu_clock(torch.device("cpu")) is device_settings.time.process_time


def test_imagenet_128_fits_h200_memory_but_not_h100():
    record = find_dataset("imagenet-128")
    features = record.channels * record.size**2
    needed = (record.train_images + record.test_images) * (features + features // 8)
    h200, h100 = 141e9, 80e9
    assert needed < 0.9 * inputs.MEMORY_SHARE * h200 and needed > 1.1 * inputs.MEMORY_SHARE * h100
