"""Settings of the whole process: float32, compiler threads, sorts, and freed memory."""

import itertools
import sys
from pathlib import Path

import pytest
import torch

from roarbench.common import process_settings

PROGRAMS = {  # settings of a caller's program, in torch's older and newer ways
    "nothing": lambda: None,
    "older": lambda: torch.set_float32_matmul_precision("medium"),
    "newer, exact": lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
    "newer, products": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "newer, everything": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_use_exact_float32_restores_settings(program):
    """Torch raises an error when code reads an older setting that contradicts a newer one."""
    everything, all_of_cudnn = torch.backends.fp32_precision, torch.backends.cudnn.fp32_precision
    with process_settings.use_exact_float32():  # puts torch's own settings back after the test
        PROGRAMS[program]()
        before = process_settings._read_float32_settings()
        with process_settings.use_exact_float32():
            exact = process_settings._read_float32_settings()
            assert set(exact.parts) == {"ieee"} and exact.products == "highest"
            assert exact.cudnn == (True, False, True, False)
            with torch.backends.cudnn.flags(enabled=False):  # as a library may do
                pass
        assert process_settings._read_float32_settings() == before
        torch.backends.fp32_precision = everything
        torch.backends.cudnn.fp32_precision = all_of_cudnn  # `cudnn.flags` has set it to an inherited value


def test_use_exact_float32_lasts_until_last_block_exits():
    """Threads may exit their blocks in any order."""
    before = process_settings._read_float32_settings()
    for order in itertools.permutations(range(3)):
        blocks = [process_settings.use_exact_float32() for _ in order]
        for block in blocks:
            block.__enter__()
        for number in order:
            assert process_settings._read_float32_settings().cudnn == (True, False, True, False)
            blocks[number].__exit__(None, None, None)
        assert process_settings._read_float32_settings() == before


def test_limit_compiler_threads_divides_cores_between_processes(monkeypatch):
    monkeypatch.setattr(process_settings.os, "sched_getaffinity", lambda who: range(96))
    for processes, each in ((4, "24"), (1, "32"), (200, "1")):
        monkeypatch.setattr(process_settings.os, "environ", {})
        process_settings.limit_compiler_threads(processes)
        process_settings.limit_compiler_threads(5)  # a variable that is already set stays
        assert process_settings.os.environ == {"TORCHINDUCTOR_COMPILE_THREADS": each}


PROCESSOR = "processor\t: 0\nvendor_id\t: {}\ncpu family\t: {}\nflags\t\t: fpu avx2 {}\n\nprocessor\t: 1\n"


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "slow"),
    [
        ("AuthenticAMD", 25, "avx512f avx512dq", True),  # Zen 4
        ("AuthenticAMD", 25, "fma", False),  # Zen 3
        ("AuthenticAMD", 26, "avx512f", False),  # Zen 5
        ("GenuineIntel", 6, "avx512f", False),
    ],
)
def test_avx512_sorts_are_disabled_only_on_zen_4(monkeypatch, tmp_path, vendor, family, flags, slow):
    (tmp_path / "cpuinfo").write_text(PROCESSOR.format(vendor, family, flags))
    monkeypatch.setattr(process_settings, "Path", lambda name: tmp_path / name.rpartition("/")[2])
    for before in ({}, {"NPY_DISABLE_CPU_FEATURES": "AVX512_SPR"}):  # a variable that is already set stays
        monkeypatch.setattr(process_settings.os, "environ", dict(before))
        process_settings.disable_slow_avx512_sorts()
        disabled = process_settings.os.environ.get("NPY_DISABLE_CPU_FEATURES", "")
        assert process_settings.os.environ == before if before or not slow else "X86_V4" in disabled


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc keeps freed memory")
def test_release_freed_cpu_memory_returns_memory_to_system():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1])

    process_settings.keep_freed_cpu_memory()
    used = torch.ones(2**25)  # 128 MB
    whole = resident()
    del used
    process_settings.release_freed_cpu_memory()
    assert resident() < whole - 2**14  # pages of 4 kB
