"""Where tensors are computed."""

import pytest
import torch

from roarbench.devices import device


@pytest.mark.parametrize(("there", "expected"), [(True, "cuda"), (False, "cpu")])
def test_a_gpu_is_taken_where_there_is_one(monkeypatch, there, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert device() == torch.device(expected)
