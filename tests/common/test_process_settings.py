"""Settings of the whole process: compiler threads, sorts, and freed memory."""

import gc
import sys
from pathlib import Path

import pytest
import torch

from roarbench.common import process_settings


def test_limit_compiler_threads_divides_cores_between_processes(monkeypatch):
    monkeypatch.setattr(process_settings.os, "sched_getaffinity", lambda who: range(96))
    for processes, each in ((4, "24"), (1, "32"), (200, "1")):
        monkeypatch.setattr(process_settings.os, "environ", {})
        process_settings.limit_compiler_threads(processes)
        process_settings.limit_compiler_threads(5)  # a variable that is already set stays
        assert process_settings.os.environ == {"TORCHINDUCTOR_COMPILE_THREADS": each}


def test_search_for_garbage_pauses_in_a_block_and_keeps_its_setting():
    gc.unfreeze()  # `conftest` froze imported modules
    with process_settings.pause_garbage_collection():
        with pytest.raises(ValueError), process_settings.pause_garbage_collection():
            raise ValueError
        assert not gc.isenabled()
        made = [[]]
    assert gc.isenabled()
    assert any(known is made for known in gc.get_objects(2)), "searches of young records would pass through it"
    gc.freeze()


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
