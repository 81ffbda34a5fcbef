"""Where tensors are computed."""

import pytest
import torch

from roarbench import session
from roarbench.devices import device, gpus
from roarbench.store.provenance import cores


@pytest.mark.parametrize(("there", "expected"), [(True, "cuda"), (False, "cpu")])
def test_a_gpu_is_taken_where_there_is_one(monkeypatch, there, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert device() == torch.device(expected)


def test_gpus_are_named_as_the_user_named_them(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus() == ("0", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5a,3")
    assert gpus() == ("GPU-5a", "3")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert gpus() == ()


def test_one_worker_for_each_gpu_else_for_each_core(monkeypatch) -> None:
    monkeypatch.setattr(session, "gpus", lambda: ("0", "1", "2"))
    assert session.default_workers() == 3
    monkeypatch.setattr(session, "gpus", lambda: ())
    assert session.default_workers() == cores()
