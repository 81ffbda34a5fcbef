"""Device settings: selection, memory, precision and clocks."""

import itertools
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch

from roarbench.common import device_settings
from roarbench.common.device_settings import (
    SHARING,
    choose_device,
    choose_precision,
    compute_gpu_bytes_per_worker,
    count_available_gpu_bytes,
    list_gpu_ids,
)
from roarbench.common.enums import Precision
from roarbench.common.errors import CallerError, MachineError
from roarbench.estimators.compute_maps import IMAGES_PER_PASS
from roarbench.execution import ranking_jobs, workload
from roarbench.execution import run_inputs as inputs
from roarbench.store.run_result import count_cores
from tests.helpers.tiny_suite import TEST, TRAIN, make_work


def test_list_gpu_ids_follows_cuda_visible_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert list_gpu_ids() == ("0", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5a,3")
    assert list_gpu_ids() == ("GPU-5a", "3")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert list_gpu_ids() == ()
    assert workload.choose_worker_count(None) == count_cores()
    monkeypatch.setattr(workload, "list_gpu_ids", lambda: ("0", "1", "2"))
    assert workload.choose_worker_count(None) == 3
    for count, side, workers in ((64, 64, 24), (64, 65, 3), (7, 32, 6), (1, 32, 3)):
        monkeypatch.setattr(workload, "count_cores", lambda count=count: count)
        assert workload.choose_worker_count(None, side) == workers, "up to 8 per GPU, one per core"


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
    assert ranking_jobs.choose_map_batch_size(work.suite, 18) == 4096
    monkeypatch.setenv(SHARING, "8")
    assert (count_available_gpu_bytes(), inputs.fits_in_memory(work.images, width)) == (1e9, False)
    assert ranking_jobs.choose_map_batch_size(work.suite, 18) == 512
    gpu_of_8_gb.free = 0
    assert ranking_jobs.choose_map_batch_size(work.suite, 18) == IMAGES_PER_PASS
    for free, own, workers, bytes_each in ((3, 4, 1, 7), (3, 0, 2, 3), (1, 3, 2, 4), (6, 0, 2, 4)):
        monkeypatch.setenv(SHARING, str(workers))  # memory that other processes hold is not available
        gpu_of_8_gb.free, gpu_of_8_gb.own = free * 10**9, own * 10**9
        assert count_available_gpu_bytes() == bytes_each * 10**9
        assert compute_gpu_bytes_per_worker() == 8 / workers * 10**9


@pytest.mark.parametrize(
    ("most", "expected"), [(None, True), ("", True), ("ALL", True), ("AVX512_CORE_BF16", True), ("avx2", False)]
)
def test_bf16_needs_instructions_that_onednn_may_use(monkeypatch, most, expected):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    if most is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", most)
    assert choose_precision(Precision.BF16, torch.device("cpu")) is (Precision.BF16 if expected else Precision.FLOAT32)


def test_choose_device_raises_when_worker_gpu_is_lost(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    monkeypatch.setenv(SHARING, "1")
    with pytest.raises(MachineError, match="the GPU of this process is no longer available"):
        choose_device()


PROGRAMS = {  # settings of a caller's program, in torch's older and newer ways
    "nothing": lambda: None,
    "older": lambda: torch.set_float32_matmul_precision("medium"),
    "newer, exact": lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
    "newer, products": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "newer, everything": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
}


def read_float32_settings():
    flags, tf32, products = torch.backends.cudnn, True, "highest"
    with suppress(RuntimeError):  # torch refuses to read the older settings if the program has set newer ones
        tf32 = flags.allow_tf32
    with suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
    parts = [part.fp32_precision for part in device_settings.list_float32_backends()]
    return (flags.enabled, flags.benchmark, flags.deterministic, tf32), products, parts


@pytest.mark.parametrize("program", PROGRAMS)
def test_use_exact_float32_restores_settings(program):
    """Torch raises an error when code reads an older setting that contradicts a newer one."""
    everything, all_of_cudnn = torch.backends.fp32_precision, torch.backends.cudnn.fp32_precision
    with device_settings.use_exact_float32():  # puts torch's own settings back after the test
        PROGRAMS[program]()
        before = read_float32_settings()
        with device_settings.use_exact_float32():
            cudnn, products, parts = read_float32_settings()
            assert set(parts) == {"ieee"} and products == "highest"
            assert cudnn == (True, False, True, False)
            with torch.backends.cudnn.flags(enabled=False):  # as a library may do
                pass
        assert read_float32_settings() == before
        torch.backends.fp32_precision = everything
        torch.backends.cudnn.fp32_precision = all_of_cudnn  # `cudnn.flags` has set it to an inherited value


def test_use_exact_float32_lasts_until_last_block_exits():
    """Threads may exit their blocks in any order."""
    before = read_float32_settings()
    for order in itertools.permutations(range(3)):
        blocks = [device_settings.use_exact_float32() for _ in order]
        for block in blocks:
            block.__enter__()
        for number in order:
            assert read_float32_settings()[0] == (True, False, True, False)
            blocks[number].__exit__(None, None, None)
        assert read_float32_settings() == before
