"""Settings of the whole process: float32."""

import itertools

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
